"""What systemctl printed."""

from hearth.control_client.systemd_unit import Unit, parse, path_in, start_hint, unit_name
from hearth.paths import Places

SHOWN = """\
Id=mcp.service
LoadState=loaded
ActiveState=active
Result=success
MainPID=77
FragmentPath=/home/u/.config/systemd/user/mcp.service
"""


def held(active: str, installed: bool = True) -> Unit:
    return Unit("mcp.socket", installed, active, "service-start-limit-hit", 0, "")


def test_a_loaded_unit_is_installed_and_has_its_pid() -> None:
    found = parse("mcp.service", SHOWN)
    assert (found.installed, found.active, found.pid) == (True, "active", 77)


def test_a_unit_that_the_manager_does_not_know_is_not_installed() -> None:
    assert not parse("mcp.service", "LoadState=not-found\nActiveState=inactive\nMainPID=\n").installed
    assert not parse("mcp.service", "").installed


def test_a_profile_is_an_instance_and_a_config_by_path_has_no_unit() -> None:
    assert unit_name(Places(), "socket") == "mcp.socket"
    assert unit_name(Places("work"), "service") == "mcp@work.service"
    assert unit_name(Places(config="/tmp/x.toml"), "socket") is None


def test_what_lights_the_daemon_depends_on_the_socket_unit() -> None:
    assert "first bridge" in start_hint(None)
    assert "first bridge" in start_hint(held("inactive", installed=False))
    assert "first connection" in start_hint(held("active"))
    assert "enable --now mcp.socket" in start_hint(held("inactive"))
    assert "reset-failed" in start_hint(held("failed"))


def test_the_path_of_a_unit_is_read_as_systemctl_quotes_it() -> None:
    assert path_in("LANG=C PATH=/a:/b X=1") == "/a:/b"
    assert path_in(r""""PATH=/a b:/c\$d:/q\\w\"z" X=1""") == r"""/a b:/c$d:/q\w"z"""
    # What is set last holds.
    assert path_in("PATH=/a PATH=/b") == "/b"
    assert path_in("LD_LIBRARY_PATH=/a") is None
    assert path_in("") is None


def test_a_unit_of_the_system_is_not_the_user_s_to_ask_for() -> None:
    assert "`systemctl enable --now mcp-user@7.socket`" in start_hint(
        held("inactive")._replace(name="mcp-user@7.socket")
    )

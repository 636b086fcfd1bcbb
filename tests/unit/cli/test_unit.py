"""What systemctl printed."""

from hearth.cli.unit import Unit, lights, parse, unit_name
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
    assert "first bridge" in lights(None)
    assert "first bridge" in lights(held("inactive", installed=False))
    assert "first connection" in lights(held("active"))
    assert "enable --now mcp.socket" in lights(held("inactive"))
    assert "reset-failed" in lights(held("failed"))

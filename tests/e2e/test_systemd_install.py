"""`hearth install` and `hearth uninstall` as typed, with a real user manager."""

import json

import pytest

from e2e.systemd.seat import SERVICE, SOCKET, Seat
from support.kernel import until

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]


def unit_files(seat: Seat) -> set[str]:
    """Everything below the user's systemd folder, relative to it."""
    listed = seat.run("find", f"{seat.user.home}/.config/systemd", "-not", "-type", "d", "-printf", "%P\n")
    return set(listed.stdout.split())


DROP_IN = "mcp.service.d/10-hearth-path.conf"
PORT = "mcp-http.socket"
INSTALLED = {*(f"user/{name}" for name in (SOCKET, SERVICE, PORT, DROP_IN)), "user/sockets.target.wants/mcp.socket"}


def test_install_puts_the_units_in_place_and_has_systemd_listen(bare_seat: Seat) -> None:
    assert bare_seat.socket in bare_seat.ok("install")
    assert unit_files(bare_seat) == INSTALLED
    assert bare_seat.state(SOCKET) == "active"
    assert bare_seat.installation.python in bare_seat.show("ExecStart")


def test_installing_again_changes_nothing(seat: Seat) -> None:
    seat.attached_bridge()
    before = seat.show("MainPID")
    document = json.loads(seat.hearth("install", "--json").stdout)
    assert (document["written"], document["unchanged"]) == ([], [SOCKET, SERVICE, PORT, DROP_IN])
    assert document["enabled"] is True
    assert seat.show("MainPID") == before


def test_a_dry_run_says_what_it_would_do_and_does_nothing(bare_seat: Seat) -> None:
    document = json.loads(bare_seat.hearth("install", "--dry-run", "--json").stdout)
    assert (document["dryRun"], document["enabled"]) == (True, False)
    assert document["written"] == [SOCKET, SERVICE, PORT, DROP_IN]
    assert "would write" in bare_seat.hearth("install", "--dry-run").stdout
    assert unit_files(bare_seat) == set()


def test_no_enable_writes_the_units_and_says_what_to_type(bare_seat: Seat) -> None:
    assert "systemctl --user enable --now mcp.socket" in bare_seat.hearth("install", "--no-enable").stdout
    assert bare_seat.state(SOCKET) == "inactive"
    bare_seat.systemctl("enable", "--now", SOCKET)
    bare_seat.configure()
    assert bare_seat.attached_bridge().is_alive


def test_install_works_in_a_shell_that_lacks_the_variables_of_a_login(bare_seat: Seat) -> None:
    done = bare_seat.run(bare_seat.installation.hearth, "install", environment=bare_seat.user.client_environment)
    assert done.returncode == 0, done.stderr
    assert bare_seat.state(SOCKET) == "active"


def test_a_unit_of_somebody_else_is_left_as_it_is(bare_seat: Seat) -> None:
    path = f"{bare_seat.user.home}/.config/systemd/user/{SERVICE}"
    bare_seat.write(path, "[Service]\nExecStart=/bin/true\n")
    done = bare_seat.hearth("install")
    assert done.returncode == 1
    assert path in done.stderr
    bare_seat.ok("uninstall")
    assert bare_seat.check("cat", path) == "[Service]\nExecStart=/bin/true\n"
    assert unit_files(bare_seat) == {f"user/{SERVICE}"}


def test_a_masked_unit_is_said_to_be_masked(bare_seat: Seat) -> None:
    bare_seat.systemctl("mask", SOCKET)
    done = bare_seat.hearth("install")
    assert done.returncode == 1
    assert f"systemctl --user unmask {SOCKET}" in done.stderr


def test_uninstall_takes_everything_away_and_an_attached_bridge_goes_on(seat: Seat) -> None:
    client = seat.attached_bridge()
    seat.ok("uninstall")
    assert unit_files(seat) == set()
    assert seat.run("test", "-e", f"{seat.user.home}/.config/systemd").returncode == 1
    assert seat.show("LoadState", SOCKET) == "not-found"
    assert seat.show("LoadState", SERVICE) == "not-found"
    assert seat.run("test", "-e", seat.socket).returncode == 1
    assert seat.processes("hearth.daemon") == []
    assert client.call("desk__echo", text="alone") == "alone"
    assert seat.status()["activation"] == "self"


def test_uninstalling_again_changes_nothing(seat: Seat) -> None:
    seat.hearth("uninstall")
    done = seat.hearth("uninstall")
    assert (done.returncode, done.stdout) == (0, "Nothing is installed.\n")


def test_systemd_analyze_verify_prints_nothing(seat: Seat) -> None:
    folder = f"{seat.user.home}/.config/systemd/user"
    # Without looking for the man page, which comes with a wheel or a package, and not with a source tree.
    verify = ("systemd-analyze", "verify", "--man=no", "--user")
    done = seat.run(*verify, f"{folder}/{SOCKET}", f"{folder}/{SERVICE}")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_enabling_the_service_enables_the_socket(seat: Seat) -> None:
    seat.systemctl("disable", "--now", SOCKET)
    assert seat.systemctl("enable", "mcp") == ""
    assert seat.systemctl("is-enabled", SOCKET).strip() == "enabled"


def test_the_installed_package_is_compiled(seat: Seat) -> None:
    cached = seat.check("find", str(seat.installation.package), "-name", "*.py", "-printf", "%f\n").split()
    compiled = seat.check("find", str(seat.installation.package), "-name", "*.pyc", "-printf", "%f\n").split()
    assert len(compiled) >= len(cached)


def test_a_reload_takes_the_new_config(seat: Seat) -> None:
    client = seat.attached_bridge()
    before = seat.show("MainPID")
    seat.configure('[mcpServers.second]\ncommand = "/usr/bin/python3"\n' + f'args = ["-I", "{seat.servers}/desk.py"]')
    seat.systemctl("reload", SERVICE)
    assert "second__echo" in client.tool_names()
    assert seat.show("MainPID") == before


def test_a_change_of_the_file_is_taken_up_by_itself(seat: Seat) -> None:
    client = seat.attached_bridge()
    before = seat.show("MainPID")
    seat.configure('[mcpServers.third]\ncommand = "/usr/bin/python3"\n' + f'args = ["-I", "{seat.servers}/desk.py"]')
    until(lambda: "third__echo" in client.tool_names(), "the change is noticed")
    assert seat.show("MainPID") == before


def test_a_reload_with_a_bad_config_fails_says_why_and_the_old_one_stays(seat: Seat) -> None:
    client = seat.attached_bridge()
    before = seat.show("MainPID")
    seat.write(seat.config_path, "idle_timeot = 3\n")
    assert seat.run("systemctl", "--user", "reload", SERVICE).returncode != 0
    assert seat.state() == "active"
    assert seat.show("MainPID") == before
    assert client.call("desk__echo", text="old") == "old"
    # In the journal, as what `hearth reload` says and as what the daemon does, and in the line of `systemctl status`.
    assert len([line for line in seat.journal() if "idle_timeout" in str(line["MESSAGE"])]) >= 2
    until(lambda: "the config was not reloaded" in seat.show("StatusText"), "the line says so")
    assert "idle_timeout" in seat.show("StatusText")
    seat.configure()
    seat.systemctl("reload", SERVICE)
    assert seat.state() == "active"
    until(lambda: "not reloaded" not in seat.show("StatusText"), "and no longer when it is mended")

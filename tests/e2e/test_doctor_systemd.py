"""`hearth doctor` under a real systemd, as an ordinary user: faults of units, of the manager's environment, of disks.

One user for all of them: each fault is put in, found, mended where that is safe, and taken out again.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from e2e.conftest import World
from e2e.systemd.client import RpcError
from e2e.systemd.machine import until
from e2e.systemd.seat import SERVICE, SOCKET, Seat
from hearth.host.linux.units import HTTP_UNIT

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

Environment = dict[str, str]

# A unit of the test's own that holds the port for HTTP.
TAKEN = "taken"


class Ward:
    """A user with units that are installed and well; and the shell's own variables."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.shell: Environment = {}
        self.units = f"{seat.user.home}/.config/systemd/user"
        self.state = f"{seat.user.home}/.local/state/hearth"

    def doctor(self, *words: str) -> tuple[int, dict[str, Any]]:
        """`hearth doctor --json`: exit code and document."""
        environment = self.seat.user.environment | self.shell
        done = self.seat.run(self.seat.installation.hearth, "doctor", "--json", *words, environment=environment)
        assert done.stderr == "", done.stderr
        return done.returncode, json.loads(done.stdout)

    def ill(self, *words: str) -> dict[str, dict[str, Any]]:
        """What is not well, by id."""
        code, document = self.doctor(*words)
        found = {each["id"]: each for each in document["findings"] if each["state"] != "ok"}
        assert code == any(each["state"] == "broken" for each in found.values())
        return found

    def edit(self, unit: str, old: str, new: str) -> None:
        """Change a unit's own file, and have systemd read it."""
        self.seat.check("sed", "-i", f"s|{old}|{new}|", f"{self.units}/{unit}")
        self.seat.systemctl("daemon-reload")

    def mount(self, *options: str) -> None:
        """A file system of its own for what is remembered."""
        self.seat.check("mkdir", "-p", self.state)
        given = ",".join((f"uid={self.seat.user.uid}", "mode=700", *options))
        self.seat.machine.check("mount", "-t", "tmpfs", "-o", given, "tmpfs", self.state)

    def unmount(self) -> None:
        """The former one again."""
        self.seat.machine.check("umount", self.state)


class Fault(NamedTuple):
    """A fault: what doctor must call it, what it must say to do, whether `--fix` mends it, and how it is taken out."""

    id: str
    seed: Callable[[Ward], object]
    fix: str
    mended: bool = False
    undo: Callable[[Ward], object] = lambda ward: None
    # What is found with it: the same fault seen from elsewhere, or what follows from it.
    also: frozenset[str] = frozenset()


def start_limit(ward: Ward) -> None:
    seat = ward.seat
    seat.add_drop_in("[Service]\nExecStart=\nExecStart=/nonexistent/python\n")
    client = seat.bridge()
    with pytest.raises(RpcError):
        client.initialize()
    client.close()
    seat.await_state("failed", SOCKET)
    remove_drop_in(ward)


def remove_drop_in(ward: Ward) -> None:
    ward.seat.check("rm", "-rf", f"{ward.units}/{SERVICE}.d/test.conf")
    ward.seat.systemctl("daemon-reload")


def unread_drop_in(ward: Ward) -> None:
    ward.seat.write(f"{ward.units}/{SERVICE}.d/test.conf", "[Service]\nNice=5\n")


def masked(ward: Ward) -> None:
    ward.seat.ok("uninstall")
    ward.seat.systemctl("mask", SOCKET, SERVICE)


def unmask(ward: Ward) -> None:
    ward.seat.systemctl("unmask", SOCKET, SERVICE)
    ward.seat.install()


def program_of_the_shell(ward: Ward) -> None:
    folder = f"{ward.seat.user.home}/.nvm/versions/node/v22.1.0/bin"
    ward.seat.write(f"{folder}/npy", "#!/bin/sh\n")
    ward.seat.check("chmod", "755", f"{folder}/npy")
    ward.seat.configure('[mcpServers.far]\ncommand = "npy"\n')
    ward.shell["PATH"] = f"{folder}:{ward.seat.user.environment['PATH']}"


def plain_again(ward: Ward) -> None:
    ward.shell.clear()
    ward.seat.configure()
    ward.seat.install()


def daemon_beside_the_unit(ward: Ward) -> None:
    seat = ward.seat
    seat.systemctl("stop", SOCKET)
    seat.check("sh", "-c", 'setsid "$0" serve >/dev/null 2>&1 </dev/null &', seat.installation.hearth)
    until(lambda: seat.status()["running"], "the daemon runs that was started by hand")


def daemon_with_the_former_path(ward: Ward) -> None:
    ward.seat.attached_bridge().close()
    ward.seat.check("mkdir", "-p", f"{ward.seat.user.home}/bin")
    environment = ward.seat.user.environment
    changed = {**environment, "PATH": f"{ward.seat.user.home}/bin:{environment['PATH']}"}
    done = ward.seat.run(ward.seat.installation.hearth, "install", environment=changed)
    assert done.returncode == 0, done.stderr


def stop_and_install(ward: Ward) -> None:
    ward.seat.ok("stop", "--yes")
    ward.seat.await_state("inactive")
    ward.seat.install()


def somebody_elses_login(ward: Ward) -> None:
    ward.seat.machine.check("install", "-d", "-m", "700", "/run/user/4242")
    # From there a daemon that still runs would be found as well, as another one of the profile.
    ward.seat.systemctl("stop", SERVICE)
    ward.shell["XDG_RUNTIME_DIR"] = "/run/user/4242"


def without_lingering(ward: Ward) -> None:
    # The file only: logind, told of it, would end the manager at once.
    ward.seat.machine.check("rm", f"/var/lib/systemd/linger/{ward.seat.user.name}")
    ward.shell["SSH_CONNECTION"] = "192.0.2.1 50000 192.0.2.2 22"


def enable_port(ward: Ward) -> None:
    # systemd starts no socket whose service runs.
    ward.seat.systemctl("stop", SERVICE)
    ward.seat.run("systemctl", "--user", "enable", "--now", HTTP_UNIT)


def enable_port_that_is_taken(ward: Ward) -> None:
    ward.seat.write(f"{ward.units}/{TAKEN}.socket", "[Socket]\nListenStream=127.0.0.1:3847\nAccept=yes\n")
    ward.seat.write(f"{ward.units}/{TAKEN}@.service", "[Service]\nExecStart=/bin/true\n")
    ward.seat.systemctl("daemon-reload")
    ward.seat.systemctl("start", f"{TAKEN}.socket")
    enable_port(ward)


def disable_port(ward: Ward) -> None:
    ward.seat.systemctl("disable", "--now", HTTP_UNIT)
    ward.seat.run("systemctl", "--user", "stop", f"{TAKEN}.socket")
    ward.seat.run("systemctl", "--user", "reset-failed", HTTP_UNIT)
    ward.seat.check("sh", "-c", f"rm -f {ward.units}/{TAKEN}*")
    ward.seat.systemctl("daemon-reload")


def forget_shell(ward: Ward) -> None:
    ward.shell.clear()


FAULTS = [
    Fault("units.stopped", lambda ward: ward.seat.systemctl("stop", SOCKET), f"systemctl --user start {SOCKET}", True),
    Fault(
        "units.disabled",
        lambda ward: ward.seat.systemctl("disable", "--now", SOCKET),
        f"systemctl --user enable --now {SOCKET}",
        undo=lambda ward: ward.seat.install(),
    ),
    Fault(
        "units.missing",
        lambda ward: ward.seat.hearth("uninstall"),
        "hearth install",
        undo=lambda ward: ward.seat.install(),
    ),
    Fault("units.masked", masked, f"systemctl --user unmask {SOCKET} {SERVICE}", undo=unmask),
    Fault("units.start_limit", start_limit, f"systemctl --user reset-failed {SOCKET}", True),
    Fault(
        "units.interpreter",
        lambda ward: ward.edit(SERVICE, "=:/[^ ]*/python[^ ]*", "=:/gone/venv/bin/python"),
        "hearth install",
        True,
    ),
    Fault("units.outdated", lambda ward: ward.edit(SOCKET, "Backlog=4096", "Backlog=128"), "hearth install", True),
    Fault("units.unread", unread_drop_in, "systemctl --user daemon-reload", True, remove_drop_in),
    Fault(
        "units.drop_in",
        lambda ward: ward.seat.add_drop_in("[Service]\nMemoryDenyWriteExecute=yes\nType=simple\n"),
        f"systemctl --user edit {SERVICE}",
        undo=remove_drop_in,
    ),
    Fault(
        "units.linger",
        without_lingering,
        "loginctl enable-linger",
        undo=lambda ward: (
            forget_shell(ward),
            ward.seat.machine.check("loginctl", "enable-linger", ward.seat.user.name),
        ),
    ),
    Fault("servers.path", program_of_the_shell, "hearth install", True, plain_again),
    Fault(
        "socket.gone",
        lambda ward: ward.seat.check("rm", ward.seat.socket),
        f"systemctl --user restart {SOCKET}",
        undo=lambda ward: ward.seat.systemctl("restart", SOCKET),
    ),
    Fault(
        "socket.beside",
        daemon_beside_the_unit,
        f"systemctl --user start {SOCKET}",
        True,
        also=frozenset({"units.stopped"}),
    ),
    Fault(
        "environment.differs",
        lambda ward: ward.shell.update(XDG_CONFIG_HOME=f"{ward.seat.user.home}/elsewhere"),
        "~/.config/environment.d/hearth.conf",
        undo=forget_shell,
        also=frozenset({"config.missing"}),
    ),
    Fault("environment.runtime", somebody_elses_login, "su -", undo=forget_shell),
    Fault(
        "network.proxy",
        lambda ward: ward.shell.update(https_proxy="http://proxy.invalid:3128"),
        "~/.config/environment.d/proxy.conf",
        undo=forget_shell,
    ),
    Fault("port.token", enable_port, "hearth token show", undo=disable_port),
    Fault("port.failed", enable_port_that_is_taken, "ss -ltnp", undo=disable_port),
    Fault("folders.full", lambda ward: ward.mount("size=64k"), "Free some space", undo=Ward.unmount),
    Fault("folders.inodes", lambda ward: ward.mount("size=16m,nr_inodes=8"), "Remove files", undo=Ward.unmount),
    Fault("folders.read_only", lambda ward: ward.mount("ro"), "Make it writable", undo=Ward.unmount),
    Fault("daemon.path", daemon_with_the_former_path, "hearth restart", undo=stop_and_install),
]


@pytest.fixture(scope="module")
def settled(world: World) -> Iterator[Ward]:
    """The one user."""
    user = world.machine.add_user("patient", linger=True)
    seat = Seat(world.machine, user, world.installations["system"])
    seat.configure()
    seat.install()
    yield Ward(seat)
    seat.close()


@pytest.fixture
def ward(settled: Ward) -> Ward:
    """Nothing is wrong with it."""
    settled.shell.clear()
    if settled.ill():
        # What a test that failed has left must not fail the next ones.
        settled.seat.run("systemctl", "--user", "reset-failed")
        settled.seat.configure()
        settled.seat.install()
        settled.seat.systemctl("restart", SOCKET)
    assert settled.ill() == {}
    return settled


def test_units_that_are_well_have_no_finding_and_nothing_is_woken(ward: Ward) -> None:
    assert ward.ill() == {}
    assert ward.seat.starts() == 0
    client = ward.seat.attached_bridge()
    assert ward.ill() == {}, "nor while the daemon runs"
    client.close()
    ward.seat.ok("stop", "--yes")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_found_alone_with_its_fix_and_mended_where_that_is_safe(ward: Ward, fault: Fault) -> None:
    fault.seed(ward)
    try:
        found = ward.ill()
        assert set(found) == {fault.id, *fault.also}
        assert fault.fix in found[fault.id]["fix"]
        assert found[fault.id]["fixable"] == fault.mended
        ward.ill("--fix", "--dry-run")
        assert set(ward.ill()) == {fault.id, *fault.also}, "a dry run changes nothing"
        _, document = ward.doctor("--fix", "--yes")
        assert [deed for deed in document["mended"] if deed["error"]] == []
        if fault.mended:
            # A daemon that hands its socket over is there for moments still.
            until(lambda: ward.ill() == {}, "it is mended")
            assert ward.doctor("--fix", "--yes")[1]["mended"] == [], "a second time there is nothing to do"
        else:
            assert set(ward.ill()) == {fault.id, *fault.also}
    finally:
        fault.undo(ward)


def test_a_unit_that_somebody_else_wrote_is_left_as_it_is(ward: Ward) -> None:
    path = f"{ward.units}/{SOCKET}"
    ward.edit(SOCKET, "^# Written by .hearth install.", "# Mine")
    before = ward.seat.check("cat", path)
    try:
        ward.doctor("--fix", "--yes")
        assert ward.seat.check("cat", path) == before
    finally:
        ward.seat.check("rm", path)
        ward.seat.install()


def test_a_daemon_that_was_killed_leaves_no_unit_broken(ward: Ward) -> None:
    ward.seat.attached_bridge().close()
    ward.seat.check("kill", "-KILL", ward.seat.show("MainPID"))
    ward.seat.await_state("failed")
    found = ward.ill()
    assert found["units.killed"]["state"] == "note"
    assert [each for each in found.values() if each["state"] == "broken"] == []
    ward.seat.attached_bridge().close()
    assert ward.ill() == {}
    ward.seat.ok("stop", "--yes")


def test_after_the_mending_of_units_a_bridge_works(ward: Ward) -> None:
    start_limit(ward)
    ward.seat.ok("doctor", "--fix", "--yes")
    ward.seat.attached_bridge().close()
    ward.seat.ok("stop", "--yes")

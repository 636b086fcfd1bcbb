"""The harness itself: what the tests on systemd stand on must be true before they mean anything."""

import signal
import subprocess
from pathlib import Path

import pytest

from e2e.conftest import missing
from e2e.systemd.machine import BOOT_COMMAND, Machine, missing_requirement, until
from e2e.systemd.seat import Seat

pytestmark = [pytest.mark.systemd, pytest.mark.root, pytest.mark.timeout(300)]

# Takes a socket from systemd, says it is ready, tells each caller its pid, leaves after a second of silence.
STAND_IN = """
import os, select, socket
assert os.environ["LISTEN_PID"] == str(os.getpid()) and os.environ["LISTEN_FDNAMES"] == "mcp"
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
listener = socket.socket(fileno=3)
while select.select([listener], [], [], 1)[0]:
    connection, _ = listener.accept()
    connection.sendall(b"%d" % os.getpid())
    connection.close()
"""
CALLER = "import socket, sys; s = socket.socket(1); s.connect(sys.argv[1]); print(s.recv(99).decode())"


@pytest.fixture
def bootable() -> None:
    reason = missing_requirement()
    if reason:
        missing(reason)


def traces_of(pid: int, before: set[Path]) -> list[str]:
    """What a boot has left behind: its init, files, cgroups."""
    left = [str(path) for path in leftovers() - before]
    return [*left, f"process {pid}"] if Path(f"/proc/{pid}").exists() else left


def leftovers() -> set[Path]:
    cgroups = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
    return {path for folder in (Path("/tmp"), *cgroups) for path in folder.glob("hearth-boot.*")}


@pytest.mark.parametrize("end", ["input ends", "SIGINT", "SIGTERM", "SIGHUP"])
def test_a_machine_leaves_nothing_behind_however_it_is_ended(bootable: None, tmp_path: Path, end: str) -> None:
    before = leftovers()
    folder = tmp_path / "removed"
    folder.mkdir()
    boot = subprocess.Popen([*BOOT_COMMAND, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert boot.stdin is not None and boot.stdout is not None
    pid = int(boot.stdout.readline().split()[1])
    if end == "input ends":
        boot.stdin.close()
    else:
        boot.send_signal(signal.Signals[end])
    boot.wait(30)
    boot.stdin.close()
    boot.stdout.close()
    assert traces_of(pid, before) == []
    assert not folder.exists()


def test_a_boot_that_is_killed_leaves_no_process(bootable: None) -> None:
    before = leftovers()
    boot = subprocess.Popen(BOOT_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert boot.stdin is not None and boot.stdout is not None
    pid = int(boot.stdout.readline().split()[1])
    boot.kill()
    boot.wait()
    boot.stdin.close()
    boot.stdout.close()
    until(lambda: not Path(f"/proc/{pid}").exists(), "its systemd is gone")
    # A script that was killed cannot clean up: an empty folder, a log and an empty cgroup stay, and are ours to remove.
    for left in leftovers() - before:
        if left.is_file():
            left.unlink()
        else:
            subprocess.run(["find", str(left), "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"], check=True)


def test_commands_run_as_the_user_and_return_their_output_and_exit_code(bare_seat: Seat) -> None:
    done = bare_seat.run("sh", "-c", "id -un; pwd; echo broken >&2; exit 7")
    assert done.stdout.split() == [bare_seat.user.name, bare_seat.user.home]
    assert (done.stderr, done.returncode) == ("broken\n", 7)


def test_the_user_has_a_running_service_manager_of_its_own(bare_seat: Seat) -> None:
    assert bare_seat.systemctl("is-system-running").strip() == "running"
    assert bare_seat.systemctl("show", "--property=UnitPath", "--value").split()[0].startswith(bare_seat.user.home)


def test_what_is_written_inside_does_not_reach_the_real_file_system(machine: Machine) -> None:
    machine.check("touch", "/opt/hearth-written-inside")
    assert not Path("/opt/hearth-written-inside").exists()


def test_a_stand_in_daemon_is_started_by_its_socket_and_again_after_it_left(bare_seat: Seat) -> None:
    units = f"{bare_seat.user.home}/.config/systemd/user"
    bare_seat.write(f"{bare_seat.user.home}/stand_in.py", STAND_IN)
    bare_seat.write(f"{units}/mcp.socket", "[Socket]\nListenStream=%t/mcp/mcp.sock\nFileDescriptorName=mcp\n")
    bare_seat.write(f"{units}/mcp.service", "[Service]\nType=notify\nExecStart=/usr/bin/python3 %h/stand_in.py\n")
    bare_seat.systemctl("daemon-reload")
    bare_seat.systemctl("start", "mcp.socket")
    assert bare_seat.state() == "inactive"
    first = bare_seat.check("/usr/bin/python3", "-c", CALLER, bare_seat.socket).strip()
    assert first == bare_seat.show("MainPID")
    bare_seat.await_state("inactive")
    assert bare_seat.show("Result") == "success"
    assert bare_seat.check("/usr/bin/python3", "-c", CALLER, bare_seat.socket).strip() not in ("", first)
    assert bare_seat.starts() == 2

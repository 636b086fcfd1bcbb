"""Other processes, by pid and start time: real ones, dead ones, zombies and strangers."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hearth.host import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what /proc and pidfd tell")

# For a signal to take effect on a machine that is busy with other things.
PATIENCE_SECONDS = 30.0


@pytest.fixture(params=["pidfd", "polling"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pidfd, and as on a kernel without."""
    if request.param == "polling":

        def refuse(pid: int, flags: int = 0) -> int:
            raise OSError(errno.ENOSYS, "not here")

        monkeypatch.setattr(os, "pidfd_open", refuse)


@contextmanager
def running(command: tuple[str, ...] = ("cat",)) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that waits for its input to end, and its start time."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        try:
            yield child, processes.start_time(child.pid) or 0
        finally:
            child.kill()


def test_a_process_is_alive_until_it_is_a_zombie() -> None:
    with running() as (child, started):
        assert processes.is_alive(child.pid, started)
        os.kill(child.pid, signal.SIGKILL)
        assert processes.wait_gone(child.pid, started, PATIENCE_SECONDS)
        # Nobody has reaped it yet.
        assert os.path.exists(f"/proc/{child.pid}")
        assert not processes.is_alive(child.pid, started)
    assert not processes.is_alive(child.pid, started)
    assert processes.start_time(child.pid) is None


def test_a_signal_reaches_the_process() -> None:
    with running() as (child, started):
        assert processes.send_signal(child.pid, started, signal.SIGTERM)
        assert processes.wait_gone(child.pid, started, PATIENCE_SECONDS)
        assert child.wait() == -signal.SIGTERM
    assert not processes.send_signal(child.pid, started, signal.SIGTERM)
    assert processes.wait_gone(child.pid, started, PATIENCE_SECONDS)


def test_a_stranger_with_the_pid_is_neither_alive_nor_hit_nor_awaited() -> None:
    with running() as (child, started):
        assert not processes.is_alive(child.pid, started - 1)
        assert not processes.send_signal(child.pid, started - 1, signal.SIGKILL)
        assert processes.wait_gone(child.pid, started - 1, PATIENCE_SECONDS)
        assert processes.is_alive(child.pid, started)


def test_waiting_for_one_that_stays_ends_with_the_time() -> None:
    with running() as (child, started):
        assert not processes.wait_gone(child.pid, started, 0)
        assert not processes.wait_gone(child.pid, started, -1)
        assert not processes.wait_gone(child.pid, started, 0.05)


def test_without_a_start_time_the_pid_must_do() -> None:
    with running() as (child, _):
        assert processes.is_alive(child.pid, processes.UNKNOWN_START_TIME)
        assert processes.send_signal(child.pid, processes.UNKNOWN_START_TIME, signal.SIGKILL)
        assert processes.wait_gone(child.pid, processes.UNKNOWN_START_TIME, PATIENCE_SECONDS)


@pytest.mark.parametrize("name", ["a) Z 1 1 (b", "))) ", "S (1"])
def test_a_name_with_brackets_hides_nothing(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/bin/cat")
    with running((str(tmp_path / name),)) as (child, started):
        text = Path(f"/proc/{child.pid}/stat").read_text()
        assert f"({name})" in text
        # proc(5): field 22, the first two being the pid and the name.
        assert started == int(text.replace(f"({name})", "name").split()[21])
        assert processes.is_alive(child.pid, started)


@pytest.mark.parametrize("pid", [0, -1, pytest.param(-os.getpid(), id="-own"), 2**31 - 1, 2**64])
def test_a_pid_that_cannot_be_is_nobody(pid: int) -> None:
    assert processes.start_time(pid) is None
    assert not processes.is_alive(pid, 1)
    assert not processes.send_signal(pid, 1, signal.SIGTERM)
    assert processes.wait_gone(pid, 1, PATIENCE_SECONDS)


def test_no_descriptor_is_left_open() -> None:
    before = os.listdir("/proc/self/fd")
    with running() as (child, started):
        open_with_child = len(os.listdir("/proc/self/fd"))
        processes.send_signal(child.pid, started, 0)
        processes.send_signal(child.pid, started - 1, 0)
        processes.wait_gone(child.pid, started, 0)
        assert len(os.listdir("/proc/self/fd")) == open_with_child
    assert len(os.listdir("/proc/self/fd")) == len(before)


AS_ANOTHER_USER = """
import os, sys
from hearth.errors import Refused
from hearth.host import processes
pid = int(sys.argv[1])
started = processes.start_time(pid)
if os.getuid() == 0:
    os.setuid(12345)
try:
    processes.send_signal(pid, started, 0)
except Refused as exc:
    print(exc)
"""


def test_a_process_of_another_user_is_refused_in_a_sentence() -> None:
    pid = os.getpid() if os.getuid() == 0 else 1
    done = subprocess.run([sys.executable, "-c", AS_ANOTHER_USER, str(pid)], capture_output=True, text=True, check=True)
    assert done.stdout == f"process {pid} belongs to another user and cannot be signalled\n"


WITHOUT_PROC = """
import os
from hearth.host import processes
print(processes.start_time(os.getpid()), processes.start_time(2**31 - 1), processes.is_alive(os.getpid(), 77))
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_without_proc_the_pid_must_do() -> None:
    command = f'mount -t tmpfs none /proc && exec {sys.executable} -c "$0"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, WITHOUT_PROC], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{processes.UNKNOWN_START_TIME} None True\n", done.stderr


def test_the_record_of_macos_has_the_size_of_its_header() -> None:
    assert processes._BSD_INFO.size == 136


REUSE = """
import os, signal, subprocess, time
from hearth.host import processes

def start():
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)

first = start()
started = processes.start_time(first.pid)
first.communicate()
# Two processes are told apart by the kernel's clock, which ticks a hundred times a second.
deadline = time.monotonic() + 30
while int(float(open("/proc/uptime").read().split()[0]) * os.sysconf("SC_CLK_TCK")) <= started + 1:
    assert time.monotonic() < deadline
    time.sleep(0.01)
open("/proc/sys/kernel/ns_last_pid", "w").write(str(first.pid - 1))
second = start()
assert second.pid == first.pid, (second.pid, first.pid)
print(processes.is_alive(first.pid, started), processes.send_signal(first.pid, started, signal.SIGKILL))
print(processes.wait_gone(first.pid, started, 30), second.poll())
second.communicate()
"""


@pytest.mark.root
@pytest.mark.skipif(os.getuid() != 0, reason="only root can have a pid given out again")
def test_a_pid_that_was_really_given_out_again_is_another_process() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", REUSE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "False False\nTrue None\n", done.stderr

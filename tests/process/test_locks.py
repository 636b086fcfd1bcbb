"""Locks in files between real processes: the plain one that the bridge takes, and filelock's."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hearth.errors import FileAccessError
from hearth.host.locks import Lock
from hearth.host.private_files import FileLock

# For a process to start, or the kernel to hand a lock on, on a machine that is busy with other things.
PATIENCE_SECONDS = 30.0

HOLDER = """
import sys
from hearth.host.locks import Lock
lock = Lock(sys.argv[1])
lock.acquire()
print("held", flush=True)
"""


@pytest.fixture
def path() -> Iterator[str]:
    with TemporaryDirectory(dir="/tmp") as folder:
        yield os.path.join(folder, "private", "daemon.lock")


@contextmanager
def holder(path: str, then: str = "input()") -> Iterator[subprocess.Popen[str]]:
    """A process that takes the lock, says so, and does what it is told until its input ends."""
    command = [sys.executable, "-c", HOLDER + then, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def says(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    return child.stdout.readline().strip()


def is_free(path: str) -> bool:
    lock = Lock(path)
    free = lock.acquire(blocking=False)
    lock.release()
    return free


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def is_waited_for(inode: int) -> bool:
    """Whether the kernel has somebody waiting for a lock on that file."""
    return any(" -> " in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_one_process_holds_it_and_the_other_is_told(path: str) -> None:
    with holder(path) as child:
        assert says(child) == "held"
        assert not is_free(path)


def test_the_death_of_the_holder_frees_it(path: str) -> None:
    with holder(path) as child:
        assert says(child) == "held"
        child.kill()
        lock = Lock(path)
        assert lock.acquire(blocking=True)
        lock.release()


def test_a_program_that_the_holder_starts_does_not_inherit_it(path: str) -> None:
    then = "import subprocess; subprocess.Popen(['cat'], close_fds=False); print('started', flush=True); input()"
    with holder(path, then) as child:
        assert (says(child), says(child)) == ("held", "started")
        child.kill()
        child.wait()
        # `cat` still runs: it has the child's input, which ends only now.
        assert is_free(path)
        assert child.stdin
        child.stdin.close()
        assert says(child) == ""


def test_two_objects_of_one_process_exclude_each_other(path: str) -> None:
    first, second = Lock(path), Lock(path)
    assert first.acquire(blocking=False)
    assert not second.acquire(blocking=False)
    first.release()
    assert second.acquire(blocking=False)
    second.release()


def test_taking_what_is_held_and_releasing_what_is_not_change_nothing(path: str) -> None:
    lock = Lock(path)
    lock.release()
    assert lock.acquire(blocking=False)
    assert lock.acquire(blocking=True)
    lock.release()
    lock.release()
    assert is_free(path)


def test_the_file_stays_and_is_private(path: str) -> None:
    lock = Lock(path)
    lock.acquire(blocking=False)
    lock.release()
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_a_copy_of_the_descriptor_elsewhere_does_not_keep_it(path: str) -> None:
    lock = Lock(path)
    lock.acquire(blocking=False)
    copies = [os.dup(int(name)) for name in os.listdir("/proc/self/fd") if is_descriptor_of(name, path)]
    lock.release()
    assert copies
    assert is_free(path)
    for copy in copies:
        os.close(copy)


def is_descriptor_of(name: str, path: str) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{name}") == path
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="waiting is seen in /proc/locks")
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "unlinked"])
def test_a_file_that_went_away_during_the_wait_is_noticed(path: str, replaced: bool) -> None:
    first, waiter = Lock(path), Lock(path)
    first.acquire(blocking=False)
    inode = os.stat(path).st_ino
    thread = threading.Thread(target=waiter.acquire)
    thread.start()
    wait_for(lambda: is_waited_for(inode))
    if replaced:
        Path(path + ".new").touch()
        os.replace(path + ".new", path)
    else:
        os.unlink(path)
    first.release()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    # What it holds is the file that everybody else finds.
    assert not is_free(path)
    waiter.release()
    assert is_free(path)


def test_many_processes_take_turns(path: str) -> None:
    counter = Path(path + ".count")
    counter.parent.mkdir()
    counter.write_text("0")
    turns = (
        "import sys\nfrom hearth.host.locks import Lock\n"
        "for _ in range(50):\n"
        "    lock = Lock(sys.argv[1]); lock.acquire()\n"
        "    count = int(open(sys.argv[1] + '.count').read())\n"
        "    open(sys.argv[1] + '.count', 'w').write(str(count + 1))\n"
        "    lock.release()\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", turns, path]) for _ in range(4)]
    try:
        assert [child.wait(PATIENCE_SECONDS) for child in children] == [0, 0, 0, 0]
    finally:
        for child in children:
            child.kill()
            child.wait()
    assert counter.read_text() == "200"


def test_a_link_in_place_of_the_file_is_not_followed(path: str, tmp_path: Path) -> None:
    os.mkdir(os.path.dirname(path), 0o700)
    os.symlink(tmp_path / "elsewhere", path)
    with pytest.raises(FileAccessError, match="is a symbolic link"):
        Lock(path).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_in_place_of_the_file_is_one_sentence(path: str) -> None:
    os.makedirs(path)
    with pytest.raises(FileAccessError, match=r"cannot lock .*daemon\.lock: a folder is where a file should be"):
        Lock(path).acquire()


KINDS = {"plain": Lock, "filelock": FileLock}
MODULES = {"plain": "hearth.host.locks import Lock", "filelock": "hearth.host.private_files import FileLock as Lock"}


@contextmanager
def held(kind: str, path: Path) -> Iterator[None]:
    """Have another process hold the lock by that kind."""
    code = f"import sys; from {MODULES[kind]}; lock = Lock(sys.argv[1]); lock.acquire(); print('held', flush=True)"
    command = [sys.executable, "-c", code + "; input()", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            assert child.stdout.readline() == "held\n"
            yield
        finally:
            child.kill()


@pytest.mark.parametrize("mine", KINDS)
@pytest.mark.parametrize("theirs", KINDS)
def test_either_kind_keeps_out_the_other_until_its_holder_dies(tmp_path: Path, theirs: str, mine: str) -> None:
    path = tmp_path / "locks" / "one.lock"
    with held(theirs, path):
        assert not KINDS[mine](str(path)).acquire(blocking=False)
    lock = KINDS[mine](str(path))
    assert lock.acquire(blocking=False)
    assert not KINDS[theirs](str(path)).acquire(blocking=False)
    lock.release()
    assert path.exists()
    assert KINDS[theirs](str(path)).acquire(blocking=False)


def test_waiting_for_a_file_lock_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    with held("filelock", path):
        assert not FileLock(str(path)).acquire(seconds=0.2)
    assert FileLock(str(path)).acquire(seconds=10.0)


def test_a_file_lock_that_is_held_is_taken_again_at_no_cost_and_released_once(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "one.lock"))
    lock.release()
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    assert FileLock(lock.path).acquire(blocking=False)


def test_a_file_lock_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "one.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileAccessError, match="symbolic link"):
        FileLock(str(tmp_path / "one.lock")).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_the_package_is_imported_with_the_first_lock_that_is_taken(tmp_path: Path) -> None:
    code = (
        "import sys; import hearth.daemon.startup; from hearth.host.private_files import FileLock;"
        "lock = FileLock(sys.argv[1]);"
        "print([name for name in ('filelock', 'platformdirs', 'psutil') if name in sys.modules]); lock.acquire();"
        "print('filelock' in sys.modules)"
    )
    done = subprocess.check_output([sys.executable, "-I", "-c", code, str(tmp_path / "one.lock")], text=True)
    assert done.splitlines() == ["[]", "True"]


def test_a_missing_package_is_a_sentence_that_callers_expect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(FileAccessError, match="is Hearth's installation complete"):
        FileLock(str(tmp_path / "lock")).acquire()

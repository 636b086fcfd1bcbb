"""The two kinds of lock, filelock's and the plain one that the bridge takes, between real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.host.locks import Lock
from hearth.host.private_files import FileLock

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

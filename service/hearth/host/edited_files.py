"""Atomic replacement of a user's file, as a careful editor does it: with its mode, owner and attributes.

A symbolic link stays, and its target is replaced. This module knows nothing about the file's content.
"""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from hearth import paths, places
from hearth.errors import Refused
from hearth.host import private_files
from hearth.host.folders import refusal, remove_file, sync_folder
from hearth.host.private_files import FileLock

# The file may hold secrets: a new one is private to its owner, and so are the folders that are made for it.
NEW_FOLDER_MODE = 0o700
# Another `hearth add` takes milliseconds, unless it waits for a person to answer; a longer wait is reported.
LOCK_SECONDS = 10.0


@contextmanager
def held(path: str) -> Iterator[None]:
    """Keep every other `hearth` from changing the file inside the block. Raises Refused, FileAccessError."""
    # The lock is not beside the file: that folder may belong to another program.
    name = f"{paths.digest(os.path.realpath(path))}.lock"
    lock = FileLock(os.path.join(places.state_dir(), "locks", name))
    if not lock.acquire(seconds=LOCK_SECONDS):
        raise Refused(f"another `hearth` has been changing {path} for {LOCK_SECONDS:g} s; nothing was done")
    try:
        yield
    finally:
        lock.release()


def replace(path: str, data: bytes, is_due: Callable[[], bool] = lambda: True) -> bool:
    """Replace the file with these bytes, or make it; skip that if `is_due`, asked at the last moment, returns False.

    Return whether the file was replaced. Raises FileAccessError, and the file is then unchanged.
    """
    import tempfile

    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    # Set once the file is made: a file that existed before under any name belongs to another program.
    temporary = ""
    try:
        _make_folder(folder)
        former = _stat(target)
        if former is not None and not os.access(target, os.W_OK):
            # The folder would allow the replacement, but the file is read-only on purpose.
            raise PermissionError(errno.EACCES, "it is read-only")
        # For its owner only.
        descriptor, temporary = tempfile.mkstemp(".new", f"{name}.", folder)
        _write(descriptor, data, former, target)
        if not is_due():
            return False
        private_files.replace(temporary, target)
        temporary = ""
    except OSError as exc:
        raise refusal("write", path, exc) from exc
    finally:
        if temporary:
            private_files.remove(temporary)
    _keep_name(folder)
    return True


def remove(path: str) -> None:
    """Remove the file; a link to it stays. Raises FileAccessError."""
    target = os.path.realpath(path)
    remove_file(target, path)
    _keep_name(os.path.dirname(target))


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, NEW_FOLDER_MODE, exist_ok=True)
    except FileExistsError as exc:
        raise NotADirectoryError(errno.ENOTDIR, "it is a file", path) from exc


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _write(descriptor: int, data: bytes, former: os.stat_result | None, target: str) -> None:
    with open(descriptor, "wb") as file:
        if former is not None:
            _take_after(file.fileno(), former, target)
        file.write(data)
        file.flush()
        # A config is worth the milliseconds: after a power cut the new name must not be an empty file.
        os.fsync(file.fileno())


def _take_after(descriptor: int, former: os.stat_result, target: str) -> None:
    if sys.platform == "win32":
        return
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (former.st_uid, former.st_gid):
        os.fchown(descriptor, former.st_uid, former.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(former.st_mode))
    if sys.platform == "linux":
        for name in os.listxattr(target):
            try:
                os.setxattr(descriptor, name, os.getxattr(target, name))
            except OSError:
                # Only the system may set this label; the folder's rules give the new file its own.
                continue


def _keep_name(folder: str) -> None:
    # The file is in place, whatever becomes of its name in a power failure.
    with suppress(OSError):
        sync_folder(folder)

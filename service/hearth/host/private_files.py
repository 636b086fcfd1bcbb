"""Small private files of this user, read and replaced whole: remembered state and secrets.

A reader sees the former content or the new one, never half of either. Nothing is synced to the disk unless asked for,
because a sync may block the event loop; a reader therefore treats a file that makes no sense as absent.
"""

import os
import stat
import sys
import time

from hearth.host import open_files

# A reader has the file open for moments only; a virus scanner takes a little longer.
OPEN_ELSEWHERE_SECONDS = 0.5
_LOOK_SECONDS = 0.005


def read(path: str, limit: int) -> bytes:
    """Return the file's bytes, empty if there is no such file.

    Raises OSError, and ValueError for a file that is not a regular file of this user, or is over the limit.
    """
    try:
        # A named pipe without a writer would block the daemon forever.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return b""
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or (sys.platform != "win32" and found.st_uid != os.getuid()):
            raise ValueError("it is not a file of yours")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has over {limit} bytes")
    return data


def write(path: str, data: bytes, durable: bool = False) -> None:
    """Write the file atomically, for this user only; its folder must exist. Raises OSError.

    `durable` makes it survive a power failure a moment later; meant for data that exists nowhere else.
    """
    temporary = beside(path)
    try:
        _write(temporary, data, durable)
        replace(temporary, path)
    except OSError:
        remove(temporary)
        raise


def create(path: str, data: bytes) -> bool:
    """Create the file atomically; return False if it exists already, whichever process made it. Raises OSError."""
    temporary = beside(path)
    try:
        _write(temporary, data)
        # A link, unlike a rename, fails if another process was faster, and unlike O_EXCL never exposes half a file.
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        # A file system without links: a moment remains in which two processes may both create the file.
        if os.path.exists(path):
            return False
        replace(temporary, path)
    finally:
        remove(temporary)
    return True


def beside(path: str) -> str:
    """Return a unique name, in the same folder, for the file that will replace this one."""
    # The pid alone is not unique: in containers that share a folder every process may have the same one.
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"


def _write(path: str, data: bytes, durable: bool = False) -> None:
    with open(open_files.open_private(path), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def replace(source: str, target: str) -> None:
    """Replace a file with another, even while a process reads it. Raises OSError."""
    if sys.platform == "win32":
        _replace_patiently(source, target)
    else:
        os.replace(source, target)


def _replace_patiently(source: str, target: str) -> None:
    # Windows refuses the replacement as long as any process has the file open.
    deadline = time.monotonic() + OPEN_ELSEWHERE_SECONDS
    while True:
        try:
            return os.replace(source, target)
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def remove(path: str) -> None:
    """Remove the file, if it exists; ignore a failure."""
    try:
        os.unlink(path)
    except OSError:
        pass

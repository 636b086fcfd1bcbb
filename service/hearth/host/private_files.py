"""Small files for this user only, read and replaced whole: what is remembered, what is secret.

A reader sees the former content or the new one, never half of either. Nothing is synced to the disk unless asked for,
which may take the loop's time: whoever reads such a file takes one that makes no sense for none.
"""

import os
import stat
import sys
import time

from hearth.host import open_files

# Whoever reads such a file has done so within moments; a virus scanner takes a little longer.
OPEN_ELSEWHERE_SECONDS = 0.5
_LOOK_SECONDS = 0.005


def read(path: str, limit: int) -> bytes:
    """The file's bytes; none if there is no such file. Raises OSError, and ValueError for one that is not ours."""
    try:
        # A named pipe without a writer would hold the daemon for ever.
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
    """Put the file in place, whole and for this user only; its folder has to be there. Raises OSError.

    `durable`: also when the power fails a moment later; for what exists nowhere else.
    """
    temporary = beside(path)
    try:
        _write(temporary, data, durable)
        replace(temporary, path)
    except OSError:
        remove(temporary)
        raise


def create(path: str, data: bytes) -> bool:
    """Put the file in place unless there is one; False if there is, whoever made it. Raises OSError."""
    temporary = beside(path)
    try:
        _write(temporary, data)
        # Unlike a rename it fails where somebody else was faster, and unlike O_EXCL it shows nobody half a file.
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:
        # A file system without links: there remains a moment in which two may do it.
        if os.path.exists(path):
            return False
        replace(temporary, path)
    finally:
        remove(temporary)
    return True


def beside(path: str) -> str:
    """A name for what is to take the place of that file: in the same folder, and nobody else's."""
    # In containers that share a folder every process may have the same id.
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"


def _write(path: str, data: bytes, durable: bool = False) -> None:
    with open(open_files.open_private(path), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def replace(source: str, target: str) -> None:
    """Put a file in the place of another, which somebody may be reading. Raises OSError."""
    if sys.platform == "win32":
        _replace_patiently(source, target)
    else:
        os.replace(source, target)


def _replace_patiently(source: str, target: str) -> None:
    # Windows refuses it for as long as anybody has the file open.
    deadline = time.monotonic() + OPEN_ELSEWHERE_SECONDS
    while True:
        try:
            return os.replace(source, target)
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)


def remove(path: str) -> None:
    """Take the file away, if it is there and that can be done."""
    try:
        os.unlink(path)
    except OSError:
        pass

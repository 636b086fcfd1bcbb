"""Private line files for this user, each bounded by rotation and written by a thread of their own.

Appending never waits and never fails. A disk that is full, slow, read-only or hanging costs lines, and the log reports
that once. This module knows nothing about the content of the lines.
"""

import logging
import os
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from hearth.errors import FileAccessError
from hearth.host.folders import make_private

log = logging.getLogger(__name__)

# Size limit of a file; with its predecessor it holds about the last ten thousand lines.
FILE_BYTES = 1024 * 1024
# Bound on the lines that wait for a slow disk, over all files.
QUEUE_BYTES = 4 * 1024 * 1024
# Pause after a failure before the disk is tried again.
RETRY_SECONDS = 30.0
# Longest wait at the daemon's shutdown: a disk that hangs must not delay it.
CLOSE_SECONDS = 2.0
# Some of these flags exist on one system only.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)


class LineFiles:
    """Files of lines, one for each name. Lines are dropped until `keep_in` has set their place."""

    def __init__(self) -> None:
        self._path_of: Callable[[str], str] | None = None
        self._change = threading.Condition()
        self._waiting: dict[str, list[str]] = {}
        self._size = 0
        self._lost: Counter[str] = Counter()
        self._thread: threading.Thread | None = None
        # Names that could not be written, with the time of the next attempt. Used by the thread only.
        self._failed: dict[str, float] = {}

    def keep_in(self, path_of: Callable[[str], str]) -> None:
        """Keep lines from now on; `path_of` maps a name to the path of its file."""
        self._path_of = path_of

    def append(self, name: str, lines: list[str]) -> None:
        """Add lines to the file of that name, soon."""
        if self._path_of is None or not lines:
            return
        with self._change:
            if self._size > QUEUE_BYTES:
                self._lost[name] += len(lines)
                return
            self._waiting.setdefault(name, []).extend(lines)
            # Characters instead of bytes: exact enough for a bound.
            self._size += sum(map(len, lines)) + len(lines)
            if self._thread is None:
                # A daemon thread, because one that hangs is left behind at exit.
                arguments = (self._path_of,)
                self._thread = threading.Thread(target=self._write_all, args=arguments, name="line-files", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def close(self) -> None:
        """Write the waiting lines, within a time limit, and accept no more."""
        with self._change:
            thread, self._thread, self._path_of = self._thread, None, None
            self._change.notify_all()
        if thread:
            thread.join(CLOSE_SECONDS)

    # --- in the writer thread

    def _write_all(self, path_of: Callable[[str], str]) -> None:
        while True:
            with self._change:
                while not self._waiting and self._thread:
                    self._change.wait()
                if not self._waiting:
                    return
                waiting, self._waiting = self._waiting, {}
                lost, self._lost = self._lost, Counter()
                self._size = 0
            for name, lines in waiting.items():
                if lost[name]:
                    lines.append(f"… {lost[name]} lines were left out: the disk was too slow")
                self._write(name, path_of(name), lines)

    def _write(self, name: str, path: str, lines: list[str]) -> None:
        if time.monotonic() < self._failed.get(name, 0.0):
            return
        try:
            _append(path, "".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        except (OSError, FileAccessError) as exc:
            if name not in self._failed:
                log.warning("lines are not kept: %s", _reason(path, exc), extra={"upstream": name})
            self._failed[name] = time.monotonic() + RETRY_SECONDS
        else:
            self._failed.pop(name, None)


def _reason(path: str, exc: Exception) -> str:
    cause = exc if isinstance(exc, OSError) else exc.__cause__
    return f"{path}: {cause.strerror}" if isinstance(cause, OSError) and cause.strerror else str(exc)


def _append(path: str, data: bytes) -> None:
    """Append whole lines. Raises OSError and FileAccessError; a line may be torn then, and the next starts below it."""
    make_private(os.path.dirname(path))
    descriptor = _open_alone(path)
    try:
        size, is_moved = os.fstat(descriptor).st_size, True
        # A loop, because another process may fill the new file before this one has opened it.
        while is_moved and size and size + len(data) > FILE_BYTES:
            former, descriptor = descriptor, -1
            is_moved = _put_aside(path, former)
            descriptor = _open_alone(path)
            size = os.fstat(descriptor).st_size
        if size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":
                data = b"\n" + data
        while data:
            data = data[os.write(descriptor, data) :]
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _put_aside(path: str, descriptor: int) -> bool:
    """Rename the open file to its predecessor's name and close it; return whether it was moved. Raises OSError."""
    if sys.platform == "win32":
        os.close(descriptor)
        try:
            os.replace(path, f"{path}.1")
        except PermissionError:
            # Another process has the file open. The file grows, and no line is lost.
            return False
        return True
    try:
        # Rename before closing, which releases the lock: a waiting process would otherwise move the next file, too.
        os.replace(path, f"{path}.1")
    finally:
        os.close(descriptor)
    return True


def _open_alone(path: str) -> int:
    """Open the file while no other writer of lines writes or moves it. Raises OSError and FileAccessError."""
    if sys.platform == "win32":
        return _open(path)
    import fcntl

    while True:
        descriptor = _open(path)
        try:
            # Released when the descriptor is closed.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: str) -> int:
    """Open the file for this user only. Raises OSError, and FileAccessError if it is not a file of this user."""
    descriptor = os.open(path, _FLAGS, 0o600)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (sys.platform != "win32" and found.st_uid != os.getuid()):
        os.close(descriptor)
        raise FileAccessError(f"{path} is not a file of yours; move it away")
    if sys.platform != "win32" and stat.S_IMODE(found.st_mode) & 0o077:
        os.fchmod(descriptor, 0o600)
    return descriptor


# The files of this daemon.
FILES = LineFiles()

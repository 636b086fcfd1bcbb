"""Lock on a file, which the kernel releases when its holder dies, however that happens.

POSIX has `flock`: one system call, which the bridge can make without any package. Windows has none; there the C
runtime locks a byte of the file. A lock file is never unlinked: a process that waits for the old file and one that
makes a new file would both believe that they hold the lock.
"""

import os
import sys

from hearth.host.folders import make_private, refusal

if sys.platform == "win32":
    import msvcrt
    import time

    # The descriptor is not inherited, and no process can remove or replace the file while it is open.
    _FLAGS = os.O_RDWR | os.O_CREAT | os.O_BINARY | os.O_NOINHERIT
    # The runtime's own wait gives up after ten seconds, and tries once a second.
    _LOOK_SECONDS = 0.02

    def _take(descriptor: int, blocking: bool) -> bool:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except OSError:
                if not blocking:
                    return False
            else:
                return True
            time.sleep(_LOOK_SECONDS)

    def _free(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _is_at(descriptor: int, path: str) -> bool:
        return True

else:
    import fcntl

    _FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

    def _take(descriptor: int, blocking: bool) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _free(descriptor: int) -> None:
        # Closing is not enough where a fork has left a copy of the descriptor elsewhere.
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _is_at(descriptor: int, path: str) -> bool:
        held = os.fstat(descriptor)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)


class Lock:
    """Exclusive lock on a file, held by this object: a second one in the same process waits too."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return False if another holder has it and `blocking` is false.

        Raises FileAccessError if the file cannot be opened. Taking a lock that is already held changes nothing.
        """
        if self._descriptor >= 0:
            return True
        make_private(os.path.dirname(self.path))
        while True:
            descriptor = self._open()
            try:
                if not _take(descriptor, blocking):
                    return False
                # Another process may have removed or replaced the file during the wait. This lock is then on a file
                # that no other process can find.
                if _is_at(descriptor, self.path):
                    self._descriptor, descriptor = descriptor, -1
                    return True
            except OSError as exc:
                raise refusal("lock", self.path, exc) from exc
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            _free(descriptor)
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return os.open(self.path, _FLAGS, 0o600)
        except OSError as exc:
            raise refusal("lock", self.path, exc) from exc

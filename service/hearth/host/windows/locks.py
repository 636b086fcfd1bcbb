"""File lock on Windows: the first byte of the file, through the C runtime, so that the bridge needs no package."""

import os
import sys
import time

from hearth.host.folders import make_private, refusal

assert sys.platform == "win32", "imported on Windows only"

import msvcrt  # noqa: E402

# The runtime's own wait gives up after ten seconds, and tries once a second.
_LOOK_SECONDS = 0.02


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
        try:
            # The descriptor is not inherited, and no process can remove or replace the file while it is open.
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_BINARY | os.O_NOINHERIT, 0o600)
        except OSError as exc:
            raise refusal("lock", self.path, exc) from exc
        while not _take(descriptor):
            if not blocking:
                os.close(descriptor)
                return False
            time.sleep(_LOOK_SECONDS)
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
            os.close(descriptor)


def _take(descriptor: int) -> bool:
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True

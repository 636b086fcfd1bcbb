"""The file lock on Windows, through the `filelock` package."""

import os

from hearth.host.folders import make_private, refusal


class Lock:
    """An exclusive lock on a file."""

    def __init__(self, path: str) -> None:
        from filelock import FileLock

        self.path = path
        self._lock = FileLock(path)

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; False if another has it and `blocking` is false.

        Raises StartError if the file cannot be opened. Taking what is already held changes nothing.
        """
        from filelock import Timeout

        if self._lock.is_locked:
            return True
        make_private(os.path.dirname(self.path))
        try:
            self._lock.acquire(blocking=blocking)
        except Timeout:
            return False
        except OSError as exc:
            raise refusal("lock", self.path, exc) from exc
        return True

    def release(self) -> None:
        """Give it back; nothing happens if it is not held."""
        self._lock.release()

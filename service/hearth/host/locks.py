"""A lock that lives in a file and dies with its holder, however that one dies.

`flock` on POSIX: one system call that the bridge can make without any package. Windows has none, so there the
`filelock` package does it. Lock files are never unlinked: whoever waits on the old file and whoever makes a new
one would both believe that they hold it.
"""

import os
import sys

from hearth.errors import StartError
from hearth.host.folders import make_private, refusal

if sys.platform == "win32":

    class Lock:
        """An exclusive lock on a file."""

        def __init__(self, path: str) -> None:
            from filelock import FileLock

            self.path = path
            self._lock = FileLock(path)

        def acquire(self, blocking: bool = True) -> bool:
            """Take the lock; False if somebody else has it and `blocking` is false. StartError if it cannot be opened."""
            from filelock import Timeout

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

else:
    import fcntl

    class Lock:
        """An exclusive lock on a file."""

        def __init__(self, path: str) -> None:
            self.path = path
            self._descriptor = -1

        def acquire(self, blocking: bool = True) -> bool:
            """Take the lock; False if somebody else has it and `blocking` is false. StartError if it cannot be opened."""
            if self._descriptor >= 0:
                return True
            make_private(os.path.dirname(self.path))
            while True:
                descriptor = self._open()
                if not self._take(descriptor, blocking):
                    os.close(descriptor)
                    return False
                # Somebody may have removed or replaced the file while we waited: what we then hold is a lock on
                # a file that nobody else can find.
                if _is_at(descriptor, self.path):
                    self._descriptor = descriptor
                    return True
                os.close(descriptor)

        def release(self) -> None:
            """Give it back; nothing happens if it is not held."""
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

        def _open(self) -> int:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                return os.open(self.path, flags, 0o600)
            except OSError as exc:
                raise refusal("lock", self.path, exc) from exc

        def _take(self, descriptor: int, blocking: bool) -> bool:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX if blocking else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError as exc:
                os.close(descriptor)
                raise refusal("lock", self.path, exc) from exc
            return True

    def _is_at(descriptor: int, path: str) -> bool:
        held = os.fstat(descriptor)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise refusal("lock", path, exc) from exc
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)


__all__ = ["Lock", "StartError"]

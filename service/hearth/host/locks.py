"""Lock on a file, which the kernel releases when its holder dies, however that happens.

POSIX has `flock`: one system call, which the bridge can make without any package. Windows has none; there the C
runtime locks a byte of the file. A lock file is never unlinked: a process that waits for the old file and one that
makes a new file would both believe that they hold the lock.
"""

import os
import sys

from hearth.host.folders import make_private, refusal

if sys.platform == "win32":
    from hearth.host.windows.locks import Lock
else:
    import fcntl

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
                    if not self._take(descriptor, blocking):
                        return False
                    # Another process may have removed or replaced the file during the wait. This lock is then on a
                    # file that no other process can find.
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
                # Closing is not enough where a fork has left a copy of the descriptor elsewhere.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

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
            return True

    def _is_at(descriptor: int, path: str) -> bool:
        held = os.fstat(descriptor)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)


__all__ = ["Lock"]

"""File locks between daemon and command line, for files that several processes change. The bridge uses none of them.

The `filelock` package does the work. The import happens with the first lock that is taken, because the package brings
sqlite3 and more along, 3 MB in all: a daemon takes such a lock for logins and the vault only. `locks` has a plain lock
without any package, for the bridge and for files that every daemon writes (pins, traits). Both are the same lock to the
kernel: a holder of one kind keeps out the other.
"""

import os
from typing import TYPE_CHECKING

from hearth.errors import FileAccessError
from hearth.host.folders import make_private, refusal

if TYPE_CHECKING:
    import filelock

# filelock polls: another `hearth` holds such a lock for milliseconds.
_POLL_SECONDS = 0.05
_FOREVER = -1.0


class FileLock:
    """Exclusive lock on a file, held by this object: a second one in the same process waits too.

    The file is never unlinked: a process that waits for the old file and one that makes a new file would both believe
    that they hold the lock.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock: filelock.BaseFileLock | None = None

    def acquire(self, blocking: bool = True, seconds: float = _FOREVER) -> bool:
        """Take the lock; return False if another holder has kept it for `seconds`, or has it and `blocking` is false.

        Raises FileAccessError if the file cannot be opened. Taking a lock that is held already changes nothing.
        """
        try:
            import filelock
        except ImportError as exc:
            raise FileAccessError(f"{self.path} cannot be locked: {exc}; is Hearth's installation complete?") from exc

        make_private(os.path.dirname(self.path))
        if self._lock is None:
            # Any thread may release the lock. No soft locks: a file whose existence is the lock outlives its holder.
            self._lock = filelock.FileLock(self.path, mode=0o600, thread_local=False, fallback_to_soft=False)
        elif self._lock.is_locked:
            return True
        try:
            self._lock.acquire(timeout=seconds if blocking else 0.0, poll_interval=_POLL_SECONDS)
        except filelock.Timeout:
            return False
        except OSError as exc:
            raise refusal("lock", self.path, exc) from exc
        return True

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._lock is not None:
            self._lock.release(force=True)

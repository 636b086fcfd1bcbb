"""Private files of this user: opened, read and replaced whole, and locked between daemon and command line.

A reader sees the former content or the new one, never half of either. Nothing is synced to the disk unless asked for,
because a sync may block the event loop; a reader therefore treats a file that makes no sense as absent.

A log is rotated by renaming it. On Windows, a file that any process has opened in the usual way cannot be renamed, and
the mode of a new file means nothing: hence the functions that open files.

Two packages are used, and imported by the first use: filelock for `FileLock`, because it brings sqlite3 and more along,
3 MB in all (a daemon takes such a lock for logins and the vault only); on Windows pywin32 for private files.
"""

import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

from hearth.errors import FileAccessError
from hearth.host.folders import make_private, refusal

if TYPE_CHECKING:
    import filelock

# A reader has the file open for moments only; a virus scanner takes a little longer.
OPEN_ELSEWHERE_SECONDS = 0.5
_LOOK_SECONDS = 0.005
# filelock polls: another `hearth` holds such a lock for milliseconds.
_POLL_SECONDS = 0.05
_FOREVER = -1.0

# Time of the last change, size and inode of a file; None if it does not exist.
Stamp = tuple[int, int, int] | None

if sys.platform == "win32":
    import _winapi
    import msvcrt

    from hearth import sids
    from hearth.host.windows import accounts

    # CreateFile: GENERIC_READ; GENERIC_WRITE; FILE_APPEND_DATA with SYNCHRONIZE; sharing of all three kinds, or none;
    # CREATE_NEW; OPEN_ALWAYS; FILE_ATTRIBUTE_NORMAL.
    _READ, _WRITE, _APPEND, _SHARED, _ALONE = 0x8000_0000, 0x4000_0000, 0x0010_0004, 0x7, 0x0
    _CREATE_NEW, _OPEN_ALWAYS, _NORMAL = 1, 4, 0x80

    def open_to_append(path: str) -> int:
        """Open the file for appending, and create it if needed; return the descriptor. Raises OSError."""
        handle = _winapi.CreateFile(path, _APPEND, _SHARED, _winapi.NULL, _OPEN_ALWAYS, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_WRONLY | os.O_APPEND | os.O_BINARY | os.O_NOINHERIT)

    def open_to_read(path: str, flags: int = 0) -> int:
        """Open the file for reading; return the descriptor. Usable as an opener for `open`. Raises OSError."""
        handle = _winapi.CreateFile(path, _READ, _SHARED, _winapi.NULL, _winapi.OPEN_EXISTING, _NORMAL, _winapi.NULL)
        return msvcrt.open_osfhandle(handle, os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT)

    def open_private(path: str) -> int:
        """Create an empty file for this user only, replacing any former one; return the descriptor. Raises OSError."""
        import win32file

        # Remove a former file first: opening it would keep its access rights.
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        # One entry, this user's, none inherited: an installer may have opened the folder.
        security = accounts.attributes(f"O:{sids.own()}D:P(A;;FA;;;{sids.own()})")
        with accounts.os_errors():
            handle: Any = win32file.CreateFile(path, _WRITE, _ALONE, security, _CREATE_NEW, _NORMAL, None)
        return msvcrt.open_osfhandle(handle.Detach(), os.O_WRONLY | os.O_BINARY | os.O_NOINHERIT)

else:

    def open_to_append(path: str) -> int:
        """Open the file for appending, or create it for this user only; return the descriptor. Raises OSError."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def open_to_read(path: str, flags: int = 0) -> int:
        """Open the file for reading; return the descriptor. Usable as an opener for `open`. Raises OSError."""
        return os.open(path, os.O_RDONLY)

    def open_private(path: str) -> int:
        """Open the file empty, created for this user only; return the descriptor. Raises OSError, also for a link."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)


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


def write(path: str, data: bytes, durable: bool = False, mode: int | None = None) -> None:
    """Write the file atomically, for this user only unless `mode` says otherwise; its folder must exist.

    `durable` makes it survive a power failure a moment later; meant for data that exists nowhere else. Raises OSError.
    """
    temporary = beside(path)
    try:
        _write(temporary, data, durable)
        if mode is not None:
            os.chmod(temporary, mode)
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


def stamp(path: str) -> Stamp:
    """Return the state of a file, by which a change is noticed."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        # The file exists, or may exist.
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def beside(path: str) -> str:
    """Return a unique name, in the same folder, for the file that will replace this one."""
    # The pid alone is not unique: in containers that share a folder every process may have the same one.
    return f"{path}.{os.getpid()}-{os.urandom(4).hex()}"


def _write(path: str, data: bytes, durable: bool = False) -> None:
    with open(open_private(path), "wb") as file:
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


class FileLock:
    """Exclusive lock on a file, held by this object: a second one in the same process waits too. Not for the bridge.

    `locks` has a plain lock without any package, for the bridge and for files that every daemon writes (pins, traits).
    Both are the same lock to the kernel: a holder of one kind keeps out the other. The file is never unlinked: a
    process that waits for the old file and one that makes a new file would both believe that they hold the lock.
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

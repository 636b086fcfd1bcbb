"""Private folders of this user, and error messages for files and folders that the system refuses.

Sockets, locks and the registry are in such folders. This module knows nothing about their content.
"""

import errno
import os
import stat
import sys

from hearth.errors import FileAccessError

# Units, launchers and the like have some hundred characters.
TEXT_LIMIT_CHARACTERS = 1 << 20

_SENTENCES = {
    errno.EROFS: "the file system is read-only; make it writable, or set XDG_RUNTIME_DIR and XDG_STATE_HOME to others",
    errno.EACCES: "permission denied; it must belong to you and be writable",
    errno.EPERM: "permission denied; it must belong to you and be writable",
    errno.ENOTDIR: "a part of the path is a file, not a folder; move that file away",
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "your disk quota is used up; free some space",
    errno.ELOOP: "it is a symbolic link, which is not followed here; remove the link",
    errno.ENAMETOOLONG: "the path is too long; set XDG_RUNTIME_DIR to a shorter one",
}


def refusal(action: str, path: str, exc: OSError) -> FileAccessError:
    """Return a FileAccessError that says in a sentence why the system refused, and what to do."""
    why = _SENTENCES.get(exc.errno or 0) or (exc.strerror or str(exc)).lower()
    return FileAccessError(f"cannot {action} {path}: {why}")


def remove_file(path: str, known_as: str | None = None) -> None:
    """Remove a file, if it exists. Raises FileAccessError, with the path that the person knows it by."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise refusal("remove", known_as or path, exc) from exc


def sync_folder(path: str) -> None:
    """Make new names in the folder survive a power failure, where the system has a way to do that. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_text(path: str, limit: int = TEXT_LIMIT_CHARACTERS) -> str:
    """Return the beginning of a text file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except OSError:
        return ""


def make_private(path: str) -> None:
    """Make the folder and its missing parents with mode 0700.

    Raises FileAccessError if the folder cannot be made, is not a folder of this user, or is a symbolic link.
    A folder that others may enter is closed to them.
    """
    try:
        _make(path)
        if sys.platform != "win32":
            _check(path, os.lstat(path), os.getuid())
    except OSError as exc:
        raise refusal("make the folder", path, exc) from exc


def _make(path: str) -> None:
    parent = os.path.dirname(path)
    if parent != path and not os.path.isdir(parent):
        _make(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass


def _check(path: str, found: os.stat_result, me: int) -> None:
    # `found` comes from lstat: in a shared folder such as /tmp, any user may have planted a link that leads anywhere.
    if stat.S_ISLNK(found.st_mode):
        raise FileAccessError(f"the folder {path} is a symbolic link, which is not followed here; remove the link")
    if not stat.S_ISDIR(found.st_mode):
        raise FileAccessError(f"{path} should be a folder and is a file; move it away")
    if found.st_uid != me:
        raise FileAccessError(f"the folder {path} belongs to user {found.st_uid}, not to you; have it removed")
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)

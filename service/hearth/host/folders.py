"""Folders that only this user may enter, and the sentences for when the system refuses one.

Sockets, locks and the registry lie in them. Knows nothing of what is put inside.
"""

import errno
import os
import stat
import sys

from hearth.errors import StartError

_SENTENCES = {
    errno.EROFS: "the file system is read-only; make it writable, or set XDG_RUNTIME_DIR to a folder that is",
    errno.EACCES: "permission denied; it must belong to you and be writable",
    errno.EPERM: "permission denied; it must belong to you and be writable",
    errno.ENOTDIR: "a part of the path is a file, not a folder; move that file away",
    errno.EISDIR: "a folder is where a file should be; move it away",
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "your disk quota is used up; free some space",
    errno.ELOOP: "it is a symbolic link, which is not followed here; remove the link",
    errno.ENAMETOOLONG: "the path is too long; set XDG_RUNTIME_DIR to a shorter one",
}


def refusal(action: str, path: str, exc: OSError) -> StartError:
    """A StartError that says in a sentence why the system refused, and what to do."""
    why = _SENTENCES.get(exc.errno or 0) or (exc.strerror or str(exc)).lower()
    return StartError(f"cannot {action} {path}: {why}")


def make_private(path: str) -> None:
    """Make the folder and its missing parents with mode 0700; raise StartError if it is not this user's alone."""
    try:
        _make(path)
        if sys.platform != "win32":
            _check(path)
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


def _check(path: str) -> None:
    # lstat: a link planted in a shared folder such as /tmp could lead anywhere.
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        raise StartError(f"the folder {path} is a symbolic link, which is not followed here; remove the link")
    if not stat.S_ISDIR(found.st_mode):
        raise StartError(f"{path} should be a folder and is a file; move it away")
    if sys.platform != "win32" and found.st_uid != os.getuid():
        raise StartError(
            f"the folder {path} belongs to user {found.st_uid}, not to you; remove it, or ask them to"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(path, 0o700)

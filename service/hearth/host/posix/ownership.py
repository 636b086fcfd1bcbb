"""Who could put another file in the place of one that somebody else is going to run.

Looks at every folder on the way to it and follows links, because whoever can write to one of them decides what lies at
the end. Lists of access rights (ACLs) are seen: the kernel shows the widest right in one as the group's. Knows nothing
of what is run.
"""

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

# As the kernel's own limit: more are taken for a circle.
_MAX_LINKS = 40


class Trusted(NamedTuple):
    """Who may own the files, by number, and the one group that may write to them: a user's private one."""

    uids: Collection[int] = (0,)
    gid: int | None = None


ROOT = Trusted()


def objection(path: str, trusted: Trusted = ROOT) -> str | None:
    """The first thing on the way to a file that is in the hands of others, as a clause; None if there is none.

    What is missing is nobody's: only who can write to the folder above could make it, and that one is looked at.
    """
    try:
        for place, found in _way(path):
            flaw = _flaw(found, trusted)
            if flaw:
                return f"{place} {flaw}"
    except FileNotFoundError:
        return None
    except OSError as exc:
        return f"{exc.filename or path} cannot be looked at ({exc.strerror})"
    return None


def objection_to_listener(path: str, uid: int) -> str | None:
    """Return why a process of that user is not believed at a Unix socket, as a clause; None if it is.

    The process of this user or of root is. That of any other user is, if no third user could have put the socket
    there: the caller was given the path, and only its owner decides who listens.
    """
    if sys.platform == "win32":
        return None
    me = os.getuid()
    if uid in (me, 0):
        return None
    try:
        owner = os.stat(path).st_uid
    except OSError as exc:
        return f"{path} cannot be looked at ({exc.strerror})"
    if owner != uid:
        return f"{path} belongs to user {owner}, and user {uid} listens there"
    flaw = objection(os.path.dirname(path) or ".", Trusted((0, me, owner)))
    return flaw and f"user {uid} listens on {path}, and {flaw}"


def objection_below(folder: str, trusted: Trusted = ROOT) -> str | None:
    """The same for a folder and everything in it."""
    found = objection(folder, trusted)
    if found:
        return found
    unreadable: list[OSError] = []
    for inside, folders, files in os.walk(os.path.realpath(folder), onerror=unreadable.append):
        for name in (*folders, *files):
            found = _objection_in(inside, name, trusted)
            if found:
                return found
    return f"{unreadable[0].filename} cannot be looked at ({unreadable[0].strerror})" if unreadable else None


def _objection_in(folder: str, name: str, trusted: Trusted) -> str | None:
    """About one file of a folder that is known to be in good hands: thousands of them are looked at."""
    path = os.path.join(folder, name)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return objection(path, trusted)
    flaw = _flaw(found, trusted)
    return f"{path} {flaw}" if flaw else None


def _way(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Each folder and each link that is passed on the way to a file, and the file."""
    links = 0
    here, ahead = "/", path.split("/")[::-1]
    yield here, os.lstat(here)
    while ahead:
        part = ahead.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        place = os.path.join(here, part)
        found = os.lstat(place)
        yield place, found
        if not stat.S_ISLNK(found.st_mode):
            here = place
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(place)
        ahead += target.split("/")[::-1]
        if target.startswith("/"):
            here = "/"


def _flaw(found: os.stat_result, trusted: Trusted) -> str | None:
    if found.st_uid not in trusted.uids:
        return f"belongs to {_user_name(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        # Its mode means nothing.
        return None
    if found.st_mode & stat.S_IWOTH:
        return "can be written to by everybody"
    if found.st_mode & stat.S_IWGRP and found.st_gid != trusted.gid:
        return f"can be written to by the group {_group_name(found.st_gid)}"
    return None


def _user_name(uid: int) -> str:
    if sys.platform != "win32":
        import pwd

        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            pass
    return str(uid)


def _group_name(gid: int) -> str:
    if sys.platform != "win32":
        import grp

        try:
            return grp.getgrgid(gid).gr_name
        except KeyError:
            pass
    return str(gid)


def private_group(name: str, gid: int) -> int | None:
    """The first group of a user, if it is of that user alone: called alike, as useradd makes it."""
    if sys.platform == "win32":
        return None
    import grp

    try:
        found = grp.getgrgid(gid)
    except KeyError:
        return None
    return gid if found.gr_name == name and set(found.gr_mem) <= {name} else None

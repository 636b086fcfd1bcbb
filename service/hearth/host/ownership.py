"""Check of which users could replace a file that another user is going to run.

The check looks at every folder on the path to the file and follows links, because a user who can write to one of them
decides which file the path leads to. ACLs are included: the kernel shows the widest right of an ACL as the group's.
This module knows nothing about the program that is run.
"""

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

# Limit of the kernel: more links are taken for a loop.
_MAX_LINKS = 40


class Trusted(NamedTuple):
    """Users who may own the files, by uid, and the one group that may write to them: a user's private group."""

    uids: Collection[int] = (0,)
    gid: int | None = None


ROOT = Trusted()


def objection(path: str, trusted: Trusted = ROOT) -> str | None:
    """Return, as a clause, the first thing on the path to a file that others control; None if there is none.

    A missing file is controlled by no one: only a user who can write to the folder above could make it, and that folder
    is checked.
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
    """Return why a process of that user is not trusted at a Unix socket, as a clause; None if it is.

    A process of this user or of root is trusted. A process of any other user is trusted if no third user could have put
    the socket there: the caller was given the path, and only its owner decides who listens.
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
    """Return the same as `objection` for a folder and everything in it."""
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
    """Check one file of a folder that passed the check itself; fast, because there are thousands of files."""
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
    """Yield each folder and each link on the path to a file, and the file."""
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
        return f"belongs to {_name_of(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):
        # The mode of a link means nothing.
        return None
    if found.st_mode & stat.S_IWOTH:
        return "can be written to by everybody"
    if found.st_mode & stat.S_IWGRP and found.st_gid != trusted.gid:
        return f"can be written to by the group {_name_of(found.st_gid, is_group=True)}"
    return None


def _name_of(number: int, is_group: bool = False) -> str:
    if sys.platform != "win32":
        import grp
        import pwd

        try:
            return grp.getgrgid(number).gr_name if is_group else pwd.getpwuid(number).pw_name
        except KeyError:
            pass
    return str(number)


def private_group(name: str, gid: int) -> int | None:
    """Return the primary group of a user if private: named like the user, as useradd does, with no other members."""
    if sys.platform == "win32":
        return None
    import grp

    try:
        found = grp.getgrgid(gid)
    except KeyError:
        return None
    return gid if found.gr_name == name and set(found.gr_mem) <= {name} else None

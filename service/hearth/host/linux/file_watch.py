"""Whether something happens on the way to a file: inotify(7), through ctypes. For Linux only.

Editors replace files and dotfile managers put links in their place, hence not the file is watched but the folders in
which names on the way to it are looked up: that of the file itself, that of each link, and, where a folder is missing,
the last one that is there. Tells that it is worth a look; what has changed, if anything, is for the caller to find out.
"""

import ctypes
import os
import stat
import struct

# inotify(7); the flags of inotify_init1(2) are NONBLOCK and CLOEXEC.
_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x8, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_FOLDERS = 0x01000000
_NONBLOCK, _CLOEXEC = 0o4000, 0o2000000
_WATCHED = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_FOLDERS
)  # fmt: skip
# The folder itself is gone, or events were lost: whatever the name, it is worth a look.
_ANY_NAME = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_EVENT = struct.Struct("iIII")
# As many links as the kernel follows.
LINKS_LIMIT = 40
# What was found while the watches were set may have changed meanwhile; whoever swaps links in a loop is not waited for.
ATTEMPTS = 5
_READ_BYTES = 64 * 1024


class FileWatch:
    """A watch on the way to one file, which need not be there. `descriptor` is readable when there may be news."""

    def __init__(self, path: str) -> None:
        """Raises OSError where the system has no watches, or none left."""
        self._path = os.path.abspath(path)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._watched: dict[int, set[str]] = {}
        self.descriptor = self._called("inotify_init1", _NONBLOCK | _CLOEXEC)
        try:
            self._set_watches()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)

    def read(self) -> bool:
        """Take what the kernel has to tell. True if it is about a name on the way; that way is then looked up anew.

        Raises OSError when no watch can be set any more.
        """
        concerned = False
        while data := self._take():
            concerned = any(self._concerns(*event) for event in _events(data)) or concerned
        if concerned:
            self._set_watches()
        return concerned

    def _take(self) -> bytes:
        try:
            return os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return b""

    def _concerns(self, watch: int, mask: int, name: str) -> bool:
        if mask & _OVERFLOW:
            return True
        # What is told of a watch that was taken away is of no interest.
        names = self._watched.get(watch)
        return names is not None and (bool(mask & _ANY_NAME) or name in names)

    def _set_watches(self) -> None:
        steps: set[tuple[str, str]] = set()
        for _ in range(ATTEMPTS):
            found = way_to(self._path)
            if found == steps:
                return
            steps = found
            self._watch(steps)

    def _watch(self, steps: set[tuple[str, str]]) -> None:
        watched: dict[int, set[str]] = {}
        problem: OSError | None = None
        for folder, name in steps:
            try:
                number = self._called("inotify_add_watch", self.descriptor, os.fsencode(folder), _WATCHED)
            except OSError as exc:
                # It may be gone again, or be closed to us; the others are still worth it.
                problem = exc
            else:
                watched.setdefault(number, set()).add(name)
        for number in self._watched.keys() - watched.keys():
            # One that is gone by itself is refused, and no matter.
            self._libc.inotify_rm_watch(self.descriptor, number)
        self._watched = watched
        if problem and not watched:
            raise problem

    def _called(self, function: str, *arguments: object) -> int:
        result: int = getattr(self._libc, function)(*arguments)
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result


def _events(data: bytes) -> list[tuple[int, int, str]]:
    found, at = [], 0
    while at + _EVENT.size <= len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
        found.append((watch, mask, os.fsdecode(name)))
        at += _EVENT.size + length
    return found


def way_to(path: str) -> set[tuple[str, str]]:
    """The folders, and the names in them, on which it depends what file is at an absolute path.

    Folders above that are no links are left out: they are seldom moved, and HOME is a busy place to watch.
    """
    found: set[tuple[str, str]] = set()
    folder, names = "/", _parts(path)
    links = 0
    while names:
        name = names.pop(0)
        here = os.path.join(folder, name)
        try:
            mode = os.lstat(here).st_mode
        except OSError:
            found.add((folder, name))
            break
        if stat.S_ISLNK(mode):
            found.add((folder, name))
            links += 1
            target = _target(here)
            if target is None or links > LINKS_LIMIT:
                break
            folder = "/" if target.startswith("/") else folder
            names = _parts(target) + names
        elif not names:
            found.add((folder, name))
        elif name == "..":
            folder = os.path.dirname(folder)
        else:
            folder = here
    return found


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _target(link: str) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None

"""The registry entry, as the bridge reads it: where a daemon listens that is not at its usual socket, and its token.

The entry is the daemon's as long as that one holds the daemon lock; the first who finds the lock free removes it.
Loaded behind the first answer.
"""

import os
import sys

from hearth.bridge import jsonlite
from hearth.errors import FrameError, StartError
from hearth.host.folders import remove_file
from hearth.host.locks import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hearth.paths import Places

# The entry has nine short values; a longer file is not ours.
_SIZE_LIMIT_BYTES = 64 * 1024
_REGULAR, _TYPE_BITS = 0o100000, 0o170000


class Running:
    """A daemon that holds its lock: its endpoint, and the token that it wants over TCP."""

    __slots__ = ("endpoint", "token")

    def __init__(self, endpoint: str, token: str) -> None:
        self.endpoint = endpoint
        self.token = token


def look(places: "Places") -> Running | None:
    """Return where the daemon says that it listens; None if none runs, after removing what it left behind."""
    found = _read(places.registry)
    return found if found and _is_held(places) else None


def _is_held(places: "Places") -> bool:
    """Return whether a daemon holds its lock; if not, remove its registry entry under that lock."""
    lock = Lock(places.daemon_lock)
    try:
        if not lock.acquire(blocking=False):
            return True
        remove_file(places.registry)
    except StartError:
        # The folder cannot be used: the start of a daemon reports that.
        return False
    finally:
        lock.release()
    return False


def _read(path: str) -> Running | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            state = os.fstat(descriptor)
            if sys.platform != "win32" and state.st_uid != os.getuid():
                return None
            if state.st_mode & _TYPE_BITS != _REGULAR:
                return None
            values = jsonlite.read(os.read(descriptor, _SIZE_LIMIT_BYTES).strip())
        finally:
            os.close(descriptor)
    except (OSError, FrameError):
        # Absent, or no entry: nothing is known.
        return None
    endpoint, token = values.get("endpoint"), values.get("token", "")
    return Running(endpoint, token) if isinstance(endpoint, str) and isinstance(token, str) else None

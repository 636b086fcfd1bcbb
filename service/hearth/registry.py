"""The registry: one small file per daemon that says who it is, and the lock that says whether it lives.

`daemon.json` is a hint, for people and for a quick look; only the holder of the daemon lock writes or removes
it. It holds no secrets and no arguments. An entry is stale when its process is gone, which a reused pid does
not hide. Knows nothing of sockets: whether the endpoint answers is for the caller to try.
"""

import os
import sys

from hearth.host import private_files, processes
from hearth.host.folders import make_private, refusal
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.records import Record

# The entry has eight short values; a longer file is not ours.
_SIZE_LIMIT_BYTES = 64 * 1024
# pid_t is a signed int everywhere.
_LARGEST_PID = 2**31 - 1

_JSON_NAMES = {
    "daemon_id": "daemonId",
    "endpoint": "endpoint",
    "pid": "pid",
    "start_time": "startTime",
    "started_at": "startedAt",
    "version": "version",
    "protocol": "protocol",
    "config_hash": "configHash",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "pid": (int,),
    "start_time": (int,),
    "started_at": (int, float),
    "protocol": (int,),
}


class Entry(Record):
    """One daemon. `start_time` is the kernel's (host/processes), `started_at` in seconds since 1970."""

    daemon_id: str
    endpoint: str
    pid: int
    start_time: int
    started_at: float
    version: str
    protocol: int
    config_hash: str = ""


def prepare(places: Places) -> None:
    """Make the daemon's folders, private to this user; StartError says which one cannot be used, and why."""
    for folder in places.private_folders():
        make_private(folder)


def read(places: Places) -> Entry | None:
    """The entry, whether or not its daemon still lives; None if there is none that can be understood."""
    import json

    try:
        with open(places.registry, "rb", opener=_open_without_waiting) as file:
            return _parse(json.loads(file.read(_SIZE_LIMIT_BYTES))) if _is_mine(file.fileno()) else None
    except (OSError, ValueError, RecursionError):
        # Absent, unreadable, half written, somebody else's: all mean that nothing is known.
        return None


def write(places: Places, entry: Entry) -> None:
    """Put the entry in place: a reader sees the old one or the new one, never half of it. May StartError."""
    import json

    prepare(places)
    document = {_JSON_NAMES[name]: getattr(entry, name) for name in Entry.fields}
    temporary = f"{places.registry}.{os.getpid()}"
    try:
        _write_file(temporary, json.dumps(document, indent=2).encode() + b"\n")
        private_files.replace(temporary, places.registry)
    except OSError as exc:
        _unlink(temporary)
        raise refusal("write", places.registry, exc) from exc


def remove(places: Places) -> None:
    """Forget the entry; only the holder of the daemon lock may."""
    try:
        os.unlink(places.registry)
    except FileNotFoundError:
        pass
    except OSError as exc:
        raise refusal("remove", places.registry, exc) from exc


def is_alive(entry: Entry) -> bool:
    """Whether the process that wrote the entry still runs."""
    return processes.is_alive(entry.pid, entry.start_time)


def _parse(found: object) -> Entry | None:
    if not isinstance(found, dict):
        return None
    values = {name: found.get(json_name) for name, json_name in _JSON_NAMES.items()}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES.get(name, (str,))):
            return None
    entry = Entry(**values)  # type: ignore[arg-type]  # each was checked
    return entry if 0 < entry.pid <= _LARGEST_PID else None


def _is_mine(descriptor: int) -> bool:
    # The folder may be in /tmp, made by somebody else before us: what it says would choose whom we signal.
    return sys.platform == "win32" or os.fstat(descriptor).st_uid == os.getuid()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _write_file(path: str, data: bytes) -> None:
    # Not followed: what lies there under this name can only be a leftover, or a trap.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, data)  # a few hundred bytes: whole, or an error
    finally:
        os.close(descriptor)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


__all__ = ["Entry", "Lock", "is_alive", "prepare", "read", "remove", "write"]

"""The registry: one small file per daemon that says who it is, and the lock that says whether it lives.

`daemon.json` is a hint, for people and for a quick look; only the holder of the daemon lock writes or removes it.
It holds no secrets and no arguments. An entry is stale when its pid is dead or belongs to somebody who started at
another time. Knows nothing of sockets: whether the endpoint answers is for the caller to try.
"""

import os

from hearth.errors import StartError
from hearth.host import processes
from hearth.host.folders import make_private, refusal
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.records import Record

# The entry has eight short values; a longer file is not ours.
_SIZE_LIMIT_BYTES = 64 * 1024

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
_NUMBERS = frozenset({"pid", "start_time", "protocol"})


class Entry(Record):
    """One daemon. `start_time` is the kernel's (see host/processes), `started_at` seconds since 1970."""

    daemon_id: str
    endpoint: str
    pid: int
    start_time: int
    started_at: float
    version: str
    protocol: int
    config_hash: str = ""


def prepare(places: Places) -> None:
    """Make the folders that the daemon needs, private to this user; StartError says which one cannot be used."""
    make_private(os.path.dirname(places.folder))
    make_private(places.folder)


def read(places: Places) -> Entry | None:
    """The entry, whoever wrote it and whether or not that one still lives; None if there is no usable one."""
    import json

    try:
        with open(places.registry, "rb") as file:
            found = json.loads(file.read(_SIZE_LIMIT_BYTES))
        return _parse(found)
    except (OSError, ValueError, RecursionError):
        # Absent, unreadable, half written or foreign: all of them mean that nothing is known.
        return None


def write(places: Places, entry: Entry) -> None:
    """Put the entry in place at once: a reader sees the old one or the new one, never half of it."""
    import json

    prepare(places)
    document = {_JSON_NAMES[name]: getattr(entry, name) for name in Entry.fields}
    temporary = f"{places.registry}.{os.getpid()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(json.dumps(document, indent=2).encode() + b"\n")
        os.replace(temporary, places.registry)
    except OSError as exc:
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
    values: dict[str, object] = {}
    for name, json_name in _JSON_NAMES.items():
        value = found.get(json_name)
        wanted: type | tuple[type, ...] = int if name in _NUMBERS else str
        if name == "started_at":
            wanted = (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            return None
        values[name] = value
    return Entry(**values)  # type: ignore[arg-type]  # each was checked above


__all__ = ["Entry", "Lock", "StartError", "is_alive", "prepare", "read", "remove", "write"]

"""Registry of daemons: one small file per daemon that describes it, and the lock that shows whether it is alive.

`daemon.json` is a hint, for people and for a quick lookup; only the holder of the daemon lock writes or removes it. The
file has no arguments, and no secret but the token of a daemon that listens on TCP. An entry is stale when its process
is gone, which a reused pid does not hide. Knows nothing of sockets: the caller has to try whether the endpoint answers.
"""

import os

from hearth.errors import FileAccessError
from hearth.host import private_files, processes
from hearth.host.folders import make_private, refusal, remove_file
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
    "token": "token",
}
# Fields that are left out of the file if empty.
_OPTIONAL = frozenset({"token"})
_TYPES: dict[str, tuple[type, ...]] = {
    "pid": (int,),
    "start_time": (int,),
    "started_at": (int, float),
    "protocol": (int,),
}


class RegistryEntry(Record):
    """Entry of one daemon. `start_time` is the kernel's (host/processes), `started_at` in seconds since 1970."""

    daemon_id: str
    endpoint: str
    pid: int
    start_time: int
    started_at: float
    version: str
    protocol: int
    config_hash: str = ""
    # Token of a daemon on TCP; empty on a socket, where the kernel names the peer.
    token: str = ""


def prepare(places: Places) -> None:
    """Create the daemon's folders, private to this user. Raises FileAccessError, which names the folder."""
    for folder in places.private_folders():
        make_private(folder)


def read(places: Places) -> RegistryEntry | None:
    """Return the entry, whether or not its daemon is still alive; None if there is none that can be parsed."""
    import json

    try:
        # The folder may be in /tmp, created earlier by another user: its entry would choose the process to signal.
        return _parse(json.loads(private_files.read(places.registry, _SIZE_LIMIT_BYTES)))
    except (OSError, ValueError, RecursionError):
        # Absent, unreadable, half written, another user's: in every case nothing is known.
        return None


def endpoint(places: Places) -> str:
    """Return the daemon's endpoint by its entry; without an entry, its usual socket."""
    entry = read(places)
    return entry.endpoint if entry else places.socket


def write(places: Places, entry: RegistryEntry) -> None:
    """Write the entry atomically: a reader sees the old one or the new one. Raises FileAccessError."""
    import json

    if not os.path.isdir(places.folder):
        # Only if it is missing: a reload must not change the mode of folders that were opened to a group.
        prepare(places)
    values = {name: getattr(entry, name) for name in RegistryEntry.fields}
    document = {_JSON_NAMES[name]: value for name, value in values.items() if value or name not in _OPTIONAL}
    try:
        private_files.write(places.registry, json.dumps(document, indent=2).encode() + b"\n")
    except OSError as exc:
        raise refusal("write", places.registry, exc) from exc


def remove(places: Places) -> None:
    """Remove the entry; only the holder of the daemon lock may call this."""
    remove_file(places.registry)


def sweep(places: Places) -> None:
    """Remove an entry whose daemon is gone, under the daemon lock; keep it if the lock is not available."""
    lock = Lock(places.daemon_lock)
    try:
        if not lock.acquire(blocking=False):
            return
        entry = read(places)
        if entry is not None and not is_alive(entry):
            remove(places)
    except FileAccessError:
        # The folder cannot be written to: the start of a daemon reports that.
        pass
    finally:
        lock.release()


def is_alive(entry: RegistryEntry) -> bool:
    """Tell whether the process that wrote the entry still runs."""
    return processes.is_alive(entry.pid, entry.start_time)


def _parse(found: object) -> RegistryEntry | None:
    if not isinstance(found, dict):
        return None
    values = {name: found.get(json_name) for name, json_name in _JSON_NAMES.items()}
    values.update({name: "" for name in _OPTIONAL if values[name] is None})
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, _TYPES.get(name, (str,))):
            return None
    entry = RegistryEntry(**values)  # type: ignore[arg-type]  # each was checked
    return entry if 0 < entry.pid <= _LARGEST_PID else None


__all__ = ["Lock", "RegistryEntry", "endpoint", "is_alive", "prepare", "read", "remove", "sweep", "write"]

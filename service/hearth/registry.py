"""Registry of daemons: the entry of each, the lock that shows whether it is alive, and the lock of its profile.

`daemon.json` is a hint, for people and for a quick lookup; only the holder of the daemon lock writes or removes it. The
file has no arguments, and no secret but the token of a daemon that listens on TCP. An entry is stale when its process
is gone, which a reused pid does not hide. Knows nothing of sockets: the caller has to try whether the endpoint answers.

By the lock of a profile in the state folder, daemons of one profile with different runtime folders see each other:

    STATE/daemons/KEY/MACHINE.lock      held by the first daemon of the profile on this machine, for its life
    STATE/daemons/KEY/MACHINE-X.lock    held by a daemon beside it that cannot reach the first
    ….json                              place of the lock holder's socket and registry

MACHINE is a digest of machine id and boot id: a home may be shared by machines, and a lock does not outlive a boot.
"""

import os

from hearth import paths
from hearth.errors import FileAccessError
from hearth.host import private_files, processes, system
from hearth.host.folders import make_private, read_text, refusal, remove_file
from hearth.host.locks import Lock
from hearth.paths import Places
from hearth.records import Record

# The entry has eight short values; a longer file is not ours.
_SIZE_LIMIT_BYTES = 64 * 1024
# pid_t is a signed int everywhere.
_LARGEST_PID = 2**31 - 1
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")

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
    return _parse(_load(places.registry))


def _load(path: str) -> object:
    import json

    try:
        # The folder may be in /tmp, created earlier by another user: its entry would choose the process to signal.
        return json.loads(private_files.read(path, _SIZE_LIMIT_BYTES))
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


# --- the lock of a profile


class ProfileLock:
    """Lock of one profile, the first or one beside it."""

    def __init__(self, places: paths.Places) -> None:
        self._places = places
        self._folder = profile_folder(places.key)
        self._lock: Lock | None = None

    def take(self) -> str | None:
        """Take the profile's lock; if another daemon has it, return the socket path that names that daemon.

        An empty path means that the holder has not published its socket yet. Raises FileAccessError.
        """
        make_private(self._folder)
        lock = Lock(os.path.join(self._folder, machine() + ".lock"))
        if lock.acquire(blocking=False):
            self._lock = lock
            # A killed daemon leaves its record behind, which would name the wrong place.
            private_files.remove(_record(lock.path))
            return None
        return _read_socket(lock.path)

    def run_beside(self) -> None:
        """Take a separate lock, so that this daemon is visible, too. Raises FileAccessError."""
        self._lock = Lock(os.path.join(self._folder, f"{machine()}-{os.urandom(4).hex()}.lock"))
        self._lock.acquire(blocking=False)

    def publish(self) -> None:
        """Publish the place of this daemon. If the state folder is not writable, others only do not see it."""
        if self._lock is not None:
            import json

            document = {"socket": self._places.named or self._places.folder + ".sock", "pid": os.getpid()}
            try:
                private_files.write(_record(self._lock.path), json.dumps(document).encode() + b"\n")
            except OSError:
                pass

    def release(self) -> None:
        """Remove the record, then release the lock."""
        if self._lock is not None:
            private_files.remove(_record(self._lock.path))
            self._lock.release()
            self._lock = None


def profile_folder(key: str) -> str:
    """Return the folder of a profile's locks."""
    return os.path.join(paths.state_dir(), "daemons", key)


def profiles() -> list[str]:
    """Return the profiles that have had daemons."""
    try:
        return sorted(os.listdir(os.path.join(paths.state_dir(), "daemons")))
    except OSError:
        return []


def profile_sockets(key: str) -> list[str]:
    """Return the socket path of each daemon of the profile that runs on this machine, the first one first."""
    folder, found = profile_folder(key), []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".lock") and name.startswith(machine()))
    except OSError:
        return []
    for name in sorted(names, key=len):
        path = os.path.join(folder, name)
        if _is_profile_held(path):
            found.append(_read_socket(path))
    return [path for path in found if path]


def machine() -> str:
    """Return the name of this machine and boot."""
    known = next((text for path in _MACHINE_IDS if (text := _text(path))), "")
    if not known and not system.is_windows():
        import socket

        known = socket.gethostname()
    return paths.digest(f"{known} {_text(_BOOT_ID)}")


def _text(path: str) -> str:
    return read_text(path, 256).strip()


def _is_profile_held(path: str) -> bool:
    lock = Lock(path)
    try:
        if lock.acquire(blocking=False):
            return False
    except FileAccessError:
        return False
    finally:
        lock.release()
    return True


def _record(lock: str) -> str:
    return lock.removesuffix(".lock") + ".json"


def _read_socket(lock: str) -> str:
    found = _load(_record(lock))
    socket = found.get("socket") if isinstance(found, dict) else None
    return socket if isinstance(socket, str) else ""

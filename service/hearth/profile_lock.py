"""Lock of a profile in the state folder, by which daemons of one profile with different runtime folders see each other.

    STATE/daemons/KEY/MACHINE.lock      held by the first daemon of the profile on this machine, for its life
    STATE/daemons/KEY/MACHINE-X.lock    held by a daemon beside it that cannot reach the first
    ….json                              place of the lock holder's socket and registry

MACHINE is a digest of machine id and boot id: a home may be shared by machines, and a lock does not outlive a boot.
The caller has to try whether a daemon can be reached from here.
"""

import os

from hearth import paths
from hearth.errors import FileAccessError
from hearth.host import private_files, system
from hearth.host.folders import make_private
from hearth.host.locks import Lock

_SIZE_LIMIT_BYTES = 64 * 1024
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


class ProfileLock:
    """Lock of one profile, the first or one beside it."""

    def __init__(self, places: paths.Places) -> None:
        self._places = places
        self._folder = folder_of(places.key)
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
        return _read(lock.path)

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


def folder_of(key: str) -> str:
    """Return the folder of a profile's locks."""
    return os.path.join(paths.state_dir(), "daemons", key)


def keys() -> list[str]:
    """Return the profiles that have had daemons."""
    try:
        return sorted(os.listdir(os.path.join(paths.state_dir(), "daemons")))
    except OSError:
        return []


def held(key: str) -> list[str]:
    """Return the socket path of each daemon of the profile that runs on this machine, the first one first."""
    folder, found = folder_of(key), []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".lock") and name.startswith(machine()))
    except OSError:
        return []
    for name in sorted(names, key=len):
        path = os.path.join(folder, name)
        if _is_held(path):
            found.append(_read(path))
    return [path for path in found if path]


def machine() -> str:
    """Return the name of this machine and boot."""
    known = next((text for path in _MACHINE_IDS if (text := _text(path))), "")
    if not known and not system.is_windows():
        import socket

        known = socket.gethostname()
    return paths.digest(f"{known} {_text(_BOOT_ID)}")


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(256).strip()
    except OSError:
        return ""


def _is_held(path: str) -> bool:
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


def _read(lock: str) -> str:
    import json

    try:
        found = json.loads(private_files.read(_record(lock), _SIZE_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    socket = found.get("socket") if isinstance(found, dict) else None
    return socket if isinstance(socket, str) else ""

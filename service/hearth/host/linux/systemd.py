"""Service side of systemd's protocols: passed sockets, readiness, the watchdog, the journal.

The protocols are sd_listen_fds(3), sd_notify(3) and sd_journal_print(3). systemd-python speaks them where it is
installed (the extra `systemd`, Debian's python3-systemd); a few lines of standard library do so elsewhere, because the
package has no wheel and has to be compiled against libsystemd, and because the degraded daemon uses this module when
nothing else can be imported. systemd-python is imported only in a process that systemd has started: that takes 3 ms.
"""

import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

LISTEN_FDS_START = 3
JOURNAL_SOCKET = "/run/systemd/journal/socket"
# A datagram has to fit into the socket's buffer (208 KiB by default). Longer values are cut: no record needs more.
VALUE_LIMIT_BYTES = 64 * 1024
_LISTEN_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
_MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
# Modules of systemd-python, with the functions that are called. Not `systemd.journal`, which has the same `sendv` and
# brings uuid, datetime and a reader of journals along: 14 ms of every start.
_DAEMON = ("daemon", "notify", "listen_fds_with_names")
_JOURNAL = ("_journal", "sendv")
_IN_USE: set[str] = set()


def _library(part: tuple[str, ...]) -> Any:
    """Return a module of systemd-python; None where it is not installed, or is too old."""
    import importlib

    name, *functions = part
    try:
        found = importlib.import_module(f"systemd.{name}")
    except ImportError:
        return None
    if not all(hasattr(found, function) for function in functions):
        return None
    _IN_USE.add(name.strip("_"))
    return found


def implementation() -> str:
    """Return, for the log, which code speaks systemd's protocols in this process."""
    return f"systemd-python ({', '.join(sorted(_IN_USE))})" if _IN_USE else "the standard library"


# --- sockets


def take_listeners() -> list[tuple[str, socket.socket]]:
    """Return the sockets that were passed to this very process, by name; they are close-on-exec from now on.

    The variables are removed, so that no child takes them for its own.
    """
    library = _library(_DAEMON) if os.environ.get("LISTEN_PID") else None
    named = _names_by_library(library) if library else None
    values = {name: os.environ.pop(name, "") for name in _LISTEN_VARIABLES}
    if named is None:
        named = _names(values)
    return [(name, socket.socket(fileno=descriptor)) for descriptor, name in sorted(named.items())]


def _names_by_library(library: Any) -> dict[int, str] | None:
    """Return the names by descriptor; None where libsystemd rejects the variables, which `_names` reads leniently."""
    try:
        found: dict[int, str] = library.listen_fds_with_names(unset_environment=False)
    except OSError:
        return None
    return found


def _names(values: Mapping[str, str]) -> dict[int, str]:
    if values["LISTEN_PID"] != str(os.getpid()) or not values["LISTEN_FDS"].isdigit():
        return {}
    names = values["LISTEN_FDNAMES"].split(":") if values["LISTEN_FDNAMES"] else []
    found = {}
    for index in range(int(values["LISTEN_FDS"])):
        os.set_inheritable(LISTEN_FDS_START + index, False)
        found[LISTEN_FDS_START + index] = names[index] if index < len(names) else "unknown"
    return found


def hand_on_listeners(listeners: list[tuple[str, socket.socket]]) -> None:
    """Prepare the environment so that an exec of this process takes the listeners again."""
    # Copies first: one descriptor may have the number that another needs.
    copies = [os.dup(sock.fileno()) for _, sock in listeners]
    for number, copy in enumerate(copies, LISTEN_FDS_START):
        os.dup2(copy, number, inheritable=True)
    names = ":".join(name for name, _ in listeners)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(listeners)), LISTEN_FDNAMES=names)


def forget_manager() -> None:
    """Forget the service manager of the process that started this one: this process does not report to it."""
    for name in _MANAGER_VARIABLES:
        os.environ.pop(name, None)


# --- readiness, status and watchdog


class Notifier:
    """Notifier of the service manager about the state of the service; silent when there is none."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        # Whether a service manager wants notifications.
        self.is_heard = bool(address)
        self._socket: socket.socket | None = None
        self._library = _library(_DAEMON) if self._address else None
        interval = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half the interval, as sd_watchdog_enabled(3) advises; None without a watchdog.
        self.watchdog_seconds = int(interval) / 2_000_000 if interval.isdigit() and mine else None

    def _send(self, message: str) -> None:
        if sys.platform == "win32" or not self._address:
            return
        try:
            if self._library:
                self._library.notify(message)
                return
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            # A manager that does not listen must not stop the service.
            pass

    def ready(self, status: str) -> None:
        """Report that the service is ready."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, status: str) -> None:
        """Report one line for `systemctl status`."""
        self._send(f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """Report that the configuration is being reloaded; `ready` follows."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str, seconds: float) -> None:
        """Report that the service is stopping, and ask for that much time, whatever TimeoutStopSec says."""
        self._send(f"STOPPING=1\nSTATUS={_line(status)}\nEXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def watchdog(self) -> None:
        """Report that the loop still runs."""
        self._send("WATCHDOG=1")


def _line(text: str) -> str:
    """Join the lines of a text: systemd would read the text after a line break as another setting."""
    return " ".join(text.split("\n"))


# --- journal


def is_behind_stderr() -> bool:
    """Tell whether stderr goes to the journal: systemd names that stream in JOURNAL_STREAM (systemd.exec(5)).

    A unit may send stderr elsewhere (StandardError=), and the log is then expected there.
    """
    if sys.platform == "win32":
        return False
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def encode(fields: Mapping[str, bytes]) -> bytes:
    """Encode a record as a datagram. A value of several lines follows its length, any other follows a `=`."""
    parts = []
    for name, data in fields.items():
        key = name.encode("ascii")
        if b"\n" in data:
            parts.append(key + b"\n" + len(data).to_bytes(8, "little") + data + b"\n")
        else:
            parts.append(key + b"=" + data + b"\n")
    return b"".join(parts)


class Journal:
    """Connection to the journal, for the life of a process."""

    def __init__(self, path: str = JOURNAL_SOCKET) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        # Number of records lost since the last one that was sent.
        self._lost = 0
        # libsystemd knows one journal, the system's.
        self._library = _library(_JOURNAL) if path == JOURNAL_SOCKET else None

    def send(self, fields: Mapping[str, str]) -> bool:
        """Send a record; return False if no journal listens. Never waits: a journal that hangs costs records."""
        if sys.platform == "win32":
            return False
        texts = {**fields, **({"HEARTH_LOST": str(self._lost)} if self._lost else {})}
        record = {name: text.encode("utf-8", "replace")[:VALUE_LIMIT_BYTES] for name, text in texts.items()}
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            # To its address each time: the journal may have been restarted.
            self._socket.connect(self._path)
            if self._library is None:
                self._socket.send(encode(record))
            elif self._has_room(self._socket):
                self._library.sendv(*(name.encode("ascii") + b"=" + data for name, data in record.items()))
            else:
                raise BlockingIOError
        except BlockingIOError:
            self._lost += 1
            return True
        except OSError:
            return False
        self._lost = 0
        return True

    @staticmethod
    def _has_room(connected: socket.socket) -> bool:
        """Tell whether the journal's queue takes a record now.

        sd_journal_sendv(3) waits for a full queue, on a socket that cannot be reached from here, and would hold up the
        event loop for as long as the journal hangs; it also drops records in silence where no journal is. So another
        socket is connected and polled first. A journal that works empties its queue at once: if other programs fill
        it between the poll and the call, that wait is as short.
        """
        if sys.platform == "win32":
            return False
        waiter = select.poll()
        waiter.register(connected, select.POLLOUT)
        return bool(waiter.poll(0))

    def close(self) -> None:
        """Close the socket."""
        if self._socket:
            self._socket.close()
            self._socket = None

"""Service side of systemd's protocols: passed sockets, readiness, the watchdog.

Standard library only, because the degraded daemon uses it when nothing else can be imported. The protocols are
sd_listen_fds(3) and sd_notify(3).
"""

import os
import socket
import sys
import time

LISTEN_FDS_START = 3
_LISTEN_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
_MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


def take_listeners() -> list[tuple[str, socket.socket]]:
    """Return the sockets that were passed to this very process, by name; they are close-on-exec from now on.

    The variables are removed, so that no child takes them for its own.
    """
    values = {name: os.environ.pop(name, "") for name in _LISTEN_VARIABLES}
    if values["LISTEN_PID"] != str(os.getpid()) or not values["LISTEN_FDS"].isdigit():
        return []
    count = int(values["LISTEN_FDS"])
    names = values["LISTEN_FDNAMES"].split(":") if values["LISTEN_FDNAMES"] else []
    listeners = []
    for index in range(count):
        descriptor = LISTEN_FDS_START + index
        os.set_inheritable(descriptor, False)
        name = names[index] if index < len(names) else "unknown"
        listeners.append((name, socket.socket(fileno=descriptor)))
    return listeners


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


class Notifier:
    """Notifier of the service manager about the state of the service; silent when there is none."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        interval = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half the interval, as sd_watchdog_enabled(3) advises; None without a watchdog.
        self.watchdog_seconds = int(interval) / 2_000_000 if interval.isdigit() and mine else None

    @property
    def is_heard(self) -> bool:
        """Whether a service manager wants notifications."""
        return bool(self._address)

    def _send(self, message: str) -> None:
        if sys.platform == "win32" or not self._address:
            return
        try:
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

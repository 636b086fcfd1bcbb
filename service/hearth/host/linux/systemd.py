"""What systemd hands to a service and wants to hear from it: sockets, readiness, the watchdog.

Standard library only, because the degraded daemon uses it when nothing else can be imported. The protocols are those of
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
    """The sockets that were handed to this very process, by name; they are close-on-exec from here on.

    The variables are removed, so that a child never believes that they are meant for it.
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
    # Copies first: one of them may be where another is to go.
    copies = [os.dup(sock.fileno()) for _, sock in listeners]
    for number, copy in enumerate(copies, LISTEN_FDS_START):
        os.dup2(copy, number, inheritable=True)
    names = ":".join(name for name, _ in listeners)
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(listeners)), LISTEN_FDNAMES=names)


def forget_manager() -> None:
    """Leave the service manager of whoever started this process behind: what becomes of us is not its business."""
    for name in _MANAGER_VARIABLES:
        os.environ.pop(name, None)


class Notifier:
    """Tells the service manager how the service does; says nothing when there is none."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: socket.socket | None = None
        interval = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half the interval, as sd_watchdog_enabled(3) advises; None when nobody watches.
        self.watchdog_seconds = int(interval) / 2_000_000 if interval.isdigit() and mine else None

    @property
    def is_heard(self) -> bool:
        """Whether there is a service manager that wants to know."""
        return bool(self._address)

    def _send(self, message: str) -> None:
        if sys.platform == "win32" or not self._address:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            # A manager that does not listen is no reason to stop serving.
            pass

    def ready(self, status: str) -> None:
        """Serving."""
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def status(self, status: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={_line(status)}")

    def reloading(self) -> None:
        """Reading the configuration again; `ready` follows."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self, status: str, seconds: float) -> None:
        """On the way out, which may take so long, whatever TimeoutStopSec says."""
        self._send(f"STOPPING=1\nSTATUS={_line(status)}\nEXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def watchdog(self) -> None:
        """Still turning."""
        self._send("WATCHDOG=1")


def _line(text: str) -> str:
    """What stands behind another line break would be read as a setting of its own."""
    return " ".join(text.split("\n"))

"""POSIX shell of the degraded daemon: one loop serves all sockets. Standard library only, and nothing of Hearth.

`explain` is the last resort, for a daemon of which not even the guard (`daemon.main`) can be imported: an activated one
still reaches `accept`, so that systemd does not give up on the socket. launchd hands its socket over on request only:
if even that request cannot be made, the process exits, and launchd starts it again, at most every ten seconds.
"""

import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from hearth.daemon.degraded.core import Degraded, DegradedClient, describe, unavailable

# The listener's descriptor, in sd_listen_fds(3).
_LISTENER = 3
_READ_BYTES = 65536
# A client that does not read loses its connection after this time; it must not block the others.
_CLIENT_SECONDS = 1.0
_WAIT_SECONDS = 1.0


Socket = socket.socket


class ClientListener(Protocol):
    """Protocol for the listener: `host.listener` has the whole of it."""

    socket: Socket
    # TCP sockets for HTTP, whose clients are not authenticated.
    ports: list[Socket]
    # Token of the clients; empty where the kernel names the peer.
    token: str

    def accept(self) -> Socket | None:
        """Return the next connection, or None. Raises OSError when none can be accepted for now."""


class ManagerNotifier(Protocol):
    """Protocol for the notifier of the service manager: `host.linux.systemd` has the whole of it."""

    watchdog_seconds: float | None

    def ready(self, status: str) -> None:
        """Report that the service is ready."""

    def watchdog(self) -> None:
        """Report that the loop still runs."""


def execute_again(arguments: Sequence[str]) -> None:
    """Replace this process by a daemon with that command line. The listener must be inheritable."""
    os.execv(sys.executable, [sys.executable, "-I", "-m", "hearth.daemon", *arguments])


def serve(
    daemon: Degraded,
    listener: ClientListener,
    notifier: ManagerNotifier,
    is_welcome: Callable[[socket.socket], bool] = lambda connection: True,
) -> None:
    """Answer clients with the reason until the daemon is over."""
    _Sockets(daemon, listener, is_welcome).serve(notifier)


class _Sockets:
    def __init__(self, daemon: Degraded, listener: ClientListener, is_welcome: Callable[[socket.socket], bool]) -> None:
        self._daemon = daemon
        self._listener = listener
        self._is_welcome = is_welcome
        self._poll = selectors.DefaultSelector()
        self._look_again = False

    def serve(self, notifier: ManagerNotifier) -> None:
        self._watch_signals()
        self._poll.register(self._listener.socket, selectors.EVENT_READ, self._welcome)
        for port in self._listener.ports:
            self._poll.register(port, selectors.EVENT_READ, lambda port=port: self._turn_away(port))
        notifier.ready(f"degraded: {self._daemon.reason}")
        while not self._daemon.is_over():
            for key, _ in self._poll.select(min(_WAIT_SECONDS, notifier.watchdog_seconds or _WAIT_SECONDS)):
                key.data()
            if self._look_again:
                self._look_again = False
                self._daemon.restart()
            notifier.watchdog()

    def _watch_signals(self) -> None:
        # Windows has no SIGUSR1 and no SIGHUP, and does not use this module; a type checker looks at it all the same.
        for name in ("SIGTERM", "SIGINT", "SIGUSR1"):
            signal.signal(getattr(signal, name), lambda number, frame: self._daemon.leave())
        signal.signal(getattr(signal, "SIGHUP"), self._hung_up)  # noqa: B009
        # Python resumes the wait after a handler has run (PEP 475); the byte that is written here ends it.
        woken, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.detach())
        self._poll.register(woken, selectors.EVENT_READ, lambda: woken.recv(_READ_BYTES))

    def _hung_up(self, number: int, frame: object) -> None:
        self._look_again = True

    def _welcome(self) -> None:
        # Before the accept: the connection waits in the kernel's queue, and the next daemon serves it.
        self._daemon.consulted()
        try:
            connection = self._listener.accept()
        except OSError:
            return
        if connection is None:
            return
        token = self._listener.token
        if not token and not self._is_welcome(connection):
            connection.close()
            return
        connection.settimeout(_CLIENT_SECONDS)
        client = DegradedClient(connection, token)
        self._daemon.clients.add(client)
        self._poll.register(connection, selectors.EVENT_READ, lambda: self._receive(connection, client))

    def _receive(self, connection: socket.socket, client: DegradedClient) -> None:
        try:
            stays = client.receive(self._daemon, connection.recv(_READ_BYTES))
        except (OSError, ValueError):
            stays = False
        if not stays:
            self._poll.unregister(connection)
            self._daemon.clients.discard(client)
            connection.close()

    def _turn_away(self, port: socket.socket) -> None:
        """Refuse an HTTP connection at a port without the reason, because its client is not authenticated."""
        self._daemon.consulted()
        port.setblocking(False)
        try:
            connection, _ = port.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(_CLIENT_SECONDS)
            try:
                connection.recv(_READ_BYTES)
                connection.sendall(unavailable("the daemon cannot serve; `hearth status` tells why"))
            except OSError:
                pass


# --- the last resort


def explain(cause: BaseException, activated: bool) -> int:
    """Tell clients, and the process that started us, what is broken, and return the exit code."""
    reason = describe(cause)
    try:
        os.write(2, f"<3>hearth: {reason}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        # No process reads it; clients that connect are told all the same.
        pass
    _tell_starter(reason)
    if not activated and not _taken_from_launchd():
        return 1
    serve(Degraded(reason, _pass_listener_on), _InheritedListener(), _PlainNotifier())
    return 0


def _tell_starter(reason: str) -> None:
    """Write the reason to the pipe on which the bridge that started us waits."""
    if "--ready-fd" in sys.argv[:-1]:
        try:
            os.write(int(sys.argv[sys.argv.index("--ready-fd") + 1]), reason.encode() + b"\n")
        except (OSError, ValueError):
            pass


def _taken_from_launchd() -> bool:
    try:
        from hearth.host.macos import launchd

        held = launchd.take_listener("mcp") if launchd.PRESENT else None
    except Exception:
        # Any failure here has the same cause.
        return False
    if held is None:
        return False
    os.dup2(held.detach(), _LISTENER, inheritable=False)
    os.environ["LISTEN_FDNAMES"] = "launchd"
    return True


def _pass_listener_on() -> None:
    os.set_inheritable(_LISTENER, True)
    name = os.environ.get("LISTEN_FDNAMES", "mcp").split(":")[0]
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES=name)
    limits = sys.modules.get("hearth.host.process_setup")
    if limits is not None:
        # The next daemon passes its own limit on to its servers.
        limits.restore_core_dumps()
    execute_again(sys.argv[1:])


class _InheritedListener:
    """Listener that the service manager passed on. The mode of its file keeps other users away."""

    def __init__(self) -> None:
        self.socket = socket.socket(fileno=_LISTENER)
        self.socket.setblocking(False)
        self.ports: list[socket.socket] = []
        self.token = ""

    def accept(self) -> socket.socket | None:
        return self.socket.accept()[0]


class _PlainNotifier:
    """Notifier of systemd by sd_notify(3)."""

    # The loop runs once a second, whatever the watchdog asks for.
    watchdog_seconds: float | None = None

    def ready(self, status: str) -> None:
        self._send(f"READY=1\nSTATUS={status}")

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        address, family = os.environ.get("NOTIFY_SOCKET", ""), getattr(socket, "AF_UNIX", None)
        if not address or family is None:
            return
        with socket.socket(family, socket.SOCK_DGRAM) as notifier:
            try:
                notifier.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
            except OSError:
                pass

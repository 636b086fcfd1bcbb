"""Connections of the degraded daemon over sockets: one loop serves all of them. Standard library only."""

import selectors
import signal
import socket
import sys

from hearth.daemon.degraded.core import Degraded, Guest, is_welcome, unavailable
from hearth.errors import WireError
from hearth.host import signals

assert sys.platform != "win32", "Windows has `degraded_pipes`"

_READ_BYTES = 65536


def serve(host: Degraded) -> None:
    """Answer clients with the reason until the daemon is over."""
    _Sockets(host).serve()


class _Sockets:
    def __init__(self, host: Degraded) -> None:
        self._host = host
        self._listener = host.listener
        self._present: dict[int, tuple[socket.socket, Guest]] = {}
        self._poll = selectors.DefaultSelector()
        self._look_again = False

    def serve(self) -> None:
        notifier = self._host.start.notifier
        self._watch_signals()
        self._poll.register(self._listener.socket, selectors.EVENT_READ)
        for port in self._listener.ports:
            self._poll.register(port, selectors.EVENT_READ)
        notifier.ready(f"degraded: {self._host.reason}")
        while not self._host.is_over():
            for key, _ in self._poll.select(min(1.0, notifier.watchdog_seconds or 1.0)):
                self._turn(key.fd)
            if self._look_again:
                self._look_again = False
                self._host.start_anew()
            notifier.watchdog()

    def _watch_signals(self) -> None:
        for number in filter(None, (*signals.END, signals.HAND_OVER)):
            signal.signal(number, self._go)
        if signals.HANG_UP:
            signal.signal(signals.HANG_UP, self._hung_up)
        # Python resumes the wait after a handler has run (PEP 475); the byte that is written here ends it.
        self._woken, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.detach())
        self._poll.register(self._woken, selectors.EVENT_READ)

    def _go(self, number: int, frame: object) -> None:
        self._host.leave()

    def _hung_up(self, number: int, frame: object) -> None:
        self._look_again = True

    def _turn(self, descriptor: int) -> None:
        if descriptor == self._listener.socket.fileno():
            self._welcome()
            return
        for port in self._listener.ports:
            if descriptor == port.fileno():
                self._turn_away(port)
                return
        if descriptor == self._woken.fileno():
            self._woken.recv(_READ_BYTES)
            return
        connection, guest = self._present[descriptor]
        try:
            stays = guest.receive(self._host, connection.recv(_READ_BYTES))
        except (OSError, WireError, ValueError):
            stays = False
        if not stays:
            self._poll.unregister(descriptor)
            del self._present[descriptor]
            self._host.guests.discard(guest)
            connection.close()

    def _turn_away(self, port: socket.socket) -> None:
        """Refuse an HTTP connection at a port without the reason, because its client is not authenticated."""
        self._host.consulted()
        port.setblocking(False)
        try:
            connection, _ = port.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(1.0)
            try:
                connection.recv(_READ_BYTES)
                connection.sendall(unavailable("the daemon cannot serve; `hearth status` tells why"))
            except OSError:
                pass

    def _welcome(self) -> None:
        # Before the accept: the connection waits in the kernel's queue, and the next daemon serves it.
        self._host.consulted()
        try:
            connection = self._listener.accept()
        except OSError:
            return
        if connection is None:
            return
        token = self._listener.token
        if not token and not is_welcome(connection):
            connection.close()
            return
        # A client that does not read loses its connection after this timeout; it must not block the others.
        connection.settimeout(1.0)
        guest = Guest(connection, token)
        self._present[connection.fileno()] = connection, guest
        self._host.guests.add(guest)
        self._poll.register(connection, selectors.EVENT_READ)

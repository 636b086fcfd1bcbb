"""TCP sockets that lead to HTTP. What speaks it is loaded with the first connection, as on the daemon's own socket."""

import asyncio
import errno
import functools
import logging
import socket
from typing import TYPE_CHECKING

from hearth.daemon.acceptor import ACCEPT_PAUSE_SECONDS
from hearth.daemon.counters import COUNTERS
from hearth.host import tcp_ports
from hearth.host.accept_loop import AcceptLoop

if TYPE_CHECKING:
    from hearth.daemon.acceptor import Acceptor
    from hearth.daemon.http.app import HttpApp

log = logging.getLogger(__name__)

# Connections that have shown no token: any user of this machine may open them. They take nothing from others' places.
STRANGERS_LIMIT = 32
# Accepted in one turn of the loop. From accepting to reading it takes a few turns: who says something at once is to be
# heard before as many others as make it the oldest of the silent ones.
STRANGERS_BATCH = STRANGERS_LIMIT // 8
# The socket itself is of no use any more. Any other error is of one connection, or passes: accept(2) hands on what the
# network has to say of who came, and asks to try again.
_FATAL = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK}


class Ports:
    """All of them, polled and rested together. None of them is ever closed: the process's end does that."""

    def __init__(self, reception: "Acceptor", sockets: list[socket.socket]) -> None:
        self._reception = reception
        # With their URLs: a socket that has failed cannot be asked any more.
        self._acceptors = {AcceptLoop(sock): tcp_ports.address_of(sock) for sock in sockets}
        # Of those that have failed, by their URLs.
        self._lost: dict[str, str] = {}
        self._is_starved = False
        # Accepted, while what speaks HTTP is being loaded.
        self.waiting = 0
        self._tasks: set[asyncio.Task[object]] = set()
        for address in self.addresses():
            log.info("HTTP on %s, for who has the token (`hearth token show`)", address)

    def addresses(self) -> list[str]:
        """The URLs of those that are served."""
        return list(self._acceptors.values())

    def lost(self) -> list[dict[str, str]]:
        """Those that are not served any more, and why."""
        return [{"address": address, "error": error} for address, error in self._lost.items()]

    def poll(self) -> None:
        """Accept whoever comes."""
        for acceptor in self._acceptors:
            acceptor.poll(functools.partial(self._accept, acceptor))

    def rest(self) -> None:
        """Accept nobody; who connects now waits in the kernel's queue."""
        for acceptor in self._acceptors:
            acceptor.rest()

    def look_once(self) -> bool:
        """Take what waits in the queues, although they are no longer polled; True when somebody was there."""
        came = [self._accept_one(acceptor) for acceptor in list(self._acceptors)]
        return any(came)

    def _accept(self, acceptor: AcceptLoop) -> None:
        for _ in range(STRANGERS_BATCH):
            if not self._accept_one(acceptor):
                return

    def _accept_one(self, acceptor: AcceptLoop) -> bool:
        try:
            connection = acceptor.accept()
        except OSError as exc:
            if exc.errno in _FATAL:
                self._lose(acceptor, exc)
            else:
                self._pause(exc)
            return False
        if connection is None:
            return False
        self._is_starved = False
        if self.waiting >= STRANGERS_LIMIT:
            COUNTERS.connections_refused += 1
            connection.close()
            return True
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.waiting += 1
        self._reception.expect(connection)
        self._reception.when_http_is_there(lambda front: self._meet(front, connection))
        return True

    def _lose(self, acceptor: AcceptLoop, exc: OSError) -> None:
        acceptor.rest()
        address, error = self._acceptors.pop(acceptor), exc.strerror or str(exc)
        self._lost[address] = error
        reason = f"HTTP on {address} has ended: {error}"
        log.error("%s", reason)
        self._reception.http_failed(reason)

    def _pause(self, exc: OSError) -> None:
        if not self._is_starved:
            log.error("no connection can be accepted for now: %s", exc)
        self._is_starved = True
        self.rest()
        asyncio.get_running_loop().call_later(ACCEPT_PAUSE_SECONDS, self._poll_again)

    def _poll_again(self) -> None:
        if not self._reception.is_draining:
            self.poll()

    def _meet(self, front: "HttpApp | None", connection: socket.socket) -> None:
        self.waiting -= 1
        self._reception.decided(connection, None)
        # It was closed if the daemon has gone out meanwhile.
        if front is None or connection.fileno() < 0:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        wire = front.connect_port()
        task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(lambda: wire, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

"""TCP ports that serve HTTP. The HTTP package is loaded with the first connection, as on the daemon's own socket."""

import asyncio
import errno
import functools
import logging
import socket
from typing import TYPE_CHECKING

from hearth.daemon.acceptor import ACCEPT_PAUSE_SECONDS
from hearth.daemon.counters import COUNTERS
from hearth.host.sockets import AcceptLoop, address_of

if TYPE_CHECKING:
    from hearth.daemon.acceptor import Acceptor
    from hearth.daemon.http.app import HttpApp

log = logging.getLogger(__name__)

# Limit of unauthenticated connections, which any user of this machine may open. The limit of other connections does not
# include them.
STRANGERS_LIMIT = 32
# Connections accepted in one iteration of the loop. A few iterations pass between accepting and reading: a client that
# sends at once must be read before so many others arrive that it becomes the oldest silent one, which is dropped.
STRANGERS_BATCH = STRANGERS_LIMIT // 8
# Errors after which the socket itself is unusable. Any other error concerns one connection or is transient: accept(2)
# passes on pending network errors of the new connection, and asks to try again.
_FATAL = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK}


class Ports:
    """TCP listeners, polled and rested together. None is ever closed explicitly: the process's exit closes them."""

    def __init__(self, reception: "Acceptor", sockets: list[socket.socket]) -> None:
        self._reception = reception
        # With their URLs: a socket that has failed cannot be asked for its address any more.
        self._acceptors = {AcceptLoop(sock): address_of(sock) for sock in sockets}
        # The errors of failed listeners, by URL.
        self._lost: dict[str, str] = {}
        self._is_starved = False
        # Connections that were accepted and wait for the HTTP package to load.
        self.waiting = 0
        self._tasks: set[asyncio.Task[object]] = set()
        for address in self.addresses():
            log.info("HTTP on %s, for who has the token (`hearth token show`)", address)

    def addresses(self) -> list[str]:
        """Return the URLs of the ports that are served."""
        return list(self._acceptors.values())

    def lost(self) -> list[dict[str, str]]:
        """Return the ports that are no longer served, with the errors."""
        return [{"address": address, "error": error} for address, error in self._lost.items()]

    def poll(self) -> None:
        """Start accepting connections."""
        for acceptor in self._acceptors:
            acceptor.poll(functools.partial(self._accept, acceptor))

    def rest(self) -> None:
        """Stop accepting; new connections wait in the kernel's queue."""
        for acceptor in self._acceptors:
            acceptor.rest()

    def look_once(self) -> bool:
        """Accept what waits in the queues that are no longer polled; return True if there was a connection."""
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
        # The daemon has closed the connection if it has shut down in the meantime.
        if front is None or connection.fileno() < 0:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        wire = front.connect_port()
        task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(lambda: wire, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

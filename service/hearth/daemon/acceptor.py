"""Acceptor of connections on the daemon's socket and on TCP ports: accept, check the peer and the room, know the wires.

The ports serve HTTP only. The HTTP package is loaded with the first connection, as on the socket.
"""

import asyncio
import errno
import functools
import importlib
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from hearth.config import Config
from hearth.daemon.client_connection import COUNTERS, ClientConnection
from hearth.daemon.client_limits import SILENCE_SECONDS
from hearth.daemon.protocol_detector import ProtocolDetector, refused_line
from hearth.errors import InstallationChanged, NoRoom
from hearth.faults import SEAMS
from hearth.host import listening, process_setup
from hearth.host.listening import Connection, Listener, Peer
from hearth.host.sockets import AcceptLoop, address_of
from hearth.host.system import user_id

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon
    from hearth.daemon.http.app import HttpApp

log = logging.getLogger(__name__)

# One readiness event may stand for many connections; between batches the loop runs other callbacks.
ACCEPT_BATCH = 64
# Pause after descriptors have run out: accepting again at once would spin.
ACCEPT_PAUSE_SECONDS = 0.2
# Connections beyond the limit for sessions: a full daemon can still be asked for its status, and told to stop.
CONTROL_PLACES = 8
# How long a connection may be silent before it is dropped to make room for another. Clients connect when they have
# something to send, and send it at once; this time allows for a loaded machine.
UNHEARD_SECONDS = 1.0
# Descriptors reserved for the loop, the log, the locks and the control connections …
RESERVED_DESCRIPTORS = 64
# … and for each server: its three pipes, and a temporary one while it starts.
SERVER_DESCRIPTORS = 4


class Acceptor:
    """Acceptor of one daemon, with its open connections: those whose protocol is known, and the undecided ones."""

    def __init__(self, services: "Daemon", listener: Listener | None, sockets: Sequence[socket.socket] = ()) -> None:
        self._services = services
        self._listener = listener
        self._tasks: set[asyncio.Task[object]] = set()
        self._farewell: tuple[bool, str] | None = None
        self._starved = False
        self._app: HttpApp | None = None
        self._loading: asyncio.Task[None] | None = None
        # Connections whose protocol is unknown, the oldest first.
        self.undecided: dict[object, None] = {}
        self.wires: set[ClientConnection] = set()
        # TCP sockets on which HTTP is served as well.
        self.ports = Ports(self, sockets)
        self._silent_until = float("-inf")

    def own_addresses(self) -> list[object]:
        """Return the addresses of the listeners, as the kernel has them. A named pipe has none."""
        own = [*([self._listener] if self._listener else []), *self.ports.listeners()]
        return [listener.socket.getsockname() for listener in own if hasattr(listener, "socket")]

    def expect(self, connection: object) -> None:
        """Add a connection to a port that waits for the HTTP package to load."""
        self.undecided[connection] = None

    def when_http_is_there(self, then: "Callable[[HttpApp | None], None]") -> None:
        """Call `then` with the HTTP app, which is loaded if necessary, or with None if it cannot be loaded."""
        if self._app:
            then(self._app)
            return
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_http())
        self._loading.add_done_callback(lambda _: then(self._app))

    async def _load_http(self) -> None:
        try:
            module = await asyncio.to_thread(importlib.import_module, "hearth.daemon.http.app")
            self._app = cast("HttpApp", module.HttpApp(self._services))
        except Exception as exc:
            # The installation is incomplete, or is being replaced: the next connection tries again.
            log.exception("HTTP cannot be served")
            why = str(InstallationChanged(exc)) if isinstance(exc, ImportError) else "`hearth logs` has the reason"
            self.http_failed(f"HTTP cannot be served: {why}")
        finally:
            self._loading = None

    def http_failed(self, reason: str) -> None:
        """Report that a port failed, or that the HTTP package could not be loaded."""
        self._services.http_failed(reason)

    # --- accepting

    def open(self) -> None:
        """Start to poll the listener and the ports."""
        if self._listener:
            self._listener.poll(self._accept)
        self.ports.poll()

    @property
    def is_draining(self) -> bool:
        """Whether no further connections are accepted."""
        return self._farewell is not None

    def _open_again(self) -> None:
        if not self.is_draining:
            self.open()

    def close(self) -> None:
        """Stop polling; new connections wait in the kernel's queue."""
        if self._listener:
            self._listener.rest()
        self.ports.rest()

    def drain(self, reconnect: bool, reason: str) -> None:
        """Accept no connection, and take no new request from open ones, decided or undecided."""
        self.close()
        self._farewell = (reconnect, reason)
        if self._app:
            # Also without an open connection: the state of its sessions is saved.
            self._app.drain(reason)
        for wire in list(self.wires):
            wire.drain(reconnect, reason)

    def adapt(self, config: Config) -> None:
        """Apply a new config to the open connections."""
        for wire in self.wires:
            wire.adapt(config)

    def session_wires(self) -> list[ClientConnection]:
        """Return the connections of clients; the others are control connections."""
        return [wire for wire in self.wires if wire.session or wire.is_shared]

    def count(self) -> dict[str, int]:
        """Return the number of connections by protocol. `stranger` counts the unauthenticated ones over TCP."""
        found = {"frames": 0, "lines": 0, "http": 0, "control": 0, "undecided": len(self.undecided)}
        for wire in self.wires:
            kind = wire.session.wire if wire.session else "http" if wire.is_shared else "control"
            found[kind] = found.get(kind, 0) + 1
        found["stranger"] = len(self._app.strangers) if self._app else 0
        return found

    def check_room(self) -> None:
        """Raise NoRoom if one more session, or one more HTTP connection, would be too many."""
        crowd = self._crowd(len(self.session_wires()), 0)
        if crowd:
            self._turn_away(crowd)
            raise NoRoom(f"Hearth refused the connection: {crowd}")

    def _turn_away(self, crowd: str) -> None:
        """Count a refused connection; log one line for many: a client in a loop connects a thousand times a second."""
        COUNTERS.connections_refused += 1
        now = self._services.now()
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_SECONDS
            log.warning("a connection is refused, and so may others be, which is not told each time: %s", crowd)

    def _crowd(self, present: int, more: int) -> str | None:
        limit, why = connection_limit(self._services.config, process_setup.open_files_limit())
        if present < limit + more:
            return None
        return f"{present} connections are open already ({why}); come back when some of them have ended"

    def look_once(self) -> bool:
        """Accept what waits in queues that are no longer polled; return True if there was a connection."""
        came = self._accept_one()
        return self.ports.look_once() or came

    def _accept(self) -> None:
        for _ in range(ACCEPT_BATCH):
            if not self._accept_one():
                return

    def _accept_one(self) -> bool:
        try:
            connection = self._listener.accept() if self._listener else None
        except OSError as exc:
            if not self._starved:
                log.error("no connection can be accepted for now: %s", exc)
            self._starved = True
            self.close()
            asyncio.get_running_loop().call_later(ACCEPT_PAUSE_SECONDS, self._open_again)
            return False
        self._starved = False
        if connection is None:
            return False
        if SEAMS:
            SEAMS.hit("after-accept")
        self._admit(connection)
        return True

    def _admit(self, connection: Connection) -> None:
        token = self._listener.token if self._listener else ""
        # Over TCP the kernel does not identify the peer; a client that sends the token is this user.
        peer = Peer(None, user_id(), -1) if token else listening.peer_of(connection)
        config = self._services.config
        groups = listening.groups_of(connection) if config.allowed_gids and not token else ()
        refusal = listening.refusal(peer, config.allowed_uids, config.allowed_gids, groups)
        if peer is None or refusal:
            log.warning("a connection is refused: %s", refusal)
            COUNTERS.connections_refused += 1
            listening.dismiss(connection, refused_line(refusal or "its peer is unknown"))
            return
        crowd = self._crowd(self._present(), CONTROL_PLACES)
        if crowd and not self._drop_unheard():
            self._turn_away(crowd)
            listening.dismiss(connection, refused_line(crowd))
            return
        detector = ProtocolDetector(self, self._services, peer, token)
        self.undecided[detector] = None
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(listening.attach(connection, detector))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._admitted(done, detector))

    def _present(self) -> int:
        """Return the number of connections that count against the limit.

        Connections at the ports have a limit of their own until they have shown the token.
        """
        return len(self.wires) + len(self.undecided) - self.ports.waiting

    def _drop_unheard(self) -> bool:
        """Drop the oldest connection that has been silent for too long; return False if there is none."""
        for each in self.undecided:
            if isinstance(each, ProtocolDetector) and not each.is_heard:
                is_late = self._services.now() - each.since >= UNHEARD_SECONDS
                return is_late and each.give_way()
        return False

    def _admitted(self, task: "asyncio.Task[object]", detector: ProtocolDetector) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.warning("a connection was lost at once: %s", task.exception())
            self.undecided.pop(detector, None)

    def decided(self, detector: object, wire: ClientConnection | None) -> None:
        """Register the wire of a connection whose protocol is known now, or forget a connection that has ended."""
        self.undecided.pop(detector, None)
        if wire:
            self.wires.add(wire)
            if self._farewell:
                wire.drain(*self._farewell)


def connection_limit(config: Config, files: int | None) -> tuple[int, str]:
    """Return the limit of sessions, and its source for messages: the config, or the system's limit of open files."""
    if files is not None:
        room = max(1, files - RESERVED_DESCRIPTORS - SERVER_DESCRIPTORS * len(config.servers))
        if room < config.max_connections:
            return room, f"the limit of {files} open files; raise it with ulimit -n, or LimitNOFILE= in the unit"
    return config.max_connections, "max_connections"


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

    def __init__(self, acceptor: Acceptor, sockets: Sequence[socket.socket]) -> None:
        self._acceptor = acceptor
        # With their URLs: a socket that has failed cannot be asked for its address any more.
        self._loops = {AcceptLoop(sock): address_of(sock) for sock in sockets}
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
        return list(self._loops.values())

    def listeners(self) -> list[AcceptLoop]:
        """Return the listeners of the ports that are served."""
        return list(self._loops)

    def lost(self) -> list[dict[str, str]]:
        """Return the ports that are no longer served, with the errors."""
        return [{"address": address, "error": error} for address, error in self._lost.items()]

    def poll(self) -> None:
        """Start accepting connections."""
        for loop in self._loops:
            loop.poll(functools.partial(self._accept, loop))

    def rest(self) -> None:
        """Stop accepting; new connections wait in the kernel's queue."""
        for loop in self._loops:
            loop.rest()

    def look_once(self) -> bool:
        """Accept what waits in the queues that are no longer polled; return True if there was a connection."""
        came = [self._accept_one(loop) for loop in list(self._loops)]
        return any(came)

    def _accept(self, loop: AcceptLoop) -> None:
        for _ in range(STRANGERS_BATCH):
            if not self._accept_one(loop):
                return

    def _accept_one(self, loop: AcceptLoop) -> bool:
        try:
            connection = loop.accept()
        except OSError as exc:
            if exc.errno in _FATAL:
                self._lose(loop, exc)
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
        self._acceptor.expect(connection)
        self._acceptor.when_http_is_there(lambda app: self._meet(app, connection))
        return True

    def _lose(self, loop: AcceptLoop, exc: OSError) -> None:
        loop.rest()
        address, error = self._loops.pop(loop), exc.strerror or str(exc)
        self._lost[address] = error
        reason = f"HTTP on {address} has ended: {error}"
        log.error("%s", reason)
        self._acceptor.http_failed(reason)

    def _pause(self, exc: OSError) -> None:
        if not self._is_starved:
            log.error("no connection can be accepted for now: %s", exc)
        self._is_starved = True
        self.rest()
        asyncio.get_running_loop().call_later(ACCEPT_PAUSE_SECONDS, self._poll_again)

    def _poll_again(self) -> None:
        if not self._acceptor.is_draining:
            self.poll()

    def _meet(self, app: "HttpApp | None", connection: socket.socket) -> None:
        self.waiting -= 1
        self._acceptor.decided(connection, None)
        # The daemon has closed the connection if it has shut down in the meantime.
        if app is None or connection.fileno() < 0:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        wire = app.connect_port()
        task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(lambda: wire, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

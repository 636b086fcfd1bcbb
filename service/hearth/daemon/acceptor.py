"""Acceptor of connections: accept, check the peer, detect the protocol by the first bytes, hand over to its wire."""

import asyncio
import importlib
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from hearth.config import Config
from hearth.daemon.counters import COUNTERS
from hearth.daemon.frame_connection import FrameConnection
from hearth.daemon.line_connection import LineConnection
from hearth.daemon.rate_limit import SILENCE_SECONDS
from hearth.daemon.services import DaemonServices, Wire
from hearth.errors import InstallationChanged, NoRoom
from hearth.faults import SEAMS
from hearth.host import connections
from hearth.host.connections import Connection, Peer
from hearth.host.listening import Listener
from hearth.host.posix import process_setup
from hearth.host.posix.peers import own_uid
from hearth.mcp import messages, versions
from hearth.wire import json
from hearth.wire.sniff import Language, sniff

if TYPE_CHECKING:
    from hearth.daemon.http.app import HttpApp
    from hearth.daemon.http_ports import Ports

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
# How long a connection over TCP may take to send the token. Any user of this machine can open one.
INTRODUCTION_SECONDS = 5.0
# Descriptors reserved for the loop, the log, the locks and the control connections …
RESERVED_DESCRIPTORS = 64
# … and for each server: its three pipes, and a temporary one while it starts.
SERVER_DESCRIPTORS = 4

_UNKNOWN = "expected frames, or MCP messages one per line; a message must be a JSON object"
_NO_HTTP = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b'Content-Length: 56\r\n\r\n{"error":"HTTP cannot be served; `hearth logs` has why"}'
)
_HTTP_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Retry-After: 1\r\nContent-Length: %d\r\n\r\n%b"
)
_SESSION_LINES = b'{"type":"error","message":"session lines are not served by this version of Hearth yet"}\n'


class Acceptor:
    """Acceptor of one daemon, with its open connections: those whose protocol is known, and the undecided ones."""

    def __init__(self, services: DaemonServices, listener: Listener | None) -> None:
        self._services = services
        self._listener = listener
        self._tasks: set[asyncio.Task[object]] = set()
        self._farewell: tuple[bool, str] | None = None
        self._starved = False
        self._front: HttpApp | None = None
        self._loading: asyncio.Task[None] | None = None
        # Connections whose protocol is unknown, the oldest first.
        self.undecided: dict[object, None] = {}
        self.wires: set[Wire] = set()
        self._ports: Ports | None = None
        self._silent_until = float("-inf")

    def serve_ports(self, sockets: list[socket.socket]) -> None:
        """Serve HTTP on TCP sockets as well, from the next `open` on."""
        if sockets:
            from hearth.daemon.http_ports import Ports

            self._ports = Ports(self, sockets)

    def ports(self) -> list[str]:
        """Return the addresses at which HTTP is served."""
        return self._ports.addresses() if self._ports else []

    def lost_ports(self) -> list[dict[str, str]]:
        """Return the addresses at which HTTP is no longer served, with the errors."""
        return self._ports.lost() if self._ports else []

    def expect(self, connection: object) -> None:
        """Add a connection to a port that waits for the HTTP package to load."""
        self.undecided[connection] = None

    def when_http_is_there(self, then: "Callable[[HttpApp | None], None]") -> None:
        """Call `then` with the HTTP app, which is loaded if necessary, or with None if it cannot be loaded."""
        if self._front:
            then(self._front)
            return
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_http())
        self._loading.add_done_callback(lambda _: then(self._front))

    async def _load_http(self) -> None:
        try:
            module = await asyncio.to_thread(importlib.import_module, "hearth.daemon.http.app")
            self._front = cast("HttpApp", module.HttpApp(self._services))
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
        if self._ports:
            self._ports.poll()

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
        if self._ports:
            self._ports.rest()

    def drain(self, reconnect: bool, reason: str) -> None:
        """Accept no connection, and take no new request from open ones, decided or undecided."""
        self.close()
        self._farewell = (reconnect, reason)
        if self._front:
            # Also without an open connection: the state of its sessions is saved.
            self._front.drain(reason)
        for wire in list(self.wires):
            wire.drain(reconnect, reason)

    def adapt(self, config: Config) -> None:
        """Apply a new config to the open connections."""
        for wire in self.wires:
            wire.adapt(config)

    def session_wires(self) -> list[Wire]:
        """Return the connections of clients; the others are control connections."""
        return [wire for wire in self.wires if wire.session or wire.is_shared]

    def count(self) -> dict[str, int]:
        """Return the number of connections by protocol. `stranger` counts the unauthenticated ones over TCP."""
        found = {"frames": 0, "lines": 0, "http": 0, "control": 0, "undecided": len(self.undecided)}
        for wire in self.wires:
            kind = wire.session.wire if wire.session else "http" if wire.is_shared else "control"
            found[kind] = found.get(kind, 0) + 1
        found["stranger"] = len(self._front.strangers) if self._front else 0
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
        return (self._ports is not None and self._ports.look_once()) or came

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
        peer = Peer(None, own_uid(), -1) if token else connections.peer_of(connection)
        config = self._services.config
        groups = connections.groups_of(connection) if config.allowed_gids and not token else ()
        refusal = connections.refusal(peer, config.allowed_uids, config.allowed_gids, groups)
        if peer is None or refusal:
            log.warning("a connection is refused: %s", refusal)
            COUNTERS.connections_refused += 1
            connections.dismiss(connection, _refused_line(refusal or "its peer is unknown"))
            return
        crowd = self._crowd(self._present(), CONTROL_PLACES)
        if crowd and not self._drop_unheard():
            self._turn_away(crowd)
            connections.dismiss(connection, _refused_line(crowd))
            return
        newcomer = ProtocolDetector(self, self._services, peer, token)
        self.undecided[newcomer] = None
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(connections.attach(connection, newcomer))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._admitted(done, newcomer))

    def _present(self) -> int:
        """Return the number of connections that count against the limit.

        Connections at the ports have a limit of their own until they have shown the token.
        """
        return len(self.wires) + len(self.undecided) - (self._ports.waiting if self._ports else 0)

    def _drop_unheard(self) -> bool:
        """Drop the oldest connection that has been silent for too long; return False if there is none."""
        for each in self.undecided:
            if isinstance(each, ProtocolDetector) and not each.is_heard:
                is_late = self._services.now() - each.since >= UNHEARD_SECONDS
                return is_late and each.give_way()
        return False

    def _admitted(self, task: "asyncio.Task[object]", newcomer: "ProtocolDetector") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception():
            log.warning("a connection was lost at once: %s", task.exception())
            self.undecided.pop(newcomer, None)

    def decided(self, newcomer: object, wire: Wire | None) -> None:
        """Register the wire of a connection whose protocol is known now, or forget a connection that has ended."""
        self.undecided.pop(newcomer, None)
        if wire:
            self.wires.add(wire)
            if self._farewell:
                wire.drain(*self._farewell)


class ProtocolDetector(asyncio.Protocol):
    """Connection before its protocol is known."""

    def __init__(self, reception: Acceptor, services: DaemonServices, peer: Peer, token: str = "") -> None:
        self._reception = reception
        self._services = services
        self._peer = peer
        # The token that the client has to send first; nothing else is read before it.
        self._token = token
        self._is_introduced = not token
        self._deadline: asyncio.TimerHandle | None = None
        self._first = b""
        self._transport: asyncio.Transport | None = None
        self.since = services.now()
        # The client has sent an HTTP request and waits for the HTTP package to load.
        self.is_heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports have the methods, but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        if self._token:
            self._deadline = asyncio.get_running_loop().call_later(INTRODUCTION_SECONDS, self._refuse_token)

    def data_received(self, data: bytes) -> None:
        self._first = self._first + data if self._first else data
        self._decide()

    def eof_received(self) -> bool:
        """Take EOF as the end of the first line: `echo … | socat` may end without a newline."""
        if self._first:
            self._first += b"\n"
            self._decide(ended=True)
            return True
        return False

    def _is_shown(self, ended: bool) -> bool:
        """Tell whether the token was shown, or will be with an HTTP request.

        The connection is closed if the token is wrong, or still missing when the client has `ended`.
        """
        from hearth.daemon import tcp_token

        verdict, rest = tcp_token.check(self._first, self._token)
        if verdict is tcp_token.TokenVerdict.MORE and not ended:
            return False
        if verdict in (tcp_token.TokenVerdict.MORE, tcp_token.TokenVerdict.REFUSED):
            self._refuse_token()
            return False
        self._first = rest
        self._is_introduced = True
        if self._deadline:
            self._deadline.cancel()
        return True

    def _refuse_token(self) -> None:
        """Refuse the connection without further details: any user of this machine can connect."""
        log.warning("a connection is refused: it shows no token, or a wrong one")
        COUNTERS.connections_refused += 1
        self._end(_refused_line("the token of its registry entry is missing or wrong"))

    def _decide(self, ended: bool = False) -> None:
        assert self._transport is not None
        if not self._is_introduced and not self._is_shown(ended):
            return
        language = sniff(self._first)
        if language is Language.FRAMES:
            self._become(FrameConnection(self._services, self._transport, self._peer.pid), ended)
        elif language is Language.LINES:
            self._become_lined(ended)
        elif language is Language.HTTP:
            self._become_http()
        elif language is Language.SESSION:
            self._end(_SESSION_LINES)
        elif language is Language.UNKNOWN or ended:
            self._end(messages.error(None, versions.INVALID_REQUEST, _UNKNOWN) + b"\n")

    def _become_lined(self, ended: bool) -> None:
        assert self._transport is not None
        try:
            self._reception.check_room()
        except NoRoom as exc:
            self._end(messages.error(None, versions.INTERNAL_ERROR, str(exc)) + b"\n")
        else:
            self._become(LineConnection(self._services, self._transport, self._peer.pid), ended)

    def _become_http(self) -> None:
        """Hand over to HTTP. Loading its package takes a moment the first time; others are served meanwhile."""
        assert self._transport is not None
        self.is_heard = True
        self._transport.pause_reading()
        self._reception.when_http_is_there(self._meet_http)

    def _meet_http(self, front: "HttpApp | None") -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if front is None:
            self._end(_NO_HTTP)
            return
        if self._token:
            self._meet_unproven(front)
            return
        try:
            self._reception.check_room()
        except NoRoom as exc:
            body = json.dumps({"error": str(exc)})
            self._end(_HTTP_NO_ROOM % (len(body), body))
            return
        wire = front.connect(self._peer)
        self._transport.set_protocol(wire)
        self._reception.decided(self, wire)
        wire.connection_made(self._transport)
        self._transport.resume_reading()
        wire.data_received(self._first)

    def _meet_unproven(self, front: "HttpApp") -> None:
        """Hand over a connection whose requests have to show the token; until then it counts as unauthenticated."""
        assert self._transport is not None
        wire = front.connect_port(self._token)
        self._transport.set_protocol(wire)
        self._reception.decided(self, None)
        wire.connection_made(self._transport)
        self._transport.resume_reading()
        wire.data_received(self._first)

    def _become(self, wire: FrameConnection | LineConnection, ended: bool) -> None:
        assert self._transport is not None
        self._transport.set_protocol(wire)
        self._reception.decided(self, wire)
        wire.data_received(self._first)
        if ended and not wire.eof_received():
            self._transport.close()

    def _end(self, words: bytes) -> None:
        assert self._transport is not None
        self._reception.decided(self, None)
        self._transport.write(words)
        self._transport.close()

    def give_way(self) -> bool:
        """Close to make room for another connection; return False if there is no transport yet."""
        if self._transport is None:
            return False
        self._end(_refused_line("there is no room for who does not say what it wants"))
        return True

    def close(self) -> None:
        """Close a silent connection, to which no answer is owed. A client that waits for HTTP is answered later."""
        if self._transport and not self.is_heard:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._reception.decided(self, None)


def _refused_line(reason: str) -> bytes:
    """Return a refusal for a client of unknown protocol; bridges and the command line understand it, too."""
    return messages.error(None, versions.INTERNAL_ERROR, f"Hearth refused the connection: {reason}") + b"\n"


def connection_limit(config: Config, files: int | None) -> tuple[int, str]:
    """Return the limit of sessions, and its source for messages: the config, or the system's limit of open files."""
    if files is not None:
        room = max(1, files - RESERVED_DESCRIPTORS - SERVER_DESCRIPTORS * len(config.servers))
        if room < config.max_connections:
            return room, f"the limit of {files} open files; raise it with ulimit -n, or LimitNOFILE= in the unit"
    return config.max_connections, "max_connections"

"""Detection of a connection's protocol by its first bytes, and the check for the token of a daemon on TCP.

frames   the first frame's header has `token`
lines    the first line is `Authorization: Bearer TOKEN`; the messages follow
HTTP     each request has the header; the HTTP package checks it
"""

import asyncio
import enum
import logging
from typing import TYPE_CHECKING, cast

from hearth.daemon.client_connection import COUNTERS
from hearth.daemon.frame_connection import FrameConnection
from hearth.daemon.line_connection import LineConnection
from hearth.errors import NoRoom, Refused, WireError
from hearth.host import listening
from hearth.host.listening import Peer
from hearth.mcp import messages, versions
from hearth.wire import json
from hearth.wire.sniff import DetectedProtocol, sniff

if TYPE_CHECKING:
    from hearth.daemon.acceptor import Acceptor
    from hearth.daemon.daemon import Daemon
    from hearth.daemon.http.app import HttpApp

log = logging.getLogger(__name__)

# How long a connection over TCP may take to send the token. Any user of this machine can open one.
INTRODUCTION_SECONDS = 5.0
# The size of a hello with its longest values; a longer first frame or first line cannot hold a valid token.
FIRST_LIMIT_BYTES = 128 * 1024
_PREFIX = b"authorization:"
_LENGTH_BYTES, _HEADER_BYTES = 4, 6

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


class ProtocolDetector(asyncio.Protocol):
    """Connection before its protocol is known."""

    _transport: asyncio.Transport

    def __init__(self, acceptor: "Acceptor", services: "Daemon", peer: Peer, token: str = "") -> None:
        self._acceptor = acceptor
        self._services = services
        self._peer = peer
        # The token that the client has to send first; nothing else is read before it.
        self._token = token
        self._is_introduced = not token
        self._deadline: asyncio.TimerHandle | None = None
        self._first = b""
        self._is_made = False
        self.since = services.now()
        # The client has sent an HTTP request and waits for the HTTP package to load.
        self.is_heard = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast: uvloop's transports have the methods, but not the base class.
        self._transport = cast(asyncio.Transport, transport)
        self._is_made = True
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
        verdict, rest = check_token(self._first, self._token)
        if verdict is TokenVerdict.MORE and not ended:
            return False
        if verdict in (TokenVerdict.MORE, TokenVerdict.REFUSED):
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
        self._end(refused_line("the token of its registry entry is missing or wrong"))

    def _decide(self, ended: bool = False) -> None:
        if not self._is_introduced and not self._is_shown(ended):
            return
        protocol = sniff(self._first)
        if protocol is DetectedProtocol.FRAMES:
            peer = self._peer
            is_own_user = listening.refusal(peer, (), ()) is None
            self._become(FrameConnection(self._services, self._transport, peer.pid, is_own_user), ended)
        elif protocol is DetectedProtocol.LINES:
            self._become_lined(ended)
        elif protocol is DetectedProtocol.HTTP:
            self._become_http()
        elif protocol is DetectedProtocol.SESSION:
            self._end(_SESSION_LINES)
        elif protocol is DetectedProtocol.UNKNOWN or ended:
            self._end(messages.error(None, versions.INVALID_REQUEST, _UNKNOWN) + b"\n")

    def _become_lined(self, ended: bool) -> None:
        try:
            self._acceptor.check_room()
            origin = self._services.policy.origin(self._peer.pid, None)
        except Refused as exc:
            if not isinstance(exc, NoRoom):
                log.info("a connection is refused: %s", exc)
                COUNTERS.connections_refused += 1
            self._end(messages.error(None, versions.INTERNAL_ERROR, str(exc)) + b"\n")
        else:
            self._become(LineConnection(self._services, self._transport, self._peer.pid, origin=origin), ended)

    def _become_http(self) -> None:
        """Hand over to HTTP. Loading its package takes a moment the first time; others are served meanwhile."""
        self.is_heard = True
        self._transport.pause_reading()
        self._acceptor.when_http_is_there(self._meet_http)

    def _meet_http(self, app: "HttpApp | None") -> None:
        if self._transport.is_closing():
            return
        if app is None:
            self._end(_NO_HTTP)
            return
        if self._token:
            # Each of its requests has to show the token; until then it counts as unauthenticated.
            wire = app.connect_port(self._token)
        else:
            try:
                self._acceptor.check_room()
            except NoRoom as exc:
                body = json.dumps({"error": str(exc)})
                self._end(_HTTP_NO_ROOM % (len(body), body))
                return
            wire = app.connect(self._peer)
        self._transport.set_protocol(wire)
        self._acceptor.decided(self, None if self._token else wire)
        wire.connection_made(self._transport)
        self._transport.resume_reading()
        wire.data_received(self._first)

    def _become(self, wire: FrameConnection | LineConnection, ended: bool) -> None:
        self._transport.set_protocol(wire)
        self._acceptor.decided(self, wire)
        wire.data_received(self._first)
        if ended and not wire.eof_received():
            self._transport.close()

    def _end(self, words: bytes) -> None:
        self._acceptor.decided(self, None)
        self._transport.write(words)
        self._transport.close()

    def give_way(self) -> bool:
        """Close to make room for another connection; return False if there is no transport yet."""
        if not self._is_made:
            return False
        self._end(refused_line("there is no room for who does not say what it wants"))
        return True

    def close(self) -> None:
        """Close a silent connection, to which no answer is owed. A client that waits for HTTP is answered later."""
        if self._is_made and not self.is_heard:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._acceptor.decided(self, None)


def refused_line(reason: str) -> bytes:
    """Return a refusal for a client of unknown protocol; bridges and the command line understand it, too."""
    return messages.error(None, versions.INTERNAL_ERROR, f"Hearth refused the connection: {reason}") + b"\n"


# --- the token of a daemon on TCP


class TokenVerdict(enum.Enum):
    """Verdict on the bytes that a connection has sent so far."""

    MORE = "more"
    SHOWN = "shown"
    REFUSED = "refused"
    HTTP = "http"


def check_token(first: bytes, token: str) -> tuple[TokenVerdict, bytes]:
    """Return the verdict, and the bytes that are left for the connection's protocol."""
    if not first:
        return TokenVerdict.MORE, first
    if first[0] == 0:
        return _check_frame(first, token), first
    if _PREFIX.startswith(first[: len(_PREFIX)].lower()):
        return _check_line(first, token)
    return (TokenVerdict.HTTP if first[:1].isupper() else TokenVerdict.REFUSED), first


def is_token(given: object, token: str) -> bool:
    """Tell whether `given` is the token, in constant time."""
    # Imported here: it loads OpenSSL, and only a daemon on TCP has a token.
    import hmac

    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _check_frame(first: bytes, token: str) -> TokenVerdict:
    total = int.from_bytes(first[:_LENGTH_BYTES], "big")
    if total > FIRST_LIMIT_BYTES and len(first) >= _LENGTH_BYTES:
        return TokenVerdict.REFUSED
    if len(first) < _LENGTH_BYTES + total or len(first) < _HEADER_BYTES:
        return TokenVerdict.MORE
    size = int.from_bytes(first[_LENGTH_BYTES:_HEADER_BYTES], "big")
    try:
        header = json.loads(first[_HEADER_BYTES : _HEADER_BYTES + size])
    except WireError:
        return TokenVerdict.REFUSED
    is_shown = isinstance(header, dict) and is_token(header.get("token"), token)
    return TokenVerdict.SHOWN if is_shown else TokenVerdict.REFUSED


def _check_line(first: bytes, token: str) -> tuple[TokenVerdict, bytes]:
    line, end, rest = first.partition(b"\n")
    if not end:
        return (TokenVerdict.MORE if len(first) < FIRST_LIMIT_BYTES else TokenVerdict.REFUSED), first
    scheme, _, given = line[len(_PREFIX) :].decode("latin-1").strip().partition(" ")
    is_shown = scheme.lower() == "bearer" and is_token(given.strip(), token)
    return (TokenVerdict.SHOWN if is_shown else TokenVerdict.REFUSED), rest

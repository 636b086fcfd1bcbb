"""Requests to one server: over kept connections, again when it is only restarting, as whoever we are to it.

Knows HTTP and nothing of MCP. Any number of threads may send at the same time, each on a connection of its own.
"""

from _thread import allocate_lock
from time import monotonic

from hearth import __version__
from hearth.bridge.remote import http1, wires
from hearth.bridge.remote.wires import Call, Wire
from hearth.errors import Unreachable, WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hearth.bridge.remote.errands import Identity
    from hearth.bridge.remote.proxies import Proxy
    from hearth.bridge.remote.target import Target

# Connections that are kept for the next request. Servers close theirs after five seconds (uvicorn, Node), and a request
# that meets such an end half way may or may not have been taken: better to be the first to close.
KEPT_CONNECTIONS = 8
KEPT_SECONDS = 4.0
REDIRECTS_LIMIT = 5
# What keeps its method and body. 303 would turn a POST into a GET; MCP has no such answer.
_REDIRECTS = frozenset({301, 302, 307, 308})
# Of these, what holds for every later request, too.
_LASTING = frozenset({301, 308})
REFUSALS = frozenset({401, 403})
# Between two attempts to connect: doubled each time, up to the longest.
_FIRST_PAUSE_SECONDS = 0.05
_LAST_PAUSE_SECONDS = 1.0
# For a server that takes no more of a request to say why: it has said so already, or never will.
AFTERWORD_SECONDS = 2.0


class Broken(Unreachable):
    """The connection failed. `sent`: after all of the request had been written, so that the server may have it.

    `stalled`: nothing ended, but the server does not read; it would not read the same request on another connection.
    """

    def __init__(self, sentence: str, sent: bool, stalled: bool = False) -> None:
        super().__init__(sentence)
        self.sent = sent
        self.stalled = stalled


class GivenUp(Exception):
    """Nobody wants the answer any more."""


class Reply:
    """A response whose body has not been read. `close` gives the connection back."""

    def __init__(
        self, web: "Web", call: Call, wire: Wire, parser: http1.ResponseParser, first: list[bytes], sent: bool
    ) -> None:
        assert parser.head is not None
        self._call = call
        # After half a request, the next one would be taken for its other half.
        self._sent = sent
        self.head = parser.head
        self.status = parser.head.status
        self._web = web
        self._wire = wire
        self._parser = parser
        self._first = first
        self._is_closed = False
        # How long a piece of the body may take; None: as long as it likes.
        self.patience: float | None = None

    def pieces(self) -> "Iterator[bytes]":
        """The body as it comes. Raises Broken, GivenUp; TimeoutError when a piece takes too long."""
        while True:
            first, self._first = self._first, []
            yield from first
            if self._parser.done:
                return
            try:
                data = self._wire.receive(self.patience)
                if not data:
                    self._check()
                    if self._parser.receive_eof():
                        return
                    raise self._web.broken("it ended in the middle of its answer", sent=True)
                self._first = self._parser.receive_data(data)
            except TimeoutError:
                raise
            except OSError as exc:
                self._check()
                raise self._web.broken(wires.reason(exc), sent=True) from exc
            except WireError as exc:
                raise self._web.broken(str(exc), sent=True) from exc

    def _check(self) -> None:
        if self._call.given_up:
            raise GivenUp

    def body(self, limit: int) -> bytes:
        """The whole body. Raises Broken, or Unreachable for one over the limit, of which no more is read."""
        found = bytearray()
        for piece in self.pieces():
            found += piece
            if len(found) > limit:
                raise Unreachable(f"{self._web.shown} sent a message over the limit of {limit} bytes")
        return bytes(found)

    def close(self) -> None:
        """Nothing more is read: the connection is kept if it can be used again."""
        if self._is_closed:
            # The connection is somebody else's by now.
            return
        self._is_closed = True
        # Before somebody else uses it, who must not be interrupted for our sake.
        self._call.use(None)
        self._web.give_back(self._wire, self._sent and self._parser.may_keep and not self._call.given_up)


class Web:
    """The connections to one server. `patience`: seconds for one that takes no connection to come back."""

    def __init__(self, target: "Target", identity: "Identity", patience: float, proxy: "Proxy | None" = None) -> None:
        self._target = target
        self._proxy = proxy
        self._identity = identity
        self._patience = patience
        self._path = target.path
        self.shown = target.shown
        self._lock = allocate_lock()
        self._kept: list[Wire] = []
        # Since when it has taken no connection; None while it does.
        self._down_since: float | None = None

    def send(
        self,
        method: str,
        headers: "Mapping[str, str]",
        body: bytes,
        call: Call,
        may_repeat: bool = False,
        seconds: float | None = None,
    ) -> Reply:
        """Send one request, and return with the head of its answer. Raises Broken, Unreachable, GivenUp, TimeoutError.

        `may_repeat`: whether the server may get it twice, should a kept connection end at that moment. `seconds`: how
        long the answer may take to begin.
        """
        path, is_lasting = self._path, True
        for _ in range(REDIRECTS_LIMIT):
            reply = self._send_as_somebody(method, path, headers, body, call, may_repeat, seconds)
            location = reply.head.headers.get("location")
            if reply.status not in _REDIRECTS or location is None:
                return reply
            reply.close()
            found = self._target.redirected(location, path)
            if found is None:
                raise Unreachable(
                    f"{self.shown} redirects to another server, which is not followed: it would get your headers."
                    " Put the new address after --to, if you trust it"
                )
            path = found
            is_lasting = is_lasting and reply.status in _LASTING
            if is_lasting:
                self._path = path
        raise Unreachable(f"{self.shown} redirects for ever; check the address after --to")

    def _send_as_somebody(
        self,
        method: str,
        path: str,
        headers: "Mapping[str, str]",
        body: bytes,
        call: Call,
        may_repeat: bool,
        seconds: float | None,
    ) -> Reply:
        """With the header of a login, if there is one. Who was refused was not heard, and may say it again."""
        for is_last in (False, True):
            own = self._identity.headers()
            fields = {**headers, **own}
            data = self._written(method, path, fields, body)
            reply = self._send_surely(data, call, may_repeat, seconds)
            if reply.status not in REFUSALS or is_last:
                break
            try:
                challenge = reply.head.headers.get("www-authenticate")
                if not self._identity.refused(reply.status, challenge, own):
                    break
            except BaseException:
                reply.close()
                raise
            reply.close()
        return reply

    def _written(self, method: str, path: str, headers: "Mapping[str, str]", body: bytes) -> bytes:
        fields = [("Host", self._target.authority), ("User-Agent", f"hearth/{__version__}")]
        if self._proxy and self._target.scheme == "http":
            # It has to be told where to; through a tunnel nobody has.
            path = f"http://{self._target.authority}{path}"
            fields += self._proxy.headers.items()
        given = {name.lower() for name in headers}
        fields = [(name, value) for name, value in fields if name.lower() not in given]
        try:
            return http1.request(method, path, [*fields, *headers.items()], body)
        except ValueError as exc:
            # Its text may show the header's value.
            raise Unreachable("a header given by --header has a character that HTTP cannot carry") from exc

    def _send_surely(self, data: bytes, call: Call, may_repeat: bool, seconds: float | None) -> Reply:
        wire = self._take()
        if wire:
            try:
                return self._send_once(wire, data, call, seconds)
            except Broken as exc:
                if exc.stalled or (exc.sent and not may_repeat):
                    raise
        while True:
            wire = self._connect(call)
            try:
                return self._send_once(wire, data, call, seconds)
            except Broken as exc:
                # Half a request is none: it has not been looked at.
                if exc.stalled or exc.sent or not self._is_patient(call):
                    raise

    def _send_once(self, wire: Wire, data: bytes, call: Call, seconds: float | None) -> Reply:
        call.use(wire)
        sent = False
        parser = http1.ResponseParser()
        try:
            try:
                wire.send(data)
                sent = True
                call.was_sent()
            except OSError as exc:
                # It may have said why it reads no further.
                problem: OSError | None = exc
                seconds = AFTERWORD_SECONDS
            else:
                problem = None
            pieces: list[bytes] = []
            while parser.head is None:
                received = wire.receive(seconds)
                if not received:
                    raise problem or OSError(0, "it closed the connection")
                pieces += parser.receive_data(received)
        except BaseException as exc:
            call.use(None)
            wire.close()
            if call.given_up:
                raise GivenUp from exc
            if isinstance(exc, TimeoutError) and sent:
                raise
            if isinstance(exc, OSError | WireError):
                what = wires.reason(exc) if isinstance(exc, OSError) else str(exc)
                raise self.broken(what, sent, stalled=isinstance(exc, TimeoutError)) from exc
            raise
        self._down_since = None
        return Reply(self, call, wire, parser, pieces, sent)

    # --- connections

    def _take(self) -> Wire | None:
        """A kept connection that is still good."""
        now = monotonic()
        while True:
            with self._lock:
                if not self._kept:
                    return None
                wire = self._kept.pop()
            if now - wire.idle_since < KEPT_SECONDS and wire.is_quiet():
                return wire
            wire.close()

    def give_back(self, wire: Wire, may_keep: bool) -> None:
        """A request is done with its connection."""
        wire.idle_since = monotonic()
        with self._lock:
            if may_keep and len(self._kept) < KEPT_CONNECTIONS:
                self._kept.append(wire)
                return
        wire.close()

    def _connect(self, call: Call) -> Wire:
        """Connect, again and again while the server may only be restarting. Raises Unreachable, GivenUp."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            if call.given_up:
                raise GivenUp
            try:
                return wires.connect(self._target, self._proxy)
            except OSError as exc:
                if hasattr(exc, "verify_message") or not self._is_patient(call, pause):
                    raise Broken(self._unreached(exc), sent=False) from exc
            pause = min(2 * pause, _LAST_PAUSE_SECONDS)

    def _is_patient(self, call: Call, pause: float = _FIRST_PAUSE_SECONDS) -> bool:
        """Wait before the next attempt; False when it has been away for too long. Then each request tries once."""
        now = monotonic()
        if self._down_since is None:
            self._down_since = now
        if now - self._down_since >= self._patience:
            return False
        if not call.pause(pause):
            raise GivenUp
        return True

    def _unreached(self, exc: OSError) -> str:
        what = wires.reason(exc)
        if hasattr(exc, "verify_message"):
            return f"{self.shown} cannot be asked: {what}"
        return (
            f"{self.shown} cannot be reached ({what}): is it running, and is the address after --to right?"
            " The next request tries again"
        )

    def broken(self, what: str, sent: bool, stalled: bool = False) -> Broken:
        """A connection that failed, in words."""
        if sent:
            return Broken(f"{self.shown} broke the connection before it answered ({what})", sent)
        return Broken(f"{self.shown} did not take the request ({what})", sent, stalled)

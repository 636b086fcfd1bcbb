"""Exchange of one request and its answer: JSON if the answer is the first message, otherwise events.

This includes streams that a client asks for with GET. A lost connection is noticed at once; its meaning depends on the
client's era.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.daemon.http import callers, http_messages
from hearth.daemon.http.sessions import HttpSession
from hearth.daemon.http.streams import Stream

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request

# A call that takes longer gets a stream before there is a message: no proxy gives up on a stream with keep-alive
# comments.
PATIENCE_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 15.0
# How soon a client whose connection broke should reconnect.
RETRY_MS = 1000
# From this revision on, clients are told where to resume before there is anything to resume.
_PRIMED_SINCE = "2025-11-25"


class Exchange:
    """Exchange of one request in a session. `headers` are sent with any answer."""

    def __init__(self, request: "Request", found: HttpSession, headers: http_messages.Headers) -> None:
        self._request = request
        self._found = found
        self._headers = headers
        self._lost = False
        # An event without data has told the client where the stream begins.
        self._is_primed = False

    async def run(self, receive: Callable[[int], None]) -> None:
        """Pass the message to the hub with `receive`, and send the answer."""
        sink = self._found.sink
        tag = sink.begin()
        stream = sink.stream(tag)
        assert stream is not None
        stream.attach(self)
        self._begin(stream)
        try:
            if self._request.app.hub.policy.guard is not None:
                await callers.note(self._request, self._found.session)
            if self._lost and self._found.session.stateless:
                # The client has cancelled the request, which no server has seen.
                return
            receive(tag)
            if not stream.ended and not stream.waiting:
                await stream.wait(PATIENCE_SECONDS)
            await self._answer(stream)
        finally:
            self._end(stream)
            if self._found.session.stateless:
                # Closing a modern stream cancels its request, and it cannot be resumed.
                if self._lost:
                    self._request.app.hub.withdraw(self._found.session, tag)
                sink.forget(tag)
            elif self._lost and not self._is_primed and not stream.taken:
                # The client has no event id with which it could resume.
                sink.abandon(stream)

    async def _answer(self, stream: Stream) -> None:
        only = stream.only
        if self._lost:
            return
        if only is not None:
            status = http_messages.status_of(only) if self._found.session.stateless else 200
            await self._request.answer(status, only, self._headers)
            self._found.sink.forget(stream.number)
        elif stream.ended and not stream.waiting:
            await self._answer_nothing(stream)
            self._found.sink.forget(stream.number)
        else:
            # Not forgotten at its end: the last messages may be in flight when the connection breaks.
            await self._pump(stream, is_primed=True)

    async def _answer_nothing(self, stream: Stream) -> None:
        if stream.owes:
            # The request was cancelled. A request must get JSON or a stream; with an event id, the client would resume.
            await self._pump(stream, is_primed=False)
        else:
            # A notification or a response.
            await self._request.answer(202, b"", self._headers)

    async def listen(self, stream: Stream, after: int | None = None, is_primed: bool = True) -> None:
        """Send the messages of a stream after number `after` until its end.

        `is_primed`: tell the client first where it would have to resume.
        """
        if self._request.app.hub.policy.guard is not None:
            await callers.note(self._request, self._found.session, may_wait=False)
        stream.attach(self, after)
        self._begin(stream)
        try:
            await self._pump(stream, is_primed)
        finally:
            self._end(stream)

    def _begin(self, stream: Stream) -> None:
        self._found.begin()
        stream.on_overflow = lambda: self._request.connection.abort("does not read (outbound_limit)")
        self._request.connection.on_lost.append(self._on_lost)
        self._stream = stream

    def _end(self, stream: Stream) -> None:
        if self._on_lost in self._request.connection.on_lost:
            self._request.connection.on_lost.remove(self._on_lost)
        stream.detach(self)
        self._found.done()

    def _on_lost(self) -> None:
        self._lost = True
        self._stream.detach(self)
        self._stream.wake()

    async def _pump(self, stream: Stream, is_primed: bool) -> None:
        session = self._found.session
        # Modern streams cannot be resumed; those of the oldest revision have no event ids.
        name = None if session.stateless else self._found.sink.name(stream)
        first = b""
        if name is not None and is_primed and (session.version or "") >= _PRIMED_SINCE:
            first = http_messages.priming(name, stream.taken, RETRY_MS)
            self._is_primed = True
        await self._request.begin(200, [*http_messages.EVENT_STREAM, *self._headers], first, more=True)
        await pump(self._request, stream, self, name)


async def pump(request: "Request", stream: Stream, reader: object, name: bytes | None) -> None:
    """Send the messages of a stream until its end, or until another reader takes over. A `name` gives events ids."""
    while True:
        events = b"".join([http_messages.event(message, name) for message in stream.take(reader)])
        is_over = stream.is_over(reader)
        if events or is_over:
            await request.send_body(events, more=not is_over)
            if is_over:
                break
        else:
            await stream.wait(KEEP_ALIVE_SECONDS)
            if not stream.waiting and not stream.is_over(reader):
                await request.send_body(http_messages.KEEP_ALIVE, more=True)

"""One request and what it is answered with: JSON if the answer comes first, events if anything else does.

Also streams that were asked for as such. A client that has gone is noticed at once; what that means depends on its era.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.daemon.http import responses
from hearth.daemon.http.sessions import HttpSession
from hearth.daemon.http.streams import Stream

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request

# A call that takes longer gets a stream before there is anything to say: nobody on the way gives up on a stream that
# shows signs of life.
PATIENCE_SECONDS = 5.0
KEEP_ALIVE_SECONDS = 15.0
# When a client whose connection broke is to come back.
RETRY_MS = 1000
# They are told where to resume before there is anything to resume.
_PRIMED_SINCE = "2025-11-25"


class Exchange:
    """`headers` go with whatever the answer is."""

    def __init__(self, request: "Request", found: HttpSession, headers: responses.Headers) -> None:
        self._request = request
        self._found = found
        self._headers = headers
        self._lost = False
        # An event without data has told its client where the stream begins.
        self._is_primed = False

    async def run(self, receive: Callable[[int], None]) -> None:
        """Have the hub `receive` the message, and answer."""
        sink = self._found.sink
        tag = sink.begin()
        stream = sink.stream(tag)
        assert stream is not None
        stream.attach(self)
        self._begin(stream)
        try:
            receive(tag)
            if not stream.ended and not stream.waiting:
                await stream.wait(PATIENCE_SECONDS)
            await self._answer(stream)
        finally:
            self._end(stream)
            if self._found.session.stateless:
                self._leave(stream)
            elif self._lost and not self._is_told:
                self._found.sink.abandon(stream)

    async def _answer(self, stream: Stream) -> None:
        only = stream.only
        if self._lost:
            return
        if only is not None:
            status = responses.status_of(only) if self._found.session.stateless else 200
            await self._request.answer(status, only, self._headers)
            self._found.sink.forget(stream.number)
        elif stream.ended and not stream.waiting:
            await self._answer_nothing(stream)
            self._found.sink.forget(stream.number)
        else:
            # Not forgotten at its end: the last of it may be on its way when the connection breaks.
            await self._pump(stream, is_primed=True)

    async def _answer_nothing(self, stream: Stream) -> None:
        if stream.owes:
            # It was cancelled meanwhile. A request gets JSON or a stream; with an event id, its client would come back.
            await self._pump(stream, is_primed=False)
        else:
            # A notification or a response.
            await self._request.answer(202, b"", self._headers)

    async def listen(self, stream: Stream, after: int | None = None, is_primed: bool = True) -> None:
        """Send what is on a stream, behind that message, until its end. `is_primed`: its client is told where it is."""
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

    def _leave(self, stream: Stream) -> None:
        """Closing a modern stream is a cancellation, and nobody comes back for the rest."""
        if self._lost:
            self._request.front.hub.withdraw(self._found.session, stream.number)
        self._found.sink.forget(stream.number)

    @property
    def _is_told(self) -> bool:
        """Whether its client has an event id by which it can come back."""
        return self._is_primed or self._stream.taken > 0

    async def _pump(self, stream: Stream, is_primed: bool) -> None:
        session = self._found.session
        # Modern streams cannot be resumed; those of the oldest revision have no place for it.
        name = None if session.stateless else self._found.sink.name(stream)
        first = b""
        if name is not None and is_primed and (session.version or "") >= _PRIMED_SINCE:
            first = responses.priming(name, stream.taken, RETRY_MS)
            self._is_primed = True
        await self._request.begin(200, [*responses.EVENT_STREAM, *self._headers], first, more=True)
        await pump(self._request, stream, self, name)


async def pump(request: "Request", stream: Stream, reader: object, name: bytes | None) -> None:
    """Send what is on a stream until its end, or until somebody else reads it. With a `name`, events have ids."""
    while True:
        events = b"".join([responses.event(message, name) for message in stream.take(reader)])
        is_over = stream.is_over(reader)
        if events or is_over:
            await _send(request, events, more=not is_over)
            if is_over:
                break
        else:
            await stream.wait(KEEP_ALIVE_SECONDS)
            if not stream.waiting and not stream.is_over(reader):
                await _send(request, responses.KEEP_ALIVE, more=True)


async def _send(request: "Request", body: bytes, more: bool) -> None:
    await request.send({"type": "http.response.body", "body": body, "more_body": more})

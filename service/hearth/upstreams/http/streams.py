"""Streams of server-sent events: the response to a request, and the stream for messages that the server initiates.

A broken stream of the legacy era is resumed by GET with the id of the last event (2025-11-25, basic/transports,
"Resumability and Redelivery"). A dropped connection is no cancellation.
"""

import asyncio
import random
from typing import TYPE_CHECKING

from hearth.errors import TooLarge, UpstreamError
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import ConnectionBroken, OutgoingRequest
from hearth.wire.lines import Item
from hearth.wire.sse import SseDecoder

if TYPE_CHECKING:
    from hearth.upstreams.http.connection import HttpUpstreamConnection
    from hearth.upstreams.http.pool import Response
    from hearth.upstreams.http.streamable import StreamableCarrier

STREAM = "text/event-stream"
# After its answer a stream ends by itself; closing it earlier would cost the connection.
LINGER_SECONDS = 1.0
# Pause between two attempts if the server names none: doubled each time, up to the longest.
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# A stream that lasted this long counts as working, even if nothing came.
STABLE_SECONDS = 5.0
# The server has not noticed yet that the former stream has ended, or is overloaded.
_TRY_LATER = frozenset({409, 429})
# Consecutive attempts to resume the stream of a request, before it is given up.
RESUME_ATTEMPTS = 5


def pause(failures: int, retry: int | None) -> float:
    """Return the pause before the next connection: the server's own if given, but never zero, to avoid a busy loop."""
    if retry is not None:
        return max(retry / 1000, 0.01)
    longest = min(FIRST_PAUSE_SECONDS * 2**failures, LONGEST_PAUSE_SECONDS)
    # Jitter: otherwise all clients of a restarted server would come back at the same moment.
    return float(longest * random.uniform(0.5, 1.0))


class RequestStream:
    """Stream with the answer to one request."""

    def __init__(
        self, connection: "HttpUpstreamConnection", carrier: "StreamableCarrier", request: OutgoingRequest
    ) -> None:
        self._connection = connection
        self._carrier = carrier
        self._request = request
        self._decoder = SseDecoder(connection.message_limit)
        self._generation = carrier.session.generation

    async def read(self, response: "Response") -> None:
        """Pass on messages until the answer has come. Raises UpstreamError if it will not come."""
        broken = await self._read_one(response, response)
        failures = 0
        while self._is_awaited:
            if not self._decoder.last_id or failures > RESUME_ATTEMPTS:
                raise broken or UpstreamError(
                    f"server {self._connection.name!r} ended the stream before it answered;"
                    " what was asked may or may not have been done"
                )
            await asyncio.sleep(pause(failures, self._decoder.retry))
            try:
                failures = 0 if await self._resume(response) else failures + 1
            except ConnectionBroken as exc:
                broken, failures = exc, failures + 1

    @property
    def _is_awaited(self) -> bool:
        return self._connection.awaits(self._request.number)

    async def _resume(self, first: "Response") -> bool:
        """Resume a broken stream; return whether the server did. Raises UpstreamError if it never will."""
        if self._carrier.session.generation != self._generation:
            raise self._lost("its session was another one")
        self._decoder = SseDecoder(self._connection.message_limit, self._decoder.last_id)
        async with await get(self._connection, self._carrier, self._decoder.last_id) as response:
            if response.status == 200 and response.content_type == STREAM:
                await self._read_one(response, first)
                return True
        if response.status >= 500:
            return False
        if response.status == 404:
            await self._carrier.renew(self._generation)
        raise self._lost(f"HTTP {response.status}")

    def _lost(self, why: str) -> UpstreamError:
        return UpstreamError(
            f"server {self._connection.name!r} lost the stream before it answered ({why});"
            " what was asked may or may not have been done"
        )

    async def _read_one(self, response: "Response", first: "Response") -> ConnectionBroken | None:
        response.keep_alive()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as bound:
                async for chunk in response.chunks():
                    for event in self._decoder.receive_data(chunk):
                        if isinstance(event, TooLarge):
                            # Most probably the answer; in any case no caller should wait for one that may never come.
                            raise UpstreamError(f"server {self._connection.name!r}: {event}")
                        if event.name == "message":
                            self._take(conversation.items(event.data), first)
                    if not self._is_awaited and bound.when() is None:
                        bound.reschedule(loop.time() + LINGER_SECONDS)
        except ConnectionBroken as exc:
            return exc
        except TimeoutError:
            pass
        return None

    def _take(self, items: list[Item], first: "Response") -> None:
        self._carrier.hand_over(self._request, items, first)


class EventListener:
    """Stream for messages that the server initiates, if it has one."""

    def __init__(self, connection: "HttpUpstreamConnection", carrier: "StreamableCarrier") -> None:
        self._connection = connection
        self._carrier = carrier
        self._task: asyncio.Task[None] | None = None
        self._may_have_missed = False

    def start(self) -> None:
        """Listen from now on, in the current session."""
        if self._task and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = self._connection.spawn(self._listen())

    async def _listen(self) -> None:
        failures = 0
        decoder = SseDecoder(self._connection.message_limit)
        while True:
            try:
                is_alive = await self._listen_once(decoder)
            except UpstreamError:
                is_alive = False
            if is_alive is None:
                return
            failures = 0 if is_alive else failures + 1
            # If events have ids, the server sends missed ones on the next connection.
            self._may_have_missed |= is_alive and not decoder.last_id
            await asyncio.sleep(pause(failures, decoder.retry))
            decoder = SseDecoder(self._connection.message_limit, decoder.last_id)

    async def _listen_once(self, decoder: SseDecoder) -> bool | None:
        """Read one connection to its end; return whether it worked, or None if the server has no such stream."""
        session = self._carrier.session
        generation = session.generation
        async with await get(self._connection, self._carrier, decoder.last_id) as response:
            if response.status == 200 and response.content_type == STREAM:
                if self._may_have_missed:
                    self._may_have_missed = False
                    self._connection.take(list(session.notices()), None)
                return await self._read(response, decoder)
        if response.status == 404 and session.id:
            # Listening begins again with a new session, if there is one.
            await self._carrier.renew(generation)
            return None
        return False if response.status >= 500 or response.status in _TRY_LATER else None

    async def _read(self, response: "Response", decoder: SseDecoder) -> bool:
        """Pass on messages until the stream ends; return whether anything came, or could have."""
        response.keep_alive()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        any_came = False
        try:
            async for chunk in response.chunks():
                any_came = True
                for event in decoder.receive_data(chunk):
                    if isinstance(event, TooLarge):
                        self._connection.warn_limited(event)
                    elif event.name == "message":
                        self._connection.take(conversation.items(event.data), None)
        except ConnectionBroken:
            pass
        return any_came or loop.time() - begun > STABLE_SECONDS


async def get(connection: "HttpUpstreamConnection", carrier: "StreamableCarrier", last_id: bytes) -> "Response":
    """Open a stream by GET, after the event with that id if there is one. Raises UpstreamError."""
    headers = {"Accept": STREAM, **carrier.session.headers()}
    if last_id:
        # The standard wants UTF-8, and HTTP carries bytes.
        headers["Last-Event-ID"] = last_id.decode("latin-1")
    return await connection.pool.send("GET", headers)

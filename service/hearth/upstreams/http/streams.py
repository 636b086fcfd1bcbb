"""Streams of server-sent events: the response to a request, and the stream for messages that the server initiates.

A broken stream of the legacy era is resumed by GET with the id of the last event (2025-11-25, basic/transports,
"Resumability and Redelivery"). A dropped connection is no cancellation. `SseCarrier` is the HTTP+SSE of 2024-11-05,
where one stream has all messages of the server.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hearth.errors import TooLarge, UpstreamError
from hearth.mcp import versions
from hearth.mcp.http_headers import Index
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import DISCOVER, ConnectionBroken, OutgoingRequest
from hearth.wire.sse import Event, SseDecoder

if TYPE_CHECKING:
    from hearth.upstreams.http.client import Response
    from hearth.upstreams.http.connection import HttpUpstreamConnection
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
# HTTP+SSE: time from the GET to the event that names the other address, and for the server to accept a message.
ENDPOINT_SECONDS = 15.0
POST_SECONDS = 30.0


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
                            self._carrier.hand_over(self._request, conversation.items(event.data), first)
                    if not self._is_awaited and bound.when() is None:
                        bound.reschedule(loop.time() + LINGER_SECONDS)
        except ConnectionBroken as exc:
            return exc
        except TimeoutError:
            pass
        return None


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
    return await connection.client.send("GET", headers)


class SseCarrier:
    """Carrier of HTTP+SSE: the server sends everything on one stream, whose first event names the address for POST.

    The session is the stream: when it ends, the conversation does. No message on it shows which request caused it.
    """

    def __init__(self, connection: "HttpUpstreamConnection") -> None:
        self._connection = connection
        self._endpoint: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._endpoint.add_done_callback(lambda late: late.cancelled() or late.exception())
        # Messages are sent one after the other: parallel POSTs could overtake each other.
        self._lane = asyncio.Lock()

    async def open(self) -> None:
        """Open the stream and learn where to POST. Raises UpstreamError."""
        reading = self._connection.spawn(self._read())
        try:
            async with asyncio.timeout(ENDPOINT_SECONDS):
                await asyncio.shield(self._endpoint)
        except TimeoutError:
            reading.cancel()
            raise UpstreamError(
                f"server {self._connection.name!r} did not say within {ENDPOINT_SECONDS:g} s where to send messages"
            ) from None
        except BaseException:
            reading.cancel()
            raise

    # --- as a carrier

    def ask(self, request: OutgoingRequest) -> None:
        """Send a request."""
        if request.method == DISCOVER:
            # No server with this transport is modern, and an old one may fail at a method that it does not know.
            asyncio.get_running_loop().call_soon(self._refuse, request)
        else:
            request.task = self._connection.spawn(self._ask(request))
            # Its answer comes on the stream, or never.
            request.task.add_done_callback(lambda _: self._connection.released(request))

    def tell(self, method: str, payload: bytes) -> None:
        """Send a notification, after those before it."""
        self._connection.spawn(self._tell(payload))

    def answer(self, payload: bytes) -> "asyncio.Task[None]":
        """Send an answer; return the task that does."""
        return self._connection.spawn(self._tell(payload))

    def withdraw(self, request: OutgoingRequest | None, payload: bytes) -> None:
        """Send the cancellation after the request itself; a request that has not been sent yet is dropped."""
        if request and not request.sent:
            request.drop()
        else:
            self._connection.spawn(self._tell(payload))

    def greeted(self, era: str, version: str) -> None:
        """Do nothing: this transport does not depend on the era."""

    def learn_headers(self, indexes: Mapping[str, Index]) -> None:
        """Do nothing: this transport puts no arguments into headers."""

    async def say_goodbye(self) -> None:
        """Do nothing: closing the stream ends the conversation."""

    # --- sending

    def _refuse(self, request: OutgoingRequest) -> None:
        self._connection.take(
            [conversation.refusal(request.number, versions.METHOD_NOT_FOUND, "the transport is of 2024-11-05")], None
        )
        self._connection.finished(request)

    async def _ask(self, request: OutgoingRequest) -> None:
        try:
            async with self._lane:
                await self._post(request.body, request.was_sent)
        except UpstreamError as exc:
            self._connection.fail(request.number, exc)

    async def _tell(self, payload: bytes) -> None:
        try:
            async with self._lane:
                await self._post(payload)
        except UpstreamError as exc:
            self._connection.warn_limited(exc)

    async def _post(self, payload: bytes, on_sent: Callable[[], None] = lambda: None) -> None:
        """Send one message; its answer comes on the stream. Raises UpstreamError."""
        connection, name, to = self._connection, self._connection.name, self._endpoint.result()
        kind = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(POST_SECONDS),
                await connection.client.send("POST", kind, payload, to=to, on_sent=on_sent) as taken,
            ):
                if not 200 <= taken.status < 300:
                    raise connection.refused(taken.status)
        except TimeoutError:
            raise UpstreamError(f"server {name!r} did not take a message within {POST_SECONDS:g} s") from None

    # --- the stream

    async def _read(self) -> None:
        connection = self._connection
        problem = UpstreamError(f"server {connection.name!r} ended its event stream")
        try:
            async with await connection.client.send("GET", {"Accept": STREAM}) as response:
                if response.status != 200:
                    raise connection.refused(response.status)
                if response.content_type != STREAM:
                    raise UpstreamError(
                        f"server {connection.name!r} opened no event stream: check {connection.words.url}"
                    )
                response.keep_alive()
                decoder = SseDecoder(connection.message_limit)
                async for chunk in response.chunks():
                    for event in decoder.receive_data(chunk):
                        self._receive(event)
        except UpstreamError as exc:
            problem = exc
        if self._endpoint.done():
            connection.over(problem)
        else:
            self._endpoint.set_exception(problem)

    def _receive(self, event: Event | TooLarge) -> None:
        if isinstance(event, TooLarge):
            self._connection.warn_limited(event)
        elif event.name == "endpoint":
            self._learn_endpoint(event.data.decode(errors="replace").strip())
        elif event.name == "message":
            self._connection.take(conversation.items(event.data), None)

    def _learn_endpoint(self, address: str) -> None:
        if self._endpoint.done():
            return
        if not self._connection.client.is_own(address):
            # The headers carry secrets, and they were given for the address in the config.
            raise UpstreamError(
                f"server {self._connection.name!r} wants its messages sent to another server, which is not done"
            )
        self._endpoint.set_result(address)

"""HTTP+SSE of 2024-11-05: the server sends everything on one stream, whose first event names the address for POST.

The session is the stream: when it ends, the conversation does. No message on it shows which request caused it.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hearth.errors import TooLarge, UpstreamError
from hearth.mcp import versions
from hearth.mcp.http_headers import Index
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import DISCOVER, OutgoingRequest
from hearth.upstreams.http.streams import STREAM
from hearth.wire.sse import Event, SseDecoder

if TYPE_CHECKING:
    from hearth.upstreams.http.connection import HttpUpstreamConnection

# Time from the GET to the event that names the other address.
ENDPOINT_SECONDS = 15.0
# Time for the server to accept a message.
POST_SECONDS = 30.0

_SENDING = {"Content-Type": "application/json"}


class SseCarrier:
    """Carrier of one conversation."""

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
        """Send a notification."""
        self._connection.spawn(self._tell(payload))

    def answer(self, payload: bytes) -> "asyncio.Task[None]":
        """Send an answer."""
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
                await self._post(request.body, request)
        except UpstreamError as exc:
            self._connection.fail(request.number, exc)

    async def _tell(self, payload: bytes) -> None:
        try:
            async with self._lane:
                await self._post(payload, None)
        except UpstreamError as exc:
            self._connection.warn_limited(exc)

    async def _post(self, payload: bytes, request: OutgoingRequest | None) -> None:
        """Send one message; its answer comes on the stream. Raises UpstreamError."""
        name, to = self._connection.name, self._endpoint.result()
        on_sent = request.was_sent if request else _nothing
        try:
            async with (
                asyncio.timeout(POST_SECONDS),
                await self._connection.pool.send("POST", _SENDING, payload, to=to, on_sent=on_sent) as taken,
            ):
                if not 200 <= taken.status < 300:
                    raise self._connection.refused(taken.status)
        except TimeoutError:
            raise UpstreamError(f"server {name!r} did not take a message within {POST_SECONDS:g} s") from None

    # --- the stream

    async def _read(self) -> None:
        connection = self._connection
        problem = UpstreamError(f"server {connection.name!r} ended its event stream")
        try:
            async with await connection.pool.send("GET", {"Accept": STREAM}) as response:
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
        if not self._connection.pool.is_own(address):
            # The headers carry secrets, and they were given for the address in the config.
            raise UpstreamError(
                f"server {self._connection.name!r} wants its messages sent to another server, which is not done"
            )
        self._endpoint.set_result(address)


def _nothing() -> None:
    pass

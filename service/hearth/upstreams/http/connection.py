"""Connection to a server behind a url, over the carrier that the server understands.

Carriers move messages; ids, waiters and the owner are here. Under `transport = "auto"` the newer carrier is tried first
and replaced by the older one if the server does not accept `initialize` by POST (2025-11-25, basic/transports,
"Backwards Compatibility").
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamBusy, UpstreamError
from hearth.mcp import messages
from hearth.mcp.http_headers import Index
from hearth.upstreams.connection import CANCELLED, Connection, Owner, Waiter, cancellation
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import INITIALIZE, OutgoingRequest
from hearth.upstreams.http.streamable import StreamableCarrier
from hearth.upstreams.http.streams import SseCarrier
from hearth.wire.lines import Item
from hearth.wire.values import RawBytes
from hearth.write_batch import WRITE_BATCH

if TYPE_CHECKING:
    from hearth.upstreams.http.client import HttpClient
    from hearth.upstreams.http.target import SessionTarget

log = logging.getLogger(__name__)

# Ending a conversation is a courtesy: cancelled tasks end at once, and connections are closed without further messages.
STOP_SECONDS = 2.0

# Memory of an answer besides its own bytes until it is sent: a task, a request, a connection.
ANSWER_BYTES = 4096
# Both move messages to the server, and hand its replies to `HttpUpstreamConnection.take` and `fail`.
Carrier = StreamableCarrier | SseCarrier


class HttpUpstreamConnection(Connection):
    """Connection for one conversation. `limits`: bytes of one message, bytes that wait to be sent.

    `target` is set for the server that a bridge names with `--to`.
    """

    sends_headers = True

    def __init__(
        self, name: str, owner: Owner, spec: ServerSpec, limits: tuple[int, int], target: "SessionTarget | None" = None
    ) -> None:
        super().__init__(name, owner)
        self.spec = spec
        self._target = target
        # Names of the server's settings in messages.
        self.words = target.words if target else conversation.ENTRY
        self.message_limit, self._queue_limit = limits
        self._carrier: Carrier | None = None
        self._client: HttpClient | None = None
        self._asked: dict[int, OutgoingRequest] = {}
        self._unsent_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: UpstreamError | None = None
        self._stopping: asyncio.Future[None] | None = None

    # --- for the owner

    async def open(self) -> None:
        """Prepare for requests. Only the old transport connects here. Raises UpstreamError."""
        self._client = await asyncio.to_thread(_open_client, self.name, self.spec, self._target)
        if self.spec.transport == "sse":
            try:
                await self.fall_back()
            except UpstreamError:
                await self._tear_down()
                raise
        else:
            self._carrier = StreamableCarrier(self, may_fall_back=self.spec.transport == "auto")

    async def stop(self) -> None:
        """End every request and every connection."""
        if self._stopping is None:
            self._problem = self._problem or UpstreamError(f"server {self.name!r} was stopped")
            self._stopping = asyncio.ensure_future(self._stop(self._problem))
        await asyncio.shield(self._stopping)

    @property
    def needs_login(self) -> bool:  # type: ignore[override]  # elsewhere it is a constant
        """True if the server refuses every request until a user has logged in."""
        return self._client is not None and self._client.needs_login

    async def why_lost(self) -> UpstreamError:
        """Return why nothing can be sent any more."""
        return self._problem or UpstreamError(f"server {self.name!r} is not connected")

    def greeted(self, era: str, version: str) -> None:
        """Note the result of the handshake: the era and version that the server speaks."""
        if self._carrier:
            self._carrier.greeted(era, version)

    def learn_headers(self, indexes: Mapping[str, Index]) -> None:
        """Replace which arguments of which tools go into headers, too."""
        if self._carrier:
            self._carrier.learn_headers(indexes)

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Send a notification."""
        if self._carrier and not self._problem:
            self._carrier.tell(method, messages.notification(method, params))

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Answer a request of the server; drop the answer if the server takes none and too many bytes wait."""
        if self._carrier is None or self._problem:
            return
        if self._unsent_bytes > self._queue_limit:
            self.warn_limited(UpstreamBusy(f"server {self.name!r} asks and does not take the answers"))
            return
        size = len(payload) + ANSWER_BYTES
        self._unsent_bytes += size
        self._carrier.answer(payload).add_done_callback(lambda _: self._sent(size))

    def forget(self, number: int) -> None:
        """Drop the waiter of a request, and stop reading its answer."""
        was_waiting = number in self._waiting
        super().forget(number)
        request = self._asked.get(number)
        # The answer to `initialize` is still read: the id of the new session is needed to end that session.
        if request and was_waiting and not (request.sent and request.method == INITIALIZE):
            request.drop()

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        if self._problem or self._carrier is None:
            raise self._problem or UpstreamError(f"server {self.name!r} is not connected")
        if self._unsent_bytes > self._queue_limit:
            raise UpstreamBusy(
                f"server {self.name!r} does not take what it is sent:"
                f" {self._queue_limit} bytes are waiting (upstream_queue_limit)"
            )
        self._carrier.ask(self._outgoing(number, method, params))

    def _withdraw(self, number: int, reason: RawBytes | None) -> None:
        if self._carrier is None:
            return
        notice = messages.notification(CANCELLED, cancellation(number, reason))
        # None stands for a request that the carrier is done with.
        self._carrier.withdraw(self._asked.get(number), notice)

    # --- for the carriers

    def refused(self, status: int) -> UpstreamError:
        """Return the error for a status that says no."""
        return conversation.refused(self.name, status, self.words)

    @property
    def client(self) -> "HttpClient":
        """HTTP client of the server."""
        assert self._client is not None, "not opened"
        return self._client

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task that ends with the conversation at the latest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) and not isinstance(problem, HearthError):
            log.error("internal error in a conversation", exc_info=problem, extra={"upstream": self.name})

    def expect(self, method: bytes, params: RawBytes, waiter: Waiter) -> OutgoingRequest:
        """Make a request of the carrier's own; the carrier sends it."""
        number = self._next_id
        self._next_id = number + 1
        self._waiting[number] = waiter
        return self._outgoing(number, method, params)

    def _outgoing(self, number: int, method: bytes, params: RawBytes) -> OutgoingRequest:
        request = self._asked[number] = OutgoingRequest(number, method, params, self._sent)
        self._unsent_bytes += len(request.body)
        return request

    def _sent(self, size: int) -> None:
        self._unsent_bytes -= size

    def released(self, request: OutgoingRequest) -> None:
        """Note that the carrier is done with that request."""
        request.finish()
        self._asked.pop(request.number, None)

    def finished(self, request: OutgoingRequest) -> None:
        """Note that nothing more is read for a request, and fail it if it has no answer yet."""
        self.released(request)
        self.fail(request.number, self._problem or UpstreamError(f"server {self.name!r} did not answer"))

    def awaits(self, number: int) -> bool:
        """Tell whether a waiter waits for the answer to that request."""
        return number in self._waiting

    def take(self, items: Iterable[Item], cause: int | None) -> None:
        """Handle messages of the server, from the stream of the request that is their cause."""
        WRITE_BATCH.begin()
        try:
            self._take_all(items, cause)
        finally:
            WRITE_BATCH.end()

    def fail(self, number: int, problem: HearthError) -> None:
        """Fail a request: no answer will come."""
        self._standing.discard(number)
        waiter = self._waiting.pop(number, None)
        if waiter:
            waiter.failed(problem)
            if self.on_free:
                self.on_free()

    async def fall_back(self) -> None:
        """Switch to the transport of 2024-11-05. Raises UpstreamError if the server does not speak it either."""
        carrier = SseCarrier(self)
        await carrier.open()
        self._carrier = carrier

    def ask_again(self, request: OutgoingRequest) -> None:
        """Send a request again, by the carrier that has replaced the first one."""
        assert self._carrier is not None
        self._carrier.ask(request)

    def over(self, problem: UpstreamError) -> None:
        """End the conversation because of a problem: the owner may begin another one."""
        if self._problem is None:
            self._problem = problem
            self._owner.lost(self)
            if self._stopping is None:
                self._stopping = asyncio.ensure_future(self._stop(problem))

    # --- ending

    async def _stop(self, problem: UpstreamError) -> None:
        await self._tear_down()
        self._end(problem, str(problem))

    async def _tear_down(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        if self._carrier:
            await _bounded(self._carrier.say_goodbye())
        if self._client:
            await _bounded(self._client.close())


async def _bounded(work: Coroutine[object, object, None]) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await work
    except (TimeoutError, UpstreamError):
        pass  # a server that does not listen needs no farewell


def _open_client(name: str, spec: ServerSpec, target: "SessionTarget | None") -> "HttpClient":
    # In a thread: the first import takes a fifth of a second.
    from hearth.upstreams.http.client_setup import open_client

    return open_client(name, spec, target)

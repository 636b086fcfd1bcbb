"""A conversation with a server behind a url, over the carrier that the server understands.

Carriers move messages; ids, waiters and the owner are here. Under `transport = "auto"` the newer carrier is tried first
and replaced by the older one when the server does not take `initialize` by POST (2025-11-25, basic/transports,
"Backwards Compatibility").
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamBusy, UpstreamError
from hearth.mcp import messages
from hearth.mcp.http_headers import Index
from hearth.upstreams.connection import CANCELLED, Connection, Owner, Waiter, cancellation
from hearth.upstreams.http.session import INITIALIZE, OutgoingRequest
from hearth.upstreams.http.sse_carrier import SseCarrier
from hearth.upstreams.http.streamable import StreamableCarrier
from hearth.wire.lines import Item
from hearth.wire.values import RawBytes
from hearth.write_batch import WRITE_BATCH

if TYPE_CHECKING:
    from hearth.upstreams.http.pool import Pool

log = logging.getLogger(__name__)

# Ending a conversation is a courtesy: tasks that are cancelled end at once, connections are closed without a word more.
STOP_SECONDS = 2.0

# Memory of an answer besides its own bytes until it is sent: a task, a request, a connection.
ANSWER_BYTES = 4096


class Carrier(Protocol):
    """Transport of messages to the server; hands replies to `HttpUpstreamConnection.take` and `fail`."""

    def ask(self, request: OutgoingRequest) -> None:
        """Send a request."""

    def tell(self, method: str, payload: bytes) -> None:
        """Send a notification, after those before it."""

    def answer(self, payload: bytes) -> "asyncio.Task[None]":
        """Send an answer to a request of the server's. Returns what does it."""

    def withdraw(self, request: OutgoingRequest | None, payload: bytes) -> None:
        """Withdraw a request whose answer is not wanted any longer; `payload` is the notification that says so.

        None stands for a request that the carrier is done with.
        """

    def greeted(self, era: str, version: str) -> None:
        """Note that the handshake is done."""

    def learn_headers(self, indexes: Mapping[str, Index]) -> None:
        """Set which arguments of which tools go into headers, too."""

    async def say_goodbye(self) -> None:
        """Tell the server that nobody comes back. The caller bounds the time."""


class HttpUpstreamConnection(Connection):
    """One conversation. `limits`: bytes of one message, bytes that wait to be sent."""

    sends_headers = True

    def __init__(self, name: str, owner: Owner, spec: ServerSpec, limits: tuple[int, int]) -> None:
        super().__init__(name, owner)
        self.spec = spec
        self.message_limit, self._queue_limit = limits
        self._carrier: Carrier | None = None
        self._pool: Pool | None = None
        self._asked: dict[int, OutgoingRequest] = {}
        self._unsent_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._problem: UpstreamError | None = None
        self._stopping: asyncio.Future[None] | None = None

    # --- for the owner

    async def open(self) -> None:
        """Get ready to ask. Only the old transport connects here. Raises UpstreamError."""
        self._pool = await asyncio.to_thread(_open_pool, self.name, self.spec)
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
        """Whether the server refuses everything until a person has logged in."""
        return self._pool is not None and self._pool.needs_login

    async def why_lost(self) -> UpstreamError:
        """Return why nothing can be sent any more."""
        return self._problem or UpstreamError(f"server {self.name!r} is not connected")

    def greeted(self, era: str, version: str) -> None:
        """Note that the handshake is done, and what the server speaks."""
        if self._carrier:
            self._carrier.greeted(era, version)

    def learn_headers(self, indexes: Mapping[str, Index]) -> None:
        """Replace which arguments of which tools go into headers, too."""
        if self._carrier:
            self._carrier.learn_headers(indexes)

    def notify(self, method: str, params: RawBytes | None = None) -> None:
        """Tell; nothing comes back."""
        if self._carrier and not self._problem:
            self._carrier.tell(method, messages.notification(method, params))

    def answer(self, payload: bytes, cause: int | None = None) -> None:
        """Answer a request of the server's; one that asks without ever taking answers is not answered for ever."""
        if self._carrier is None or self._problem:
            return
        if self._unsent_bytes > self._queue_limit:
            self.warn_limited(UpstreamBusy(f"server {self.name!r} asks and does not take the answers"))
            return
        size = len(payload) + ANSWER_BYTES
        self._unsent_bytes += size
        self._carrier.answer(payload).add_done_callback(lambda _: self._sent(size))

    def forget(self, number: int) -> None:
        """Give up that answer; nothing is read for it any longer."""
        was_waiting = number in self._waiting
        super().forget(number)
        request = self._asked.get(number)
        # Of a session that is being given, the id has to be known, to give it back.
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
        self._carrier.withdraw(self._asked.get(number), notice)

    # --- for the carriers

    @property
    def pool(self) -> "Pool":
        """The connections to the server."""
        assert self._pool is not None, "not opened"
        return self._pool

    def spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Do something that ends with the conversation at the latest."""
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
        """Nothing is read for that request any more. One without an answer by now gets none."""
        self.released(request)
        self.fail(request.number, self._problem or UpstreamError(f"server {self.name!r} did not answer"))

    def awaits(self, number: int) -> bool:
        """Return whether the answer to that request is waited for."""
        return number in self._waiting

    def take(self, items: Iterable[Item], cause: int | None) -> None:
        """Messages of the server, on the stream of the request that is their cause."""
        WRITE_BATCH.begin()
        try:
            self._take_all(items, cause)
        finally:
            WRITE_BATCH.end()

    def fail(self, number: int, problem: HearthError) -> None:
        """There will be no answer to that request."""
        self._standing.discard(number)
        waiter = self._waiting.pop(number, None)
        if waiter:
            waiter.failed(problem)
            if self.on_free:
                self.on_free()

    async def fall_back(self) -> None:
        """Go over to the transport of 2024-11-05. Raises UpstreamError when the server does not speak it either."""
        carrier = SseCarrier(self)
        await carrier.open()
        self._carrier = carrier

    def ask_again(self, request: OutgoingRequest) -> None:
        """Send a request by the carrier that has taken over from the one that was asked first."""
        assert self._carrier is not None
        self._carrier.ask(request)

    def over(self, problem: UpstreamError) -> None:
        """Nothing can be said any more, and why: the owner may begin another conversation."""
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
        if self._pool:
            await _bounded(self._pool.close())


async def _bounded(work: Coroutine[object, object, None]) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await work
    except (TimeoutError, UpstreamError):
        pass  # a server that does not listen needs no farewell


def _open_pool(name: str, spec: ServerSpec) -> "Pool":
    # In a thread: it takes a fifth of a second the first time.
    from hearth.upstreams.http.pool import open_pool

    return open_pool(name, spec)

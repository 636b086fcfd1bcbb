"""Limits of one client: messages per second, requests in flight, and the size of its output queue.

The rate limits stop a runaway program, not an attacker: every client here belongs to this user. On the socket they are
off by default; over TCP they are on, far above what an agent sends. Messages whose loss would do harm always pass:
answers to client requests, without which a call never ends, `notifications/cancelled` and `notifications/initialized`.
These messages count all the same. `RateLimiter` is pure: the caller provides the clock.

`Outbox` is the output queue. A slow reader stalls no other client: it loses notices first, then its connection.
Answers are kept up to a limit, and one message is always accepted into an empty queue, whatever its size.
`LimitedConnection` is a connection with both.
"""

import asyncio
import functools
import logging
import math
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, cast, overload

from hearth.config import Config
from hearth.daemon.client_connection import COUNTERS, ClientConnection
from hearth.errors import MessageError, OverLimit
from hearth.faults import SEAMS
from hearth.host import listening
from hearth.hub.sessions import Session
from hearth.hub.sinks import ClientSink
from hearth.mcp import messages
from hearth.wire.json import Batch, Kind, Message
from hearth.wire.lines import Item
from hearth.write_batch import BufferedWriter

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon

log = logging.getLogger(__name__)

# Interval between two log lines about the same client.
SILENCE_SECONDS = 60.0
# Retry time for a request over the in-flight limit: when one of the others ends is unknown.
IN_FLIGHT_RETRY_SECONDS = 1

_ALWAYS_PASS = frozenset({"notifications/cancelled", "notifications/initialized"})
# Answered at once, and sent by clients to check that the daemon is alive.
_NEVER_IN_FLIGHT = "ping"
# Above this size the transport pauses writing; notices are held back or dropped from then on.
CONGESTED_BYTES = 256 * 1024
# Interval of the check whether a slow reader has caught up. Only followers of events wait like this.
DRAIN_POLL_SECONDS = 0.05


class Limits(NamedTuple):
    """Limits for the socket or for ports; 0 means no limit. The names are those of the settings, for error messages."""

    rate: float
    burst_seconds: float
    in_flight: int
    rate_name: str = "rate_limit"
    in_flight_name: str = "in_flight_limit"


def near(config: Config) -> Limits | None:
    """Return the limits of clients on the socket and on stdin, or None if there are none."""
    found = Limits(config.rate_limit, config.rate_burst, config.in_flight_limit)
    return found if found.rate or found.in_flight else None


def far(config: Config) -> Limits | None:
    """Return the limits of clients at a port, or None if there are none."""
    rate, in_flight = config.port_rate_limit, config.port_in_flight_limit
    found = Limits(rate, config.rate_burst, in_flight, "port_rate_limit", "port_in_flight_limit")
    return found if rate or in_flight else None


class TokenBucket:
    """Token bucket that is filled at a steady rate up to its size, and is full at first."""

    __slots__ = ("_at", "_rate", "_size", "_tokens")

    def __init__(self, rate: float, size: float, now: float) -> None:
        self._rate = rate
        self._size = max(1.0, size)
        self._tokens = self._size
        self._at = now

    def take(self, now: float) -> float:
        """Take one token and return 0; if there is none, return the seconds until the next one."""
        # A clock that went back adds no tokens, and removes none.
        self._tokens = min(self._size, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = max(now, self._at)
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) / self._rate

    def resize(self, rate: float, size: float) -> None:
        """Change the rate and the size; the present tokens stay, as far as they fit."""
        self._rate = rate
        self._size = max(1.0, size)
        self._tokens = min(self._tokens, self._size)


class RateLimiter:
    """Rate limiter of one client. `tell` gets a sentence for the log, at most once a minute."""

    __slots__ = ("_bucket", "_now", "_silent_until", "_tell", "limits")

    def __init__(self, limits: Limits, now: Callable[[], float], tell: Callable[[str], None]) -> None:
        self.limits = limits
        self._now = now
        self._tell = tell
        self._silent_until = float("-inf")
        self._bucket = self._new_bucket() if limits.rate else None

    def _new_bucket(self) -> TokenBucket:
        return TokenBucket(self.limits.rate, self.limits.rate * self.limits.burst_seconds, self._now())

    def settle(self, limits: Limits) -> None:
        """Apply other limits."""
        self.limits = limits
        if not limits.rate:
            self._bucket = None
        elif self._bucket is None:
            self._bucket = self._new_bucket()
        else:
            self._bucket.resize(limits.rate, limits.rate * limits.burst_seconds)

    @overload
    def admitted(self, item: Message, in_flight: int) -> Message | OverLimit: ...
    @overload
    def admitted(self, item: Item | Batch, in_flight: int) -> Item | Batch: ...
    def admitted(self, item: Item | Batch, in_flight: int) -> Item | Batch:
        """Return the item, or the error that replaces it; the error has no id if the item gets no answer.

        `in_flight` is the number of this client's requests that wait for their answers.
        """
        if isinstance(item, Message):
            return self._refusal(item, in_flight) or item
        return self._admitted_members(item, in_flight) if isinstance(item, Batch) else item

    def _admitted_members(self, batch: Batch, in_flight: int) -> Batch | OverLimit:
        """Admit the messages of a batch; each of them counts."""
        found: list[Message | MessageError] = []
        dropped: OverLimit | None = None
        for item in batch.items:
            if isinstance(item, Message):
                admitted = self.admitted(item, in_flight)
                if isinstance(admitted, OverLimit) and admitted.id is None:
                    dropped = admitted
                    continue
                in_flight += isinstance(admitted, Message) and item.kind is Kind.REQUEST
                item = admitted
            found.append(item)
        return dropped if dropped and not found else Batch(found)

    def opening(self, id: bytes | None = None) -> OverLimit | None:
        """Return an error if no further session may begin for now. This limiter counts all clients of one listener."""
        return self._counted("session begun", "sessions begun", id)

    def asking(self, what: str) -> OverLimit | None:
        """Return an error if `what`, which is not a message but counts as one, is over the limit."""
        return self._counted(what, f"{what}s")

    def _counted(self, what: str, many: str, id: bytes | None = None) -> OverLimit | None:
        wait = self._bucket.take(self._now()) if self._bucket else 0.0
        return self._too_fast(what, many, wait, id, Kind.REQUEST) if wait else None

    def _refusal(self, message: Message, in_flight: int) -> OverLimit | None:
        kind = message.kind
        wait = self._bucket.take(self._now()) if self._bucket else 0.0
        if kind is Kind.RESPONSE or message.method in _ALWAYS_PASS:
            return None
        if wait:
            return self._too_fast("message", "messages", wait, message.id, kind)
        limit = self.limits.in_flight
        if limit and in_flight >= limit and kind is Kind.REQUEST and message.method != _NEVER_IN_FLIGHT:
            return self._too_many(limit, message.id)
        return None

    def _too_fast(self, what: str, many: str, wait: float, id: bytes | None, kind: Kind) -> OverLimit:
        name, rate = self.limits.rate_name, self.limits.rate
        COUNTERS.messages_refused["rate", kind.value] += 1
        excess = f"more than {rate:g} {what if rate == 1 else many} a second ({name})"
        self._say(f"{excess}; what is beyond is refused")
        # Whole seconds, as in HTTP, so that all wires say the same; rounded up, so that a retry after them is admitted.
        seconds = math.ceil(wait)
        return OverLimit(f"this is {excess}; send it again in {seconds} s", "rate_limit", id, seconds)

    def _too_many(self, limit: int, id: bytes | None) -> OverLimit:
        name = self.limits.in_flight_name
        COUNTERS.messages_refused["in_flight", Kind.REQUEST.value] += 1
        requests, are = ("request", "is") if limit == 1 else ("requests", "are")
        self._say(f"more than {limit} {requests} at a time ({name}); what is beyond is refused")
        sentence = f"{limit} {requests} {are} in flight already ({name}); send it again when one is answered"
        return OverLimit(sentence, "in_flight_limit", id, IN_FLIGHT_RETRY_SECONDS)

    def _say(self, sentence: str) -> None:
        now = self._now()
        if now >= self._silent_until:
            self._silent_until = now + SILENCE_SECONDS
            self._tell(sentence)


def gate(
    limits: Limits | None, former: RateLimiter | None, now: Callable[[], float], tell: Callable[[str], None]
) -> RateLimiter | None:
    """Return the rate limiter of a client under these limits, or None if there are none. A former one is reused."""
    if limits is None or former is None:
        return limits and RateLimiter(limits, now, tell)
    if limits != former.limits:
        former.settle(limits)
    return former


class Outbox(BufferedWriter):
    """Writing side of a connection."""

    __slots__ = ("_congested", "_held", "_limit", "_name")

    def __init__(self, transport: asyncio.Transport, limit: int, name: str) -> None:
        transport.set_write_buffer_limits(high=CONGESTED_BYTES)
        super().__init__(transport)
        self._limit = limit
        self._name = name
        self._congested = False
        # The newest notice of each topic, sent when there is room again.
        self._held: dict[str, bytes] = {}

    def write(self, data: bytes) -> None:
        """Queue data that must arrive; a reader that is too far behind loses its connection instead."""
        transport = self.transport
        waiting = self._size + transport.get_write_buffer_size()
        if waiting and waiting + len(data) > self._limit:
            if not transport.is_closing():
                log.warning(
                    "%s does not read: %d bytes wait for it (outbound_limit %d); its connection is dropped",
                    self._name, waiting, self._limit,
                )  # fmt: skip
                COUNTERS.readers_dropped += 1
                transport.abort()
            return
        if SEAMS and not waiting:
            middle = len(data) // 2 if SEAMS.armed("mid-write") else 0
            os.write(transport.get_extra_info("socket").fileno(), data[:middle])
            SEAMS.hit("mid-write")
            data = data[middle:]
        BufferedWriter.write(self, data)

    def write_notice(self, data: bytes, topic: str | None) -> None:
        """Queue a notice that may be dropped; of several on one topic the newest is enough."""
        if not self._congested:
            self.write(data)
        elif topic is not None:
            self._held[topic] = data

    def write_now(self, data: bytes) -> None:
        """Hand bytes to the kernel before anything else happens; only for the first write on a new connection."""
        listening.write_now(self.transport, data)

    async def drained(self) -> None:
        """Wait until the reader is no longer behind; for senders of data that has a queue of its own."""
        while self._congested:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def paused(self) -> None:
        """Note that the reader is behind."""
        self._congested = True

    def resumed(self) -> None:
        """Send the held notices: the reader has caught up."""
        self._congested = False
        held, self._held = self._held, {}
        for data in held.values():
            self.write(data)

    def owes(self) -> bool:
        """Tell whether there is data that the kernel has not taken yet."""
        return bool(self._held) or self.waiting() > 0

    def reader_left(self) -> bool:
        """Tell whether the reader has gone."""
        return listening.reader_left(self.transport)

    def abort(self) -> None:
        """Close now: a client that has not read by now will not."""
        cast(asyncio.Transport, self.transport).abort()

    def close(self) -> None:
        """Close after the client has taken everything that is queued."""
        self.flush()
        self.transport.close()


class LimitedConnection(asyncio.Protocol, ClientConnection, ClientSink):
    """Connection of one client, whose limits are those of the socket. `client` names it in the log.

    The connection is the client sink of its session.
    """

    def __init__(self, services: "Daemon", transport: asyncio.Transport, client: str) -> None:
        self._services = services
        self._outbox = Outbox(transport, services.config.outbound_limit, client)
        self._tell_of_limit = functools.partial(log.warning, "%s: %s", client)
        self._gate: RateLimiter | None = None
        self.adapt(services.config)

    def adapt(self, config: Config) -> None:
        """Apply the rate limits of this config."""
        self._gate = gate(near(config), self._gate, self._services.now, self._tell_of_limit)

    def _pass_on(
        self, session: Session, tag: int, items: Iterable[Item | Batch], resent: bool = False, replay: bool = False
    ) -> None:
        """Hand messages to the hub, and answer the faulty ones and those over the limits."""
        # Resent and replayed lines have passed the rate limiter of the daemon that took them first.
        gate = self._gate if not (resent or replay) else None
        for item in items:
            if gate is not None:
                item = gate.admitted(item, len(session.open))
            if isinstance(item, Message):
                self._services.hub.receive(session, tag, item, resent, replay)
            elif isinstance(item, Batch):
                self._services.hub.receive_batch(session, tag, item, resent, replay)
            elif isinstance(item, OverLimit) and item.id is None:
                self.finish(tag)
            else:
                self.answer(tag, messages.failure(getattr(item, "id", None), item))

    def owes(self) -> bool:
        """Tell whether there is data that the kernel has not taken yet."""
        return self._outbox.owes()

    def close(self) -> None:
        """Close after the client has taken everything that is queued."""
        self._outbox.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.session:
            self._services.hub.close_session(self.session)
        self._services.forget(self)

    def pause_writing(self) -> None:
        self._outbox.paused()

    def resume_writing(self) -> None:
        self._outbox.resumed()

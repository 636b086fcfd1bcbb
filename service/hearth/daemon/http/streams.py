"""Messages of one stream to an HTTP client: in order, once each, until the end of the stream.

Readers may be replaced: legacy clients resume a stream after the last event that they have seen. Until then the
messages that they have not seen are kept, within a limit. Independent of HTTP.

A replay buffer has answered streams that a client may resume for messages that it has not read, or that were in flight
when the connection broke. Buffers are bounded for each session, and for all sessions together.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

# Above this size a reader is behind: notices are dropped, and of several on one topic the newest is kept.
CONGESTED_BYTES = 256 * 1024
# Size of the messages that are kept after a reader took them, besides the last ones taken. A broken connection has less
# than this in flight.
KEPT_BYTES = 1024 * 1024


class StreamMessage(NamedTuple):
    """Message of a stream and its number, which starts at 1."""

    number: int
    payload: bytes


class Stream:
    """Stream of messages to one reader at a time.

    `limit` bounds the bytes that wait for a reader. Messages of a `resumable` stream may be read again.
    """

    def __init__(self, number: int, limit: int, resumable: bool) -> None:
        self.number = number
        # The raw id of the request that the stream answers, if any; for a batch, the ids of its requests.
        self.request: bytes | None = None
        self.batch: list[bytes] = []
        # The client has disconnected without an event id with which it could resume.
        self.abandoned = False
        self.ended = False
        # The last message is the answer, or an error in its place.
        self.is_answered = False
        # The reader did not read, and the waiting messages were dropped.
        self.overflowed = False
        self._limit = limit
        # Below the limit, so that notices alone never cause an overflow.
        self._congested = min(CONGESTED_BYTES, limit // 2)
        self._resumable = resumable
        self._messages: deque[StreamMessage] = deque()
        self._count = 0
        # The number of the last message that a reader has taken, and the sizes of the messages up to and after it.
        self._taken = 0
        self._past_bytes = 0
        self._waiting_bytes = 0
        # The number of the newest message of each topic, until a reader takes it; older ones do not matter.
        self._topics: dict[str, int] = {}
        self._news: asyncio.Future[None] | None = None
        self._reader: object = None
        # Called when the reader is too far behind.
        self.on_overflow: Callable[[], None] = lambda: None

    @property
    def owes(self) -> bool:
        """Whether the stream answers a request, and not a message without an answer."""
        return self.request is not None or bool(self.batch)

    # --- writing

    def add(self, payload: bytes) -> None:
        """Add a message that must arrive; a reader that is too far behind loses the stream instead."""
        if self.ended or self.overflowed:
            return
        if self._waiting_bytes and self._waiting_bytes + len(payload) > self._limit:
            self.overflowed = True
            self._messages.clear()
            self._topics.clear()
            self._waiting_bytes = self._past_bytes = 0
            self._taken = self._count
            self.on_overflow()
        else:
            self._count += 1
            self._messages.append(StreamMessage(self._count, payload))
            self._waiting_bytes += len(payload)
        self.wake()

    def add_answer(self, payload: bytes) -> None:
        """Add the answer, which is the last message of a request's stream."""
        self.add(payload)
        self.is_answered = True
        self.end()

    def add_notice(self, payload: bytes, topic: str | None) -> None:
        """Add a message that a slow reader may lose."""
        if self._waiting_bytes > self._congested:
            if topic is None:
                return
            self._forget(self._topics.pop(topic, 0))
        before = self._count
        self.add(payload)
        if topic is not None and self._count > before:
            self._topics[topic] = self._count

    def end(self) -> None:
        """End the stream: no message follows."""
        self.ended = True
        self.wake()

    def _forget(self, number: int) -> None:
        if number <= self._taken or not self._messages or number < self._messages[0].number:
            return
        # The number stays in use: clients resume by number.
        at = number - self._messages[0].number
        self._waiting_bytes -= len(self._messages[at].payload)
        self._messages[at] = StreamMessage(number, b"")

    def wake(self) -> None:
        """Wake the reader that waits."""
        if self._news:
            _resolve(self._news)

    # --- reading

    @property
    def taken(self) -> int:
        """The number of the last message that a reader has taken."""
        return self._taken

    @property
    def waiting(self) -> bool:
        """Whether something waits for a reader."""
        return self._taken < self._count and not self.overflowed

    @property
    def only(self) -> bytes | None:
        """The answer, if the stream has ended with it and had nothing else."""
        is_only = self.ended and self.is_answered and self._count == len(self._messages) == 1
        return self._messages[0].payload if is_only else None

    @property
    def oldest(self) -> int:
        """The number of the message after which all messages are still here."""
        return self._messages[0].number - 1 if self._messages else self._count

    @property
    def size(self) -> int:
        """The size of the messages that are still here, in bytes."""
        return self._past_bytes + self._waiting_bytes

    def has(self, number: int) -> bool:
        """Tell whether all messages after that one are still here."""
        return not self.overflowed and self.oldest <= number <= self._count

    def is_through(self, number: int) -> bool:
        """Tell whether no message follows that one, now or later."""
        return self.ended and number >= self._count

    def attach(self, reader: object, after: int | None = None) -> None:
        """Make `reader` the one reader, after that message or where the last reader was; a former reader stops."""
        self._reader = reader
        # The messages that a former reader lost stay lost, but the new reader starts without an overflow.
        self.overflowed = False
        if after is not None:
            self._rewind(after)
        self.wake()

    def _rewind(self, after: int) -> None:
        self._taken = after
        sizes = [(message.number <= after, len(message.payload)) for message in self._messages]
        self._past_bytes = sum(size for is_past, size in sizes if is_past)
        self._waiting_bytes = sum(size for is_past, size in sizes if not is_past)

    def detach(self, reader: object) -> None:
        """Remove that reader, if it is still the present one."""
        if self._reader is reader:
            self._reader = None
            self.on_overflow = lambda: None

    def take(self, reader: object) -> list[StreamMessage]:
        """Take the messages that wait; a reader that was replaced gets none."""
        if self._reader is not reader or not self.waiting:
            return []
        # From the end, where the new messages are: many times as many older ones may be kept before them.
        newest = list(islice(reversed(self._messages), self._count - self._taken))
        found = [message for message in reversed(newest) if message.payload]
        before, self._taken = self._taken, self._count
        self._topics.clear()
        self._past_bytes += self._waiting_bytes
        self._waiting_bytes = 0
        if not self._resumable:
            self._messages.clear()
            self._past_bytes = 0
        while self._past_bytes > KEPT_BYTES and self._messages and self._messages[0].number <= before:
            self._past_bytes -= len(self._messages.popleft().payload)
        return found

    def is_over(self, reader: object) -> bool:
        """Tell whether that reader has nothing more to wait for."""
        return self.overflowed or self._reader is not reader or (self.ended and not self.waiting)

    async def wait(self, seconds: float) -> None:
        """Wait until there is something new, for at most that many seconds."""
        loop = asyncio.get_running_loop()
        news = self._news = loop.create_future()
        timer = loop.call_later(seconds, _resolve, news)
        try:
            await news
        finally:
            timer.cancel()
            # The reader that replaced this one may be waiting already.
            if self._news is news:
                self._news = None


def _resolve(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)


# --- replay buffers

# Limits of one session.
STREAMS_LIMIT = 64
SESSION_LIMIT_BYTES = 16 * 1024 * 1024
# Limit of all sessions: the default size of the largest message. A thousand sessions, each at its own limit, would take
# 16 GB of memory for clients of which nearly all will never resume a stream.
TOTAL_LIMIT_BYTES = 64 * 1024 * 1024


class Total:
    """Total size of the replay buffers of all sessions."""

    def __init__(self) -> None:
        self.size = 0
        # The buffers that are not empty.
        self._keepers: set[ReplayBuffer] = set()

    def count(self, keeper: "ReplayBuffer", more: int) -> None:
        """Add a change in size of one buffer, in bytes."""
        self.size += more
        if keeper.size:
            self._keepers.add(keeper)
        else:
            self._keepers.discard(keeper)

    def trim(self, newcomer: "ReplayBuffer") -> None:
        """Drop the oldest streams of the largest buffers, but never the one just added: its client may be reading."""
        while self.size > TOTAL_LIMIT_BYTES:
            others = (each for each in self._keepers if each is not newcomer or len(each) > 1)
            largest = max(others, key=lambda each: each.size, default=None)
            if largest is None:
                return
            largest.drop_oldest()


class ReplayBuffer:
    """Answered streams of one session, by their numbers, the oldest first."""

    def __init__(self, total: Total) -> None:
        self.size = 0
        self._total = total
        # With the size that each stream had at its end; it only shrinks later.
        self._streams: dict[int, tuple[Stream, int]] = {}
        # The streams that were here at the last sweep.
        self._old: set[int] = set()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, number: int) -> Stream | None:
        """Return the stream of that number, if it is still here."""
        found = self._streams.get(number)
        return found[0] if found else None

    def add(self, stream: Stream) -> None:
        """Add a stream that has ended. Older ones, of this session or another, may be dropped for it."""
        if self._is_over:
            return
        size = stream.size
        self._streams[stream.number] = (stream, size)
        self._count(size)
        while len(self) > STREAMS_LIMIT or (self.size > SESSION_LIMIT_BYTES and len(self) > 1):
            self.drop_oldest()
        self._total.trim(self)

    def drop_oldest(self) -> None:
        """Drop the oldest stream; the buffer must not be empty."""
        self.drop(next(iter(self._streams)))

    def drop(self, number: int) -> None:
        """Drop a stream that will not, or must not, be resumed."""
        found = self._streams.pop(number, None)
        if found:
            self._count(-found[1])

    def sweep(self) -> None:
        """Drop the streams that were read to their end before the last sweep: their clients have not resumed them."""
        for number in self._old:
            stream = self.get(number)
            if stream and not stream.waiting:
                self.drop(number)
        self._old = set(self._streams)

    def close(self) -> None:
        """Drop everything because the session is over; streams of calls that end later are not added."""
        self._is_over = True
        self._streams.clear()
        self._count(-self.size)

    def _count(self, more: int) -> None:
        if more:
            self.size += more
            self._total.count(self, more)

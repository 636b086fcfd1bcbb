"""The messages of one stream to an HTTP client: in order, once each, until its end.

A reader may go and another may come: legacy clients resume a stream behind the last event that they have seen, and
until they do, what they have not seen is kept, bounded. Knows nothing of HTTP.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

# Beyond this, a reader is behind: notices are dropped, and of several on one topic the newest is kept.
CONGESTED_BYTES = 256 * 1024
# What a reader has taken and may yet ask for again, besides what it took last. Whatever was in flight on a broken
# connection is less.
KEPT_BYTES = 1024 * 1024


class Message(NamedTuple):
    """One message of a stream and its number, from 1 on."""

    number: int
    payload: bytes


class Stream:
    """`limit` is of the bytes that wait for a reader. `resumable`: what was read may be asked for again."""

    def __init__(self, number: int, limit: int, resumable: bool) -> None:
        self.number = number
        # The raw id of the request that it is for, if it is for one; of a batch, those of its requests.
        self.request: bytes | None = None
        self.batch: list[bytes] = []
        # Its client has gone without an event id by which it could come back.
        self.abandoned = False
        self.ended = False
        # What was added last is the answer, or says that there is none.
        self.is_answered = False
        # Its reader did not read, and what waited for it was let go.
        self.overflowed = False
        self._limit = limit
        # Notices alone never make it overflow.
        self._congested = min(CONGESTED_BYTES, limit // 2)
        self._resumable = resumable
        self._messages: deque[Message] = deque()
        self._count = 0
        # The last that a reader has taken, and the bytes of what is before and behind it.
        self._taken = 0
        self._past_bytes = 0
        self._waiting_bytes = 0
        # The messages on a topic of which only the newest matters, as long as nobody has taken them.
        self._topics: dict[str, int] = {}
        self._news: asyncio.Future[None] | None = None
        self._reader: object = None
        # Told when its reader is too far behind.
        self.on_overflow: Callable[[], None] = lambda: None

    @property
    def owes(self) -> bool:
        """Whether it is for a request, and not for what gets no answer."""
        return self.request is not None or bool(self.batch)

    # --- writing

    def add(self, payload: bytes) -> None:
        """A message that must arrive; a reader that is too far behind loses the stream instead."""
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
            self._messages.append(Message(self._count, payload))
            self._waiting_bytes += len(payload)
        self.wake()

    def add_answer(self, payload: bytes) -> None:
        """The last message of a stream that is for a request."""
        self.add(payload)
        self.is_answered = True
        self.end()

    def add_notice(self, payload: bytes, topic: str | None) -> None:
        """A message that a slow reader may lose."""
        if self._waiting_bytes > self._congested:
            if topic is None:
                return
            self._forget(self._topics.pop(topic, 0))
        before = self._count
        self.add(payload)
        if topic is not None and self._count > before:
            self._topics[topic] = self._count

    def end(self) -> None:
        """Nothing follows."""
        self.ended = True
        self.wake()

    def _forget(self, number: int) -> None:
        if number <= self._taken or not self._messages or number < self._messages[0].number:
            return
        # Its number stays: who resumes counts by it.
        at = number - self._messages[0].number
        self._waiting_bytes -= len(self._messages[at].payload)
        self._messages[at] = Message(number, b"")

    def wake(self) -> None:
        """Whoever waits looks again."""
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
        """The number of the message behind which everything is still here."""
        return self._messages[0].number - 1 if self._messages else self._count

    @property
    def size(self) -> int:
        """The bytes of what is still here."""
        return self._past_bytes + self._waiting_bytes

    def has(self, number: int) -> bool:
        """Whether everything behind that message is still here."""
        return not self.overflowed and self.oldest <= number <= self._count

    def is_through(self, number: int) -> bool:
        """Whether nothing is behind that message, nor ever will be."""
        return self.ended and number >= self._count

    def attach(self, reader: object, after: int | None = None) -> None:
        """Read from now on, behind that message or where the last reader was; whoever read it before stops."""
        self._reader = reader
        # What a former reader lost is lost; this one has yet to show that it reads.
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
        """That reader has gone."""
        if self._reader is reader:
            self._reader = None
            self.on_overflow = lambda: None

    def take(self, reader: object) -> list[Message]:
        """What waits; nothing for a reader that was replaced."""
        if self._reader is not reader or not self.waiting:
            return []
        # From the end, where they are: what is kept of those before them may be many times as much.
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
        """Whether that reader has nothing more to wait for."""
        return self.overflowed or self._reader is not reader or (self.ended and not self.waiting)

    async def wait(self, seconds: float) -> None:
        """Return when there is something new, or when so much time has passed."""
        loop = asyncio.get_running_loop()
        news = self._news = loop.create_future()
        timer = loop.call_later(seconds, _resolve, news)
        try:
            await news
        finally:
            timer.cancel()
            # Whoever replaced this reader may be waiting already.
            if self._news is news:
                self._news = None


def _resolve(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)

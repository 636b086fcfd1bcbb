"""Replay buffers: answered streams that clients may resume for messages that they have not read, or that were in flight
when the connection broke. Bounded for each session, and for all sessions together. Independent of HTTP.
"""

from hearth.daemon.http.streams import Stream

# Limits of one session.
STREAMS_LIMIT = 64
LIMIT_BYTES = 16 * 1024 * 1024
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
        while len(self) > STREAMS_LIMIT or (self.size > LIMIT_BYTES and len(self) > 1):
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

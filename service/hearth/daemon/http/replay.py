"""Streams of requests that were answered: their clients may come back for what they have not read, or what was on its
way to them when the connection broke. Bounded for each session, and for all of them together. Knows nothing of HTTP.
"""

from hearth.daemon.http.streams import Stream

# Of one session.
STREAMS_LIMIT = 64
LIMIT_BYTES = 16 * 1024 * 1024
# Of all sessions: as much as the largest message may have by default. A thousand sessions, each at its own limit, would
# take 16 GB of the machine for clients of whom nearly all will never ask.
TOTAL_LIMIT_BYTES = 64 * 1024 * 1024


class Total:
    """What all sessions of a daemon keep."""

    def __init__(self) -> None:
        self.size = 0
        # Those that keep anything.
        self._keepers: set[ReplayBuffer] = set()

    def count(self, keeper: "ReplayBuffer", more: int) -> None:
        """One of them keeps so many bytes more, or less."""
        self.size += more
        if keeper.size:
            self._keepers.add(keeper)
        else:
            self._keepers.discard(keeper)

    def trim(self, newcomer: "ReplayBuffer") -> None:
        """Let go of the oldest of whoever keeps most, and never of what was just added: its client may be reading."""
        while self.size > TOTAL_LIMIT_BYTES:
            others = (each for each in self._keepers if each is not newcomer or len(each) > 1)
            largest = max(others, key=lambda each: each.size, default=None)
            if largest is None:
                return
            largest.drop_oldest()


class ReplayBuffer:
    """Those of one session, by their numbers, the oldest first."""

    def __init__(self, total: Total) -> None:
        self.size = 0
        self._total = total
        # With the bytes that each had at its end; later it has less, if any.
        self._streams: dict[int, tuple[Stream, int]] = {}
        # Those that were there already when somebody last looked.
        self._old: set[int] = set()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, number: int) -> Stream | None:
        """The stream of that number, if it is still here."""
        found = self._streams.get(number)
        return found[0] if found else None

    def add(self, stream: Stream) -> None:
        """It has ended. Older ones may have to go, of this session or of another."""
        if self._is_over:
            return
        size = stream.size
        self._streams[stream.number] = (stream, size)
        self._count(size)
        while len(self) > STREAMS_LIMIT or (self.size > LIMIT_BYTES and len(self) > 1):
            self.drop_oldest()
        self._total.trim(self)

    def drop_oldest(self) -> None:
        """There is one."""
        self.drop(next(iter(self._streams)))

    def drop(self, number: int) -> None:
        """Nobody comes back for it, or nobody may."""
        found = self._streams.pop(number, None)
        if found:
            self._count(-found[1])

    def sweep(self) -> None:
        """Forget what was read to its end some time ago: nobody has come back for it."""
        for number in self._old:
            stream = self.get(number)
            if stream and not stream.waiting:
                self.drop(number)
        self._old = set(self._streams)

    def close(self) -> None:
        """The session is over, also for calls of it that end only now."""
        self._is_over = True
        self._streams.clear()
        self._count(-self.size)

    def _count(self, more: int) -> None:
        if more:
            self.size += more
            self._total.count(self, more)

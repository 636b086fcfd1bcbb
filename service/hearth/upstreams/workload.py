"""Workload of a server: calls that wait for their turn, statistics of those that have ended, load since the last look.

Pure, and bounded in size. Adding to the statistics is on the path of every call: a few additions, a ring buffer, and a
search among a dozen numbers, 0.2 µs in all. Sorting happens only when the figures are read.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from hearth.errors import HearthError, UpstreamBusy
from hearth.upstreams.connection import Connection
from hearth.upstreams.supervision import Load

# The last calls, whose durations are kept: enough for a steady 95th percentile, 16 KB of numbers.
LAST_CALLS = 512
# Upper bounds of the histogram of durations, plus one bucket beyond: from an answer out of the server's memory to a
# call that a person would have given up on.
BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)


class CallStats:
    """Statistics of one instance, or of all instances that a server has had."""

    __slots__ = ("_seconds", "by_duration", "calls", "errors", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        # Total duration of all calls, and the histogram: its last number counts calls beyond every bound.
        self.seconds = 0.0
        self.by_duration = [0] * (len(BOUNDS_SECONDS) + 1)
        self._seconds: deque[float] = deque(maxlen=LAST_CALLS)

    def add(self, seconds: float, erred: bool) -> None:
        """Count a call that has ended."""
        self.calls += 1
        if erred:
            self.errors += 1
        self.seconds += seconds
        self.by_duration[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self._seconds.append(seconds)

    def absorb(self, other: "CallStats") -> None:
        """Add the counts of another object."""
        self.calls += other.calls
        self.errors += other.errors
        self.seconds += other.seconds
        self.by_duration = [mine + theirs for mine, theirs in zip(self.by_duration, other.by_duration, strict=True)]
        self._seconds.extend(other._seconds)

    def describe(self) -> dict[str, object]:
        """Return the figures for `hearth status --json`."""
        return total([self])


def total(figures: Iterable[CallStats]) -> dict[str, object]:
    """Return the combined figures for `hearth status --json`, from all known durations."""
    parts = list(figures)
    seconds = sorted(each for part in parts for each in part._seconds)
    return {
        "calls": sum(part.calls for part in parts),
        "errors": sum(part.errors for part in parts),
        "p50Ms": _milliseconds(_percentile(seconds, 0.5)),
        "p95Ms": _milliseconds(_percentile(seconds, 0.95)),
    }


def _percentile(seconds: list[float], share: float) -> float | None:
    # The nearest rank: a duration that a call really had.
    return seconds[max(0, -int(-share * len(seconds) // 1) - 1)] if seconds else None


def _milliseconds(seconds: float | None) -> float | None:
    # May be below zero: the time of waiting for a person is subtracted, and its clock was read at another moment.
    return None if seconds is None else round(max(0.0, seconds) * 1000, 3)


# Calls that wait for their turn; further calls fail because the server is busy.
QUEUE_LIMIT = 1000


class Queued(Protocol):
    """Protocol for a call that waits for its turn."""

    @property
    def since(self) -> float:
        """Start of the wait, by the monotonic clock."""

    def send(self) -> None:
        """Send the call: its turn has come."""

    def failed(self, problem: HearthError) -> None:
        """Fail the call: its turn will not come."""


class CallQueue:
    """Queue for one instance; `limit` is its maximum of calls in flight, None for no limit."""

    def __init__(self, name: str, limit: int | None, in_flight: Callable[[], int]) -> None:
        self.limit = limit
        self._name = name
        self._in_flight = in_flight
        self._waiting: deque[Queued] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """True if a call has to wait for its turn."""
        return self.limit is not None and (bool(self._waiting) or self._in_flight() >= self.limit)

    def add(self, call: Queued) -> None:
        """Queue a call, which is sent when its turn comes. Raises UpstreamBusy if too many wait already."""
        if len(self._waiting) >= QUEUE_LIMIT:
            raise UpstreamBusy(f"server {self._name!r} is busy: {QUEUE_LIMIT} calls wait for their turn")
        self._waiting.append(call)

    def waiting(self) -> list[Queued]:
        """Return the waiting calls, the longest waiting first."""
        return list(self._waiting)

    def advance(self) -> None:
        """Send as many waiting calls as there is room for, after an answer or a new limit."""
        while self._waiting and (self.limit is None or self._in_flight() < self.limit):
            self._waiting.popleft().send()

    def fail(self, problem: HearthError) -> None:
        """Fail all waiting calls."""
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.failed(problem)


class Workload:
    """Counter of an instance's load since the last look of supervision."""

    def __init__(self) -> None:
        # Calls without an error at the beginning of this connection, and all calls at the last look.
        self._served_before = 0
        self._calls_seen = 0

    def begun(self, stats: CallStats) -> None:
        """Start counting for a new connection."""
        self._served_before = stats.calls - stats.errors

    def has_served(self, stats: CallStats) -> bool:
        """Return whether this connection has answered a call without an error."""
        return stats.calls - stats.errors > self._served_before

    def look(self, connection: Connection, stats: CallStats, busy: bool) -> Load:
        """Return the load since the last look."""
        heard, connection.heard = connection.heard, False
        gave_up, connection.gave_up = connection.gave_up, False
        seen, self._calls_seen = self._calls_seen, stats.calls
        return Load(busy, used=gave_up or seen != self._calls_seen, heard=heard, gave_up=gave_up)

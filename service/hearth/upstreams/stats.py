"""How many calls a server was given, how many of them failed, and how long they took. Pure, and small for ever.

Adding is on the path of every call: a few additions, a ring, and a search among a dozen numbers, 0.2 µs in all. What it
costs to sort is paid by who asks.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

# The last calls, of which the times are known: enough for a steady 95th percentile, 16 KB of numbers.
LAST_CALLS = 512
# Calls are counted by how long they took, up to each of these, and beyond: from what a server answers out of its memory
# to what a person would have given up on.
BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0)


class CallStats:
    """The figures of one instance, or of all that a server has had."""

    __slots__ = ("_seconds", "by_duration", "calls", "errors", "seconds")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        # How long all of them took together, and how many took how long: the last number is beyond every bound.
        self.seconds = 0.0
        self.by_duration = [0] * (len(BOUNDS_SECONDS) + 1)
        self._seconds: deque[float] = deque(maxlen=LAST_CALLS)

    def add(self, seconds: float, erred: bool) -> None:
        """A call has ended."""
        self.calls += 1
        if erred:
            self.errors += 1
        self.seconds += seconds
        self.by_duration[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self._seconds.append(seconds)

    def absorb(self, other: "CallStats") -> None:
        """Count what the other has counted as well."""
        self.calls += other.calls
        self.errors += other.errors
        self.seconds += other.seconds
        self.by_duration = [mine + theirs for mine, theirs in zip(self.by_duration, other.by_duration, strict=True)]
        self._seconds.extend(other._seconds)

    def describe(self) -> dict[str, object]:
        """The figures in `hearth status --json`."""
        return total([self])


def total(figures: Iterable[CallStats]) -> dict[str, object]:
    """The figures of several as one, for `hearth status --json`. All times that are known count."""
    parts = list(figures)
    seconds = sorted(each for part in parts for each in part._seconds)
    return {
        "calls": sum(part.calls for part in parts),
        "errors": sum(part.errors for part in parts),
        "p50Ms": _milliseconds(_percentile(seconds, 0.5)),
        "p95Ms": _milliseconds(_percentile(seconds, 0.95)),
    }


def _percentile(seconds: list[float], share: float) -> float | None:
    # The nearest rank: a time that was really taken by a call.
    return seconds[max(0, -int(-share * len(seconds) // 1) - 1)] if seconds else None


def _milliseconds(seconds: float | None) -> float | None:
    # Waiting for a person is taken out of it by clocks that were read at different times.
    return None if seconds is None else round(max(0.0, seconds) * 1000, 3)

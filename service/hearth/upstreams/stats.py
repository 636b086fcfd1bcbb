"""Statistics of a server's calls: number, errors and durations. Pure, and bounded in size.

Adding is on the path of every call: a few additions, a ring buffer, and a search among a dozen numbers, 0.2 µs in all.
Sorting happens only when the figures are read.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

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

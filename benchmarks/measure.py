"""Samples and what is said about them: interleaving, medians, limits. Knows no process and no clock but its
own.

A shared machine is slow for seconds at a time, so that two things measured one after the other cannot be
compared. Here everything that is compared takes turns, A B C A B C …, and only medians count.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns

Action = Callable[[], float]
Samples = dict[str, list[float]]


def milliseconds(begin_ns: int) -> float:
    """The time since a reading of perf_counter_ns."""
    return (perf_counter_ns() - begin_ns) / 1e6


def interleave(actions: Mapping[str, Action], rounds: int, warmup: int) -> Samples:
    """Let the actions take turns, each giving one sample per round; the first rounds are thrown away.

    Every other round runs backwards, so that none always comes right after the same other one.
    """
    samples: Samples = {name: [] for name in actions}
    for number in range(warmup + rounds):
        order = list(actions) if number % 2 else list(actions)[::-1]
        for name in order:
            sample = actions[name]()
            if number >= warmup:
                samples[name].append(sample)
    return samples


@dataclass(frozen=True)
class Group:
    """Actions that are compared with each other, and how often each runs."""

    unit: str
    actions: Mapping[str, Action]
    rounds: int
    warmup: int

    def measure(self, names: tuple[str, ...] = ()) -> Samples:
        """Samples of all actions, or of those named."""
        chosen = {name: act for name, act in self.actions.items() if not names or name in names}
        return interleave(chosen, self.rounds, self.warmup)


@dataclass(frozen=True)
class Line:
    """One line of the table: a subject, its baseline and the limit of their ratio; no baseline, no ratio."""

    title: str
    group: str
    subject: str
    baseline: str | None
    limit: float | None
    at_most: bool = True

    def names(self) -> tuple[str, ...]:
        """The actions that this line needs."""
        return (self.subject,) if self.baseline is None else (self.subject, self.baseline)

    def figure(self, samples: Samples, remeasured: bool = False) -> "Figure":
        """What the samples say."""
        value = median(samples[self.subject])
        against = None if self.baseline is None else median(samples[self.baseline])
        return Figure(self, value, against, value if against is None else value / against, remeasured)


@dataclass(frozen=True)
class Figure:
    """A measured line. `score` is what the limit is about: the ratio, or the value without a baseline."""

    line: Line
    value: float
    against: float | None
    score: float
    remeasured: bool

    @property
    def ok(self) -> bool:
        """Within the limit, or for information only."""
        if self.line.limit is None:
            return True
        return self.score <= self.line.limit if self.line.at_most else self.score >= self.line.limit


def judge(groups: Mapping[str, Group], lines: list[Line], say: Callable[[str], None]) -> list[Figure]:
    """Measure every group, and once more what is over its limit: one bad second is not a verdict."""
    samples: dict[str, Samples] = {}
    for name in dict.fromkeys(line.group for line in lines):
        say(f"measuring {name}")
        samples[name] = groups[name].measure()
    return [settled(line, line.figure(samples[line.group]), groups[line.group], say) for line in lines]


def settled(line: Line, first: Figure, group: Group, say: Callable[[str], None]) -> Figure:
    """The figure, or a second one where the first is over the limit."""
    if first.ok:
        return first
    say(f"{line.title}: {first.score:.2f} is over {line.limit:g}, measuring it again")
    return line.figure(group.measure(line.names()), remeasured=True)

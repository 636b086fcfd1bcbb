"""Calls above a server's `max_concurrency`, in the order of their coming. Knows nothing of what they are."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from hearth.errors import HearthError, UpstreamBusy

# Calls that wait for their turn; whoever comes then is told that the server is busy.
QUEUE_LIMIT = 1000


class Queued(Protocol):
    """A call that waits for its turn."""

    @property
    def since(self) -> float:
        """Since when, by the monotonic clock."""

    def send(self) -> None:
        """It is its turn."""

    def failed(self, problem: HearthError) -> None:
        """Its turn will not come."""


class CallQueue:
    """Those that wait for one instance; `limit` is how many it has in flight at most, None where nobody waits."""

    def __init__(self, name: str, limit: int | None, in_flight: Callable[[], int]) -> None:
        self.limit = limit
        self._name = name
        self._in_flight = in_flight
        self._waiting: deque[Queued] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether a call has to wait for its turn."""
        return self.limit is not None and (bool(self._waiting) or self._in_flight() >= self.limit)

    def add(self, call: Queued) -> None:
        """Send it when it is its turn. Raises UpstreamBusy when too many wait already."""
        if len(self._waiting) >= QUEUE_LIMIT:
            raise UpstreamBusy(f"server {self._name!r} is busy: {QUEUE_LIMIT} calls wait for their turn")
        self._waiting.append(call)

    def waiting(self) -> list[Queued]:
        """Who waits, the longest waiting first."""
        return list(self._waiting)

    def advance(self) -> None:
        """Something was answered: as many as there is room for have their turn."""
        while self._waiting and (self.limit is None or self._in_flight() < self.limit):
            self._waiting.popleft().send()

    def fail(self, problem: HearthError) -> None:
        """Nobody will have a turn."""
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call.failed(problem)

"""Queue of the calls above a server's `max_concurrency`, in order of arrival. Knows nothing of their content."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from hearth.errors import HearthError, UpstreamBusy

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

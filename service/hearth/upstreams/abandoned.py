"""Requests that were given up, while the server may still be busy with them. Knows nothing of who is behind them.

What a server says of its own accord may belong to one of these as well as to one that is still waited for. It is done
with one when it answers it, late and for nobody. Told of the cancellation, a modern server says nothing more about it:
there, an answer to anything that was sent afterwards tells that it knows. A legacy one may go on all the same.
"""

import time
from typing import NamedTuple

# As long as a call may go without an answer by default: who has said nothing for so long has given it up.
ABANDONED_SECONDS = 1800.0
# Above it the oldest is forgotten.
ABANDONED_LIMIT = 10_000


class _Abandoned(NamedTuple):
    whose: object
    next_number: int
    since: float


class AbandonedRequests:
    """Those of one conversation. Empty at nearly all times, and false then."""

    def __init__(self) -> None:
        self._requests: dict[int, _Abandoned] = {}
        # The newest request that was answered while there were any.
        self._newest = 0

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, number: int, whose: object, next_number: int) -> None:
        """One was given up; `next_number` is that of the next request."""
        if len(self._requests) >= ABANDONED_LIMIT:
            del self._requests[next(iter(self._requests))]
        self._requests[number] = _Abandoned(whose, next_number, time.monotonic())

    def answered(self, number: int) -> None:
        """The server has answered a request, whichever."""
        self._requests.pop(number, None)
        self._newest = max(self._newest, number)

    def owners(self, is_modern: bool) -> set[object]:
        """Whose those are that the server may still be busy with."""
        deadline = time.monotonic() - ABANDONED_SECONDS
        self._requests = {number: each for number, each in self._requests.items() if each.since > deadline}
        known = self._newest if is_modern else 0
        return {each.whose for each in self._requests.values() if each.next_number > known}

"""Requests that were given up, while the server may still be busy with them. Knows nothing of who is behind them.

What a server says of its own accord may belong to one of these as well as to one that is still waited for: it should
stop when it is told of the cancellation, and may go on all the same. It is done with one when it answers it, late and
for nobody. A modern server says nothing more about it once it knows: there, the answer to anything that was sent
afterwards is enough.
"""

import time
from typing import NamedTuple

# As long as a call may go without an answer by default: who has said nothing for so long has given it up.
ABANDONED_SECONDS = 1800.0
# A modern server must say nothing more about it (2026-07-28, cancellation); it has this long to notice.
NOTICED_SECONDS = 60.0
# Above it the oldest is forgotten.
ABANDONED_LIMIT = 10_000


class _Abandoned(NamedTuple):
    whose: object
    until: float
    # An answer to this request or a later one tells that the server knows, and is silent; None where it may not be.
    noticed_by: int | None


class AbandonedRequests:
    """Those of one conversation. Empty at nearly all times, and false then."""

    def __init__(self) -> None:
        self._requests: dict[int, _Abandoned] = {}

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(
        self, number: int, whose: object, seconds: float = ABANDONED_SECONDS, noticed_by: int | None = None
    ) -> None:
        """One was given up; the server may be busy with it for so long, or until it answers one after `noticed_by`."""
        if len(self._requests) >= ABANDONED_LIMIT:
            del self._requests[next(iter(self._requests))]
        self._requests[number] = _Abandoned(whose, time.monotonic() + seconds, noticed_by)

    def answered(self, number: int) -> None:
        """The server has answered that request, whether it was given up or not."""
        self._requests.pop(number, None)
        done = [
            key for key, each in self._requests.items() if each.noticed_by is not None and each.noticed_by <= number
        ]
        for key in done:
            del self._requests[key]

    def owners(self) -> set[object]:
        """Whose those are that the server may still be busy with."""
        now = time.monotonic()
        self._requests = {number: each for number, each in self._requests.items() if each.until > now}
        return {each.whose for each in self._requests.values()}

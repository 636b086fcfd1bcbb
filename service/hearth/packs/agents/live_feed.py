"""Live changes of one agent for one reader: items as they grow, status, permissions. Does no I/O.

The queue is bounded. A slow reader loses the oldest progress, and is told how much; the newest state is kept beside the
queue, so that the last thing that it reads is always the state as it is.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from hearth.hub.events import Feed
from hearth.packs.agents.timeline_items import weight

# Changes that a reader may lag behind: some seconds of a busy agent.
QUEUE_LIMIT = 1000
# The same in bytes: a message is sent whole whenever it has grown.
QUEUE_LIMIT_BYTES = 4 * 1024 * 1024

Change = dict[str, Any]


class LiveFeed(Feed[Change]):
    """Queue of one reader of changes.

    Changes are objects with a `type`: `item` (item), `permission` (request), `dropped` (count) and `status`, the state
    of the agent.
    """

    def __init__(
        self,
        discard: "Callable[[LiveFeed], None]",
        limit: int = QUEUE_LIMIT,
        limit_bytes: int = QUEUE_LIMIT_BYTES,
    ) -> None:
        super().__init__(discard)
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._progress: deque[Change] = deque()
        self._dropped = 0
        self._state: Change | None = None

    def put(self, change: Change) -> None:
        """Append progress; drop the oldest if the queue is full."""
        self._progress.append(change)
        self._bytes += _weight(change)
        while len(self._progress) > self._limit or (self._bytes > self._limit_bytes and len(self._progress) > 1):
            self._bytes -= _weight(self._progress.popleft())
            self._dropped += 1
        self._news.set()

    def put_state(self, state: Change) -> None:
        """Replace the state that the reader has not read yet."""
        self._state = state
        self._news.set()

    def take(self) -> list[Change]:
        """Return the waiting changes without waiting for more; the state comes last."""
        dropped, self._dropped = self._dropped, 0
        found: list[Change] = [{"type": "dropped", "count": dropped}] if dropped else []
        found += self._progress
        self._progress.clear()
        self._bytes = 0
        if self._state is not None:
            found.append(self._state)
            self._state = None
        if not self.is_closed:
            self._news.clear()
        return found


def _weight(change: Change) -> int:
    item = change.get("item")
    return weight(item["data"] if item else change)

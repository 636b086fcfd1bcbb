"""Queue of timeline items that wait for the disk, bounded in number and bytes. Pure; the store locks it.

An item that changes again before it is written replaces the former one. Beyond the bounds the agent with the most bytes
loses the oldest half of its items: one that floods a slow disk costs no other agent an entry. In their place there is
an item that says how many are missing.
"""

from collections.abc import Collection, Iterable

from hearth.packs.agents.timeline_items import TimelineItem, weight

# As many as five timelines: a disk that does not answer for longer costs entries, not memory.
ITEMS_LIMIT = 10_000
LIMIT_BYTES = 32 * 1024 * 1024


class _AgentItems:
    """Items of one agent by number, with their bytes."""

    __slots__ = ("bytes", "items")

    def __init__(self) -> None:
        self.items: dict[int, TimelineItem] = {}
        self.bytes = 0

    def put(self, item: TimelineItem) -> None:
        former = self.items.get(item.seq)
        self.bytes += weight(item.data) - (weight(former.data) if former else 0)
        self.items[item.seq] = item

    def pop(self, seq: int) -> TimelineItem:
        item = self.items.pop(seq)
        self.bytes -= weight(item.data)
        return item


class ItemQueue:
    """Queue of items of all agents."""

    def __init__(self, limit: int = ITEMS_LIMIT, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._agents: dict[str, _AgentItems] = {}
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    def put(self, agent_id: str, items: Iterable[TimelineItem]) -> int:
        """Add items; return how many of all agents were dropped for them."""
        queue = self._agents.setdefault(agent_id, _AgentItems())
        self._account(queue, -1)
        for item in items:
            queue.put(item)
        self._account(queue, 1)
        return self._drop()

    def put_back(self, agent_id: str, items: Collection[TimelineItem]) -> int:
        """Add items that could not be written, unless newer ones are there; return as `put`."""
        former = self.take(agent_id)
        return self.put(agent_id, [*items, *former])

    def agents(self) -> list[str]:
        """Return the agents that have items, the one that has waited longest first."""
        return list(self._agents)

    def take(self, agent_id: str, limit: int | None = None) -> list[TimelineItem]:
        """Remove and return the oldest items of an agent. If some stay, all other agents come before it."""
        queue = self._agents.pop(agent_id, None)
        if queue is None:
            return []
        self._account(queue, -1)
        taken = [queue.pop(seq) for seq in sorted(queue.items)[:limit]]
        if queue.items:
            self._agents[agent_id] = queue
            self._account(queue, 1)
        return taken

    def _account(self, queue: _AgentItems, sign: int) -> None:
        self._count += sign * len(queue.items)
        self._bytes += sign * queue.bytes

    def _drop(self) -> int:
        dropped = 0
        while self._count > self._limit or (self._bytes > self._limit_bytes and self._count > 1):
            # An agent with one item has nothing to give.
            queues = [queue for queue in self._agents.values() if len(queue.items) > 1]
            if not queues:
                break
            queue = max(queues, key=lambda queue: (queue.bytes, len(queue.items)))
            self._account(queue, -1)
            dropped += _drop_half(queue)
            self._account(queue, 1)
        return dropped


def _drop_half(queue: _AgentItems) -> int:
    """Replace the older half of the items by one that says so; return how many were dropped now."""
    seqs = sorted(queue.items)
    victims = [queue.pop(seq) for seq in seqs[: max(2, len(seqs) // 2)]]
    former = [item.data["missing"] for item in victims if "missing" in item.data]
    dropped = len(victims) - len(former)
    missing = dropped + sum(former)
    text = f"{missing} entries are missing here: they came faster than the disk could take them"
    queue.put(TimelineItem(victims[-1].seq, "system", victims[-1].at, {"text": text, "missing": missing}))
    return dropped

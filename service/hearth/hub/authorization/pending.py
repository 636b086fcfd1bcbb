"""Table of everything that waits for a lead or a person: approvals, and later questions of servers and agents.

An item is settled once; its waiters are woken, and so are those that wait for a change of the table. Memory only; does
no I/O and knows nothing of what the items mean.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from hearth.errors import NoRoom

# A client that has this many open requests is in a loop; a person would not read more of them.
ITEMS_PER_PRINCIPAL = 20
# All principals together: a person would not read more of them either.
ITEMS_LIMIT = 1000
# Items keep arguments in memory, for up to an hour.
BYTES_LIMIT = 64 * 1024 * 1024
_ID_BYTES = 4


class Settlement(NamedTuple):
    """End of an item. `verdict` is `approved`, `denied`, `expired` or `withdrawn`."""

    verdict: str
    reason: str = ""
    decided_by: str = ""
    channel: str = ""


class PendingItem:
    """Request that waits for a decision. `principal` is the one that asks, `expires` a Unix time, `size` in bytes."""

    kind = "item"

    def __init__(self, principal: str, expires: float) -> None:
        self.id = os.urandom(_ID_BYTES).hex()
        self.principal = principal
        self.created = time.time()
        self.expires = expires
        self.size = 0
        self.outcome: Settlement | None = None
        self._waiters: set[asyncio.Future[Settlement]] = set()

    @property
    def is_awaited(self) -> bool:
        """Whether a call still waits for the outcome."""
        return bool(self._waiters)

    async def wait(self, seconds: float) -> Settlement | None:
        """Return the outcome, or None if there is none within that time."""
        if self.outcome is not None:
            return self.outcome
        future: asyncio.Future[Settlement] = asyncio.get_running_loop().create_future()
        self._waiters.add(future)
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            return None
        finally:
            self._waiters.discard(future)

    def settle(self, outcome: Settlement) -> None:
        """Record the outcome and wake everyone who waits for it."""
        self.outcome = outcome
        for future in self._waiters:
            if not future.done():
                future.set_result(outcome)


class Pending:
    """Table of open items. `version` grows with every change."""

    def __init__(self) -> None:
        self._items: dict[str, PendingItem] = {}
        self._changed: set[asyncio.Future[None]] = set()
        self.version = 0

    def __iter__(self) -> Iterator[PendingItem]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def get(self, id: str) -> PendingItem | None:
        """Return the open item of that id."""
        return self._items.get(id)

    def add(self, item: PendingItem) -> None:
        """Add an item. Raises NoRoom if its principal, or all of them, have too many."""
        mine = sum(each.principal == item.principal for each in self._items.values())
        if mine >= ITEMS_PER_PRINCIPAL:
            raise NoRoom(f"{mine} requests of this client already wait for a decision; wait for those, then call again")
        if len(self._items) >= ITEMS_LIMIT:
            raise NoRoom(f"{ITEMS_LIMIT} requests already wait for a decision; `hearth approvals` lists them")
        if item.size and item.size + sum(each.size for each in self._items.values()) > BYTES_LIMIT:
            raise NoRoom(
                f"over {BYTES_LIMIT} bytes of requests would wait for a decision; `hearth approvals` lists them"
            )
        self._items[item.id] = item
        self.changed()

    def settle(self, item: PendingItem, outcome: Settlement) -> bool:
        """Settle an item and remove it; return False if it was settled before."""
        if self._items.pop(item.id, None) is None:
            return False
        item.settle(outcome)
        self.changed()
        return True

    def changed(self) -> None:
        """Wake everyone who waits for a change of the table, or of an item in it."""
        self.version += 1
        waiting, self._changed = self._changed, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait_for_change(self, seconds: float) -> None:
        """Return with the next change, or after that time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            self._changed.discard(future)

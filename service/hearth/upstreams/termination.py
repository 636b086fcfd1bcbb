"""Conversations that are over or about to be: seen to their end, one at a time before the next may begin.

What is lost may live on for a while, and be silent about its end for longer: both are waited for, the first by whoever
starts another, the second by nobody.
"""

import asyncio
import logging
from collections.abc import Callable

from hearth.upstreams.connection import Connection

log = logging.getLogger(__name__)


class Terminations:
    """Those of one instance. `gone` is told when nothing is left of the one that was parted with last."""

    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone
        # The one that has to be gone before another may be started.
        self.current: Connection | None = None
        # All that have not said yet that they are over; True: that ended by itself.
        self._silent: dict[Connection, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def part(self, connection: Connection, by_itself: bool) -> None:
        """Nobody talks with it any more."""
        self.current = connection
        self._silent[connection] = by_itself

    def hasten(self, connection: Connection) -> None:
        """End it, by the bounded sequence."""
        task = asyncio.create_task(self._stop(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, connection: Connection) -> None:
        try:
            await connection.stop()
        except Exception:
            # Whoever waits for the next one must not wait for ever.
            log.exception("internal error at the end of a conversation", extra={"upstream": connection.name})
        self.left(connection)

    def closed(self, connection: Connection) -> bool | None:
        """It says that it is over. Whether it ended by itself; None where it was not parted with, or has said so."""
        return self._silent.pop(connection, None)

    def left(self, connection: Connection) -> None:
        """Nothing is left of it."""
        if connection is self.current:
            self.current = None
            self._gone()

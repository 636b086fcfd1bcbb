"""What waits to be written to one client. A slow reader stalls nobody: it loses notices first, then its connection.

Answers are kept up to a limit, and one message is always accepted into an empty queue, whatever its size.
"""

import asyncio
import logging
import os
from typing import cast

from hearth.daemon.counters import COUNTERS
from hearth.faults import SEAMS
from hearth.host import connections
from hearth.write_batch import BufferedWriter

log = logging.getLogger(__name__)

# Beyond this the transport asks for a pause; notices are held back or dropped from then on.
CONGESTED_BYTES = 256 * 1024
# Between two looks at whether a slow reader has caught up. Only followers of events wait so.
DRAIN_POLL_SECONDS = 0.05


class Outbox(BufferedWriter):
    """The writing side of a connection."""

    __slots__ = ("_congested", "_held", "_limit", "_name")

    def __init__(self, transport: asyncio.Transport, limit: int, name: str) -> None:
        transport.set_write_buffer_limits(high=CONGESTED_BYTES)
        super().__init__(transport)
        self._limit = limit
        self._name = name
        self._congested = False
        # One notice per topic, the newest, to be sent when there is room again.
        self._held: dict[str, bytes] = {}

    def write(self, data: bytes) -> None:
        """Queue what must arrive; a reader that is too far behind is cut off instead."""
        transport = self.transport
        waiting = self._size + transport.get_write_buffer_size()
        if waiting and waiting + len(data) > self._limit:
            if not transport.is_closing():
                log.warning(
                    "%s does not read: %d bytes wait for it (outbound_limit %d); its connection is dropped",
                    self._name, waiting, self._limit,
                )  # fmt: skip
                COUNTERS.readers_dropped += 1
                transport.abort()
            return
        if SEAMS and not waiting:
            middle = len(data) // 2 if SEAMS.armed("mid-write") else 0
            os.write(transport.get_extra_info("socket").fileno(), data[:middle])
            SEAMS.hit("mid-write")
            data = data[middle:]
        BufferedWriter.write(self, data)

    def write_notice(self, data: bytes, topic: str | None) -> None:
        """Queue what may be dropped; of several on one topic the newest is enough."""
        if not self._congested:
            self.write(data)
        elif topic is not None:
            self._held[topic] = data

    def write_now(self, data: bytes) -> None:
        """Hand bytes to the kernel before anything else happens; only for the first words on a fresh connection."""
        connections.write_now(self.transport, data)

    async def drained(self) -> None:
        """Wait until the reader is no longer behind; for senders of data that has a queue of its own."""
        while self._congested:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def paused(self) -> None:
        """The reader is behind."""
        self._congested = True

    def resumed(self) -> None:
        """The reader has caught up."""
        self._congested = False
        held, self._held = self._held, {}
        for data in held.values():
            self.write(data)

    def owes(self) -> bool:
        """Whether the kernel has not taken everything yet."""
        return bool(self._held) or self.waiting() > 0

    def reader_left(self) -> bool:
        """Whether nobody is there any longer who could read it."""
        return connections.reader_left(self.transport)

    def abort(self) -> None:
        """Close now: who has not read by now does not."""
        cast(asyncio.Transport, self.transport).abort()

    def close(self) -> None:
        """Close after everything queued has been taken."""
        self.flush()
        self.transport.close()

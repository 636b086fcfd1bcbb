"""Output queue of one client. A slow reader stalls no other: it loses notices first, then its connection.

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

# Above this size the transport pauses writing; notices are held back or dropped from then on.
CONGESTED_BYTES = 256 * 1024
# Interval of the check whether a slow reader has caught up. Only followers of events wait like this.
DRAIN_POLL_SECONDS = 0.05


class Outbox(BufferedWriter):
    """Writing side of a connection."""

    __slots__ = ("_congested", "_held", "_limit", "_name")

    def __init__(self, transport: asyncio.Transport, limit: int, name: str) -> None:
        transport.set_write_buffer_limits(high=CONGESTED_BYTES)
        super().__init__(transport)
        self._limit = limit
        self._name = name
        self._congested = False
        # The newest notice of each topic, sent when there is room again.
        self._held: dict[str, bytes] = {}

    def write(self, data: bytes) -> None:
        """Queue data that must arrive; a reader that is too far behind loses its connection instead."""
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
        """Queue a notice that may be dropped; of several on one topic the newest is enough."""
        if not self._congested:
            self.write(data)
        elif topic is not None:
            self._held[topic] = data

    def write_now(self, data: bytes) -> None:
        """Hand bytes to the kernel before anything else happens; only for the first write on a new connection."""
        connections.write_now(self.transport, data)

    async def drained(self) -> None:
        """Wait until the reader is no longer behind; for senders of data that has a queue of its own."""
        while self._congested:
            await asyncio.sleep(DRAIN_POLL_SECONDS)

    def paused(self) -> None:
        """Note that the reader is behind."""
        self._congested = True

    def resumed(self) -> None:
        """Send the held notices: the reader has caught up."""
        self._congested = False
        held, self._held = self._held, {}
        for data in held.values():
            self.write(data)

    def owes(self) -> bool:
        """Tell whether there is data that the kernel has not taken yet."""
        return bool(self._held) or self.waiting() > 0

    def reader_left(self) -> bool:
        """Tell whether the reader has gone."""
        return connections.reader_left(self.transport)

    def abort(self) -> None:
        """Close now: a client that has not read by now will not."""
        cast(asyncio.Transport, self.transport).abort()

    def close(self) -> None:
        """Close after the client has taken everything that is queued."""
        self.flush()
        self.transport.close()

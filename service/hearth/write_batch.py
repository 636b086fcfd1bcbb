"""Writes gathered while one read is being handled, and handed to the kernel together at its end.

uvloop hands every write to the kernel at once: a client that pipelines a thousand calls would cost a thousand system
calls toward the server and a thousand back. A turn is the handling of one read; outside of a turn a write goes straight
to the transport.
"""

import asyncio

# Enough to save the calls, little enough that the reader begins while the rest of the turn is still being handled.
FLUSH_BYTES = 16 * 1024


class WriteBatch:
    """The read that is being handled, if any; one per process, as the loop is."""

    __slots__ = ("_dirty", "active")

    def __init__(self) -> None:
        self.active = False
        self._dirty: list[BufferedWriter] = []

    def begin(self) -> None:
        """A read is being handled."""
        self.active = True

    def join(self, gathered: "BufferedWriter") -> None:
        """Something was written that the end of the turn has to flush."""
        self._dirty.append(gathered)

    def end(self) -> None:
        """The read has been handled."""
        self.active = False
        for gathered in self._dirty:
            gathered.flush()
        self._dirty.clear()


WRITE_BATCH = WriteBatch()


class BufferedWriter:
    """The writing side of a transport."""

    __slots__ = ("_parts", "_size", "transport")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        self._parts: list[bytes] = []
        self._size = 0

    def waiting(self) -> int:
        """How many bytes the kernel has not taken yet."""
        return self._size + self.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write now, or at the end of the turn."""
        if not WRITE_BATCH.active:
            self.transport.write(data)
            return
        if not self._parts:
            WRITE_BATCH.join(self)
        self._parts.append(data)
        self._size += len(data)
        if self._size > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand over what was gathered."""
        parts = self._parts
        if parts:
            self.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            self._parts = []
            self._size = 0

"""Batches of writes: collected while one read is handled, and passed to the kernel together at its end.

uvloop passes every write to the kernel at once: a client that pipelines a thousand calls would cost a thousand system
calls toward the server and a thousand back. A batch lasts for the handling of one read; outside of a batch, a write
goes straight to the transport.
"""

import asyncio

# Large enough to save system calls, small enough that the reader starts while the rest of the read is handled.
FLUSH_BYTES = 16 * 1024


class WriteBatch:
    """Batch of the read that is being handled, if any; one per process, like the event loop."""

    __slots__ = ("_dirty", "active")

    def __init__(self) -> None:
        self.active = False
        self._dirty: list[BufferedWriter] = []

    def begin(self) -> None:
        """Start a batch: a read is being handled."""
        self.active = True

    def join(self, gathered: "BufferedWriter") -> None:
        """Add a writer that the end of the batch has to flush."""
        self._dirty.append(gathered)

    def end(self) -> None:
        """End the batch, and flush its writers: the read has been handled."""
        self.active = False
        for gathered in self._dirty:
            gathered.flush()
        self._dirty.clear()


WRITE_BATCH = WriteBatch()


class BufferedWriter:
    """Writer to a transport that buffers during a batch."""

    __slots__ = ("_parts", "_size", "transport")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        self._parts: list[bytes] = []
        self._size = 0

    def waiting(self) -> int:
        """Return the number of bytes that the kernel has not accepted yet."""
        return self._size + self.transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write now, or at the end of the batch."""
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
        """Pass the buffered bytes to the transport."""
        parts = self._parts
        if parts:
            self.transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
            self._parts = []
            self._size = 0

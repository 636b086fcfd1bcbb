"""Outgoing side of a connection: the transport that uvicorn writes to, and its close while a client still sends."""

import asyncio
from collections.abc import Callable
from typing import Any

# Time for a client that gets an answer while it sends: closing at once would destroy data that it has not read yet
# (RFC 9112, 9.6). A client that reads only after it has sent everything needs this time, mostly on this machine.
LINGER_SECONDS = 2.0
# Beyond the largest message: a client that is a little over the limit must still receive the error.
LINGER_BYTES = 16 * 1024 * 1024


class Outgoing(asyncio.Transport):
    """Transport that uvicorn writes to. Related writes are held back and sent together.

    uvicorn writes the head of a response and its body one after the other; each would cost a system call here, and a
    wake-up of the client. `may_hear` returns how many bytes of a client that is still sending may be discarded at the
    end; 0 for one that is not sending.
    """

    def __init__(self, transport: asyncio.Transport, may_hear: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._transport = transport
        self._may_hear = may_hear
        self._held: list[bytes] | None = None
        # Set while the last data is written and further data of the client is discarded; and how much of it may come.
        self._lingering: asyncio.TimerHandle | None = None
        self._bytes_left = 0

    def hold(self) -> None:
        """Hold back all writes until `release`."""
        self._held = []

    def release(self) -> None:
        """Write the data that was held back, in one write."""
        held, self._held = self._held, None
        if held:
            self._transport.write(b"".join(held))

    def write(self, data: Any) -> None:
        if self._lingering:
            return
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        """Close after the last write; a client that is still sending gets time to finish (LINGER_SECONDS)."""
        if self._lingering:
            return
        self.release()
        self._bytes_left = self._may_hear()
        if self._bytes_left and not self._transport.is_closing() and self._transport.can_write_eof():
            self._transport.write_eof()
            self._transport.resume_reading()
            self._lingering = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    @property
    def is_lingering(self) -> bool:
        """Whether further incoming data is discarded."""
        return self._lingering is not None

    def pass_over(self, size: int) -> None:
        """Count discarded data of a lingering connection, and close it if there is too much."""
        self._bytes_left -= size
        if self._bytes_left < 0:
            self.finish()

    def finish(self) -> None:
        """Close without lingering."""
        if self._lingering:
            self._lingering.cancel()
        self.release()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self.is_lingering or self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

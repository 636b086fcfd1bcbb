"""Both sides of an HTTP connection: incoming data, one request at a time, and the transport that uvicorn writes to.

The parser gets the next request when the last one is answered: it cannot be stopped in the middle of its input, and
parsed requests take a hundred times the memory of the input.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any

# Limit of the data held back behind an unanswered request; reading pauses above it. This is enough for hundreds of
# requests, and MCP clients send none ahead. Only a connection that is read shows that its client has disconnected.
HELD_LIMIT_BYTES = 64 * 1024

# The end of headers, and of a chunked body.
_END = b"\r\n\r\n"
# Ignored before a request.
_EMPTY_LINES = re.compile(rb"[\r\n]+")


class Pieces:
    """Splitter that finds the ends of requests. `body_left` is the missing part of a body of declared length."""

    def __init__(self) -> None:
        self.body_left = 0
        # The last bytes of an incomplete piece: the end marker may be split between reads.
        self._tail = b""

    def end(self, data: bytes, start: int) -> int:
        """Return the end of the piece that begins at `start`. The end of a request is always the end of a piece.

        The reverse is not true: a request may consist of several pieces.
        """
        if self.body_left:
            size = min(self.body_left, len(data) - start)
            self.body_left -= size
            return start + size
        if self._tail:
            seam = (self._tail + data[start : start + 3]).find(_END)
            if seam >= 0:
                end = start + seam + len(_END) - len(self._tail)
                self._tail = b""
                return end
        elif empty := _EMPTY_LINES.match(data, start):
            return empty.end()
        found = data.find(_END, start)
        if found >= 0:
            self._tail = b""
            return found + len(_END)
        self._tail = (self._tail + data[max(start, len(data) - 3) :])[-3:]
        return len(data)


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

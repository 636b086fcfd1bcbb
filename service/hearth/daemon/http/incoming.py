"""What comes from a client, one request at a time: the parser is given the next when the one before it is answered.

It cannot be stopped in the middle of what it is given, and whatever it finds there takes a hundred times the memory.
"""

import re

from uvicorn.protocols.http.flow_control import FlowControl

# What has come behind a request that is not answered yet, before no more is read: hundreds of requests, where clients
# of MCP send none. Who has gone is noticed as long as it is read.
HELD_LIMIT_BYTES = 64 * 1024

# Behind headers, and behind a body that comes in chunks.
_END = b"\r\n\r\n"
# Before a request, where they mean nothing.
_EMPTY_LINES = re.compile(rb"[\r\n]+")


class Inflow(FlowControl):
    """While more is held back than there is to be, nobody reads on."""

    _is_full = False

    def hold(self, size: int) -> None:
        """So much is held back from now on."""
        self._is_full = size > HELD_LIMIT_BYTES
        if self._is_full:
            self.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_full:
            super().resume_reading()


class Pieces:
    """Where a request ends within what has come. `body_left`: how much of a body of declared length is yet to come."""

    def __init__(self) -> None:
        self.body_left = 0
        # The last of what had no end yet, which may end with what comes next.
        self._tail = b""

    def end(self, data: bytes, start: int) -> int:
        """The end of the piece that begins there. Where a request ends, a piece does; not the other way round."""
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

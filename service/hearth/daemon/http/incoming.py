"""Incoming data of a client, one request at a time: the parser gets the next request when the last one is answered.

The parser cannot be stopped in the middle of its input, and parsed requests take a hundred times the memory of the
input.
"""

import re

from uvicorn.protocols.http.flow_control import FlowControl

# Limit of the data held back behind an unanswered request; reading pauses above it. This is enough for hundreds of
# requests, and MCP clients send none ahead. Only a connection that is read shows that its client has disconnected.
HELD_LIMIT_BYTES = 64 * 1024

# The end of headers, and of a chunked body.
_END = b"\r\n\r\n"
# Ignored before a request.
_EMPTY_LINES = re.compile(rb"[\r\n]+")


class Inflow(FlowControl):
    """Flow control that pauses reading while too much data is held back."""

    _is_full = False

    def hold(self, size: int) -> None:
        """Set the size of the data that is held back."""
        self._is_full = size > HELD_LIMIT_BYTES
        if self._is_full:
            self.pause_reading()

    def resume_reading(self) -> None:
        if not self._is_full:
            super().resume_reading()


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

"""Where a request ends within what has come: the parser is given one at a time, and the next when that is answered.

It cannot be stopped in the middle of what it is given, and whatever it finds there takes a hundred times the memory.
"""

import re

# Behind headers, and behind a body that comes in chunks.
_END = b"\r\n\r\n"
# Before a request, where they mean nothing.
_EMPTY_LINES = re.compile(rb"[\r\n]+")


class Pieces:
    """`body_left` is how much of a body of declared length is still to come."""

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

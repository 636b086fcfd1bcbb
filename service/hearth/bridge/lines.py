"""Cuts the client's byte stream into lines. No I/O; what a line means is the daemon's business."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# The id of a request stands in its first or last bytes; between them is what made it large.
HEAD_BYTES = 4096
TAIL_BYTES = 1024


class LineSplitter:
    """Turns chunks into lines, whatever the chunks' borders. Lines over the limit are skipped, noted in `oversize`."""

    __slots__ = ("_head", "_limit", "_parts", "_size", "_tail", "oversize")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Of the line that has not ended: joined once, at its end.
        self._parts: list[bytes] = []
        self._size = 0
        # Of a line that is being skipped; empty when none is.
        self._head = b""
        self._tail = b""
        # (first bytes, last bytes) of each line that was skipped, for whoever answers it.
        self.oversize: list[tuple[bytes, bytes]] = []

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take bytes; return the lines they complete, without line ends and without blank ones."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and (self._parts or self._head):
            self._hold(lines[0])
            lines[0] = self._take()
        if rest:
            self._hold(rest)
        return self._clean(lines)

    def receive_eof(self) -> list[bytes]:
        """Tell that the stream ended; the last line needs no line end."""
        return self._clean([self._take()])

    def _clean(self, lines: "Iterable[bytes]") -> list[bytes]:
        kept = []
        for line in lines:
            if line[-1:] == b"\r":
                line = line[:-1]
            if not line or line.isspace():
                continue
            if len(line) > self._limit:
                self.oversize.append((line[:HEAD_BYTES], line[-TAIL_BYTES:]))
                continue
            kept.append(line)
        return kept

    def _hold(self, part: bytes) -> None:
        if self._head:
            self._tail = (self._tail + part)[-TAIL_BYTES:]
            return
        self._parts.append(part)
        self._size += len(part)
        # One more byte than the limit: it may be the carriage return.
        if self._size > self._limit + 1:
            line = b"".join(self._parts)
            self._head, self._tail = line[:HEAD_BYTES], line[-TAIL_BYTES:]
            self._parts.clear()
            self._size = 0

    def _take(self) -> bytes:
        if self._head:
            self.oversize.append((self._head, self._tail.rstrip()))
            self._head = self._tail = b""
            return b""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line

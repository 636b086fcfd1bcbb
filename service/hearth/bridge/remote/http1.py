"""HTTP/1.1 as a client has it: requests to bytes, bytes to responses. No I/O.

A response is fed as it comes; its head is there as soon as it is whole, its body in pieces. Everything has a limit: who
is at the other end is not known.
"""

from hearth.errors import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Far more than a server sends that means well.
HEAD_LIMIT_BYTES = 64 * 1024
_LINE_LIMIT_BYTES = 1024
# Where a response is: in its head, its body or a chunk of it, before the size of a chunk, behind one, behind the last.
_HEAD, _BODY, _SIZE, _CHUNK_END, _TRAILER = range(5)
_HEX = frozenset(b"0123456789abcdefABCDEF")


def request(method: str, path: str, headers: "Iterable[tuple[str, str]]", body: bytes) -> bytes:
    """A request. Header values are Latin-1: the id of a stream's last event may be any bytes. Raises ValueError."""
    lines = [f"{method} {path} HTTP/1.1"]
    for name, value in headers:
        if "\r" in value or "\n" in value or "\0" in value:
            raise ValueError(f"the header {name} has a line end in it")
        lines.append(f"{name}: {value}")
    if method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Head:
    """Status and headers. Their names are in lower case."""

    __slots__ = ("headers", "reason", "status", "version")

    def __init__(self, data: bytes) -> None:
        """Raises WireError for what is no head."""
        first, *lines = data.decode("latin-1").split("\n")
        words = first.strip().split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not (len(words[1]) == 3 and words[1].isdigit()):
            raise WireError(f"what it answers is no HTTP: {first[:80]!r}")
        self.version = words[0]
        self.status = int(words[1])
        self.reason = words[2].strip() if len(words) > 2 else ""
        self.headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                name, value = name.strip().lower(), value.strip()
                self.headers[name] = f"{self.headers[name]}, {value}" if name in self.headers else value

    @property
    def content_type(self) -> str:
        """The type of the body, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def keeps(self) -> bool:
        """Whether the server goes on with this connection."""
        said = self.headers.get("connection", "").lower()
        return "keep-alive" in said if self.version == "HTTP/1.0" else "close" not in said


class ResponseParser:
    """One response. `head` is None until it is whole; `done` when the body is, too."""

    __slots__ = ("_buffer", "_left", "_step", "done", "head")

    def __init__(self) -> None:
        self.head: Head | None = None
        self.done = False
        self._buffer = bytearray()
        self._step = _HEAD
        # Bytes of the body, or of the chunk, that are to come. None: until the connection ends.
        self._left: int | None = 0

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take bytes; return pieces of the body. Raises WireError."""
        self._buffer += data
        pieces: list[bytes] = []
        while not self.done and self._advance(pieces):
            pass
        return pieces

    def receive_eof(self) -> bool:
        """The connection has ended; whether the response is whole."""
        if self._step == _BODY and self._left is None:
            self.done = True
        return self.done

    @property
    def may_keep(self) -> bool:
        """Whether another request may be sent on the same connection."""
        return self.done and not self._buffer and self.head is not None and self.head.keeps and self._left is not None

    def _advance(self, pieces: list[bytes]) -> bool:
        """One step; whether there may be another."""
        if self._step == _HEAD:
            return self._take_head()
        if self._step == _BODY:
            return self._take_body(pieces)
        line = self._take_line()
        if line is None:
            return False
        if self._step == _SIZE:
            self._begin_chunk(line)
        elif self._step == _TRAILER:
            self.done = not line
        elif line:
            raise WireError("its answer has a chunk that is longer than it said")
        else:
            self._step = _SIZE
        return True

    def _take_head(self) -> bool:
        # Some begin with an empty line, which belongs to what was before.
        while self._buffer[:2] == b"\r\n":
            del self._buffer[:2]
        ends = [(at, size) for end, size in ((b"\r\n\r\n", 4), (b"\n\n", 2)) if (at := self._buffer.find(end)) >= 0]
        if not ends:
            if len(self._buffer) > HEAD_LIMIT_BYTES:
                raise WireError(f"its answer has headers over the limit of {HEAD_LIMIT_BYTES} bytes")
            return False
        at, size = min(ends)
        head = Head(bytes(self._buffer[:at]))
        del self._buffer[: at + size]
        # 100, 102 and 103 come before the answer; 101 was not asked for.
        if 100 <= head.status < 200:
            return True
        self.head = head
        self._begin_body(head)
        return True

    def _begin_body(self, head: Head) -> None:
        coding = head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        if head.status in (204, 205, 304):
            self.done = True
        elif coding:
            if coding != "chunked":
                raise WireError(f"its answer is coded as {coding!r}, which nobody asked for")
            self._step = _SIZE
        elif length is not None:
            # Two headers that say the same are one.
            values = {value.strip() for value in length.split(",")}
            value = values.pop()
            if values or not (value.isascii() and value.isdigit() and len(value) < 20):
                raise WireError(f"its answer has the length {length[:40]!r}")
            self._step, self._left = _BODY, int(value)
            self.done = self._left == 0
        else:
            self._step, self._left = _BODY, None

    def _take_body(self, pieces: list[bytes]) -> bool:
        if not self._buffer:
            return False
        size = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
        pieces.append(bytes(self._buffer[:size]))
        del self._buffer[:size]
        if self._left is None:
            return False
        self._left -= size
        if self._left:
            return False
        assert self.head is not None
        if "transfer-encoding" in self.head.headers:
            self._step = _CHUNK_END
        else:
            self.done = True
        return True

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end < 0 or end > _LINE_LIMIT_BYTES:
            if len(self._buffer) > _LINE_LIMIT_BYTES:
                raise WireError("its answer is not chunked as HTTP has it")
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        return line

    def _begin_chunk(self, line: bytes) -> None:
        size = line.partition(b";")[0].strip()
        if not size or len(size) > 16 or not _HEX.issuperset(size):
            raise WireError("its answer is not chunked as HTTP has it")
        self._left = int(size, 16)
        self._step = _BODY if self._left else _TRAILER

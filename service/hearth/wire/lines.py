"""Lines: one JSON-RPC message per line, or pretty-printed over several.

`LineDecoder` takes chunks of a byte stream, `Assembler` takes lines that somebody else has cut (each frame holds
one). Both give items: a `Message`, or the error that stands for what could not be read (`MessageError`,
`TooLarge`), after which the stream goes on. What is read is read once: a line is given to the parser, and only
what the parser refuses is looked at as a piece of something longer.
"""

from hearth.errors import MessageError, TooLarge, WireError
from hearth.wire.json import PARSE_ERROR, Message, parse
from hearth.wire.scan import JsonError, Scanner

Item = Message | WireError


class Assembler:
    """Turns lines into messages. A message may span lines; a line that is a whole message ends what was unfinished."""

    __slots__ = ("_limit", "_pieces", "_scanner", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._reset()

    def _reset(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._scanner = Scanner()

    @property
    def pending(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._pieces)

    def receive_line(self, line: bytes) -> list[Item]:
        """Take one line without its end; return what it completes. An empty list: blank, or a piece of a message."""
        if not self._pieces:
            try:
                return [parse(line)]
            except MessageError as exc:
                return self._begin(line, exc)
        return self._go_on(line)

    def _begin(self, line: bytes, error: MessageError) -> list[Item]:
        if not line or line.isspace():
            return []
        if error.rpc_code == PARSE_ERROR and line.lstrip()[:1] in (b"{", b"["):
            scanner = Scanner()
            try:
                scanner.receive_data(line)
            except JsonError:
                return [error]
            if not scanner.complete:
                self._scanner, self._pieces, self._size = scanner, [line], len(line)
                return self._too_large()
        return [error]

    def _go_on(self, line: bytes) -> list[Item]:
        stripped = line.strip()
        if not stripped:
            return []
        if stripped[0] == 123 and stripped[-1] == 125:
            try:
                whole = parse(line)
            except MessageError:
                pass
            else:
                return [*self.receive_eof(), whole]
        try:
            position = self._scanner.receive_data(line)
        except JsonError:
            position = -1
        self._pieces.append(line)
        self._size += len(line) + 1
        if position == -1 or (self._scanner.complete and position != len(line)):
            return self._break_off(line)
        return self._finish() if self._scanner.complete else self._too_large()

    def _break_off(self, line: bytes) -> list[Item]:
        """The line does not fit what was begun: one error for both, unless the line begins something itself."""
        self._reset()
        error = MessageError("the lines do not make one JSON message", PARSE_ERROR)
        items = self._begin(line, error)
        return items if items else [error]

    def _finish(self) -> list[Item]:
        line = b" ".join(self._pieces)
        self._reset()
        try:
            return [parse(line)]
        except MessageError as exc:
            return [exc]

    def _too_large(self) -> list[Item]:
        if self._size <= self._limit:
            return []
        self._reset()
        return [too_large(self._limit)]

    def receive_eof(self) -> list[Item]:
        """Tell that nothing follows: what was unfinished becomes an error."""
        if not self._pieces:
            return []
        self._reset()
        return [MessageError("a message was begun and not finished: its brackets do not close", PARSE_ERROR)]


class LineDecoder:
    """Turns chunks of a byte stream into messages, whatever the chunks' borders."""

    __slots__ = ("_assembler", "_limit", "_pieces", "_size", "_skipping")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._assembler = Assembler(limit)
        self._pieces: list[bytes] = []  # of the line that has not ended; joined once, at its end
        self._size = 0
        self._skipping = False

    def receive_data(self, data: bytes) -> list[Item]:
        """Take bytes; return what they complete, in order. Nothing is raised: errors are items."""
        lines = data.split(b"\n")
        rest = lines.pop()
        items: list[Item] = []
        for line in lines:
            if self._pieces or self._skipping:
                line = self._end_of_line(line)
            if len(line) > self._limit:
                items.append(too_large(self._limit))
                continue
            if line[-1:] == b"\r":
                line = line[:-1]
            items += self._assembler.receive_line(line)
        if rest:
            self._keep(rest, items)
        return items

    def _end_of_line(self, line: bytes) -> bytes:
        if self._skipping:
            line = b""
        else:
            self._pieces.append(line)
            line = b"".join(self._pieces)
        self._pieces, self._size, self._skipping = [], 0, False
        return line

    def _keep(self, rest: bytes, items: list[Item]) -> None:
        if self._skipping:
            return
        self._pieces.append(rest)
        self._size += len(rest)
        if self._size > self._limit:
            self._pieces, self._size, self._skipping = [], 0, True
            items.append(too_large(self._limit))

    def receive_eof(self) -> list[Item]:
        """Tell that the stream ended; return the last line, which needs no line end, or an error for a piece."""
        line = self._end_of_line(b"")
        return self._assembler.receive_line(line.rstrip(b"\r")) + self._assembler.receive_eof()


def too_large(limit: int) -> TooLarge:
    """The error for a message over the limit."""
    return TooLarge(f"a message is over the limit of {limit} bytes (message_limit); it was skipped")

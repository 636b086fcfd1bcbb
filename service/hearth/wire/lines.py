"""Lines: one JSON-RPC message per line, or pretty-printed over several.

`LineDecoder` takes chunks of a byte stream; `Assembler` takes lines that somebody else has cut (each frame
holds one). Both give items: a `Message`, or the error that stands for what could not be read, after which the
stream goes on. A line is given to the parser as it is, and only what the parser refuses is looked at as a
piece of something longer: the usual line costs nothing beyond its parsing.
"""

from hearth.errors import MessageError, TooLarge
from hearth.wire.json import PARSE_ERROR, Message, parse
from hearth.wire.scan import JsonError, Scanner

Item = Message | MessageError | TooLarge

_SPACE = b" \t\r\n"
_CARRIAGE_RETURN = b"\r"[0]


class Assembler:
    """Turns lines into messages.

    A message may span lines: they are joined until its brackets close. A line that is a whole message by
    itself ends what was unfinished, so that one broken message cannot swallow those behind it.
    """

    __slots__ = ("_limit", "_pieces", "_scanner", "_size")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scanner: Scanner | None = None  # set while a message is unfinished
        self._pieces: list[bytes] | None = []  # None while a message over the limit is passed over
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._scanner is not None

    def receive_line(self, line: bytes) -> list[Item]:
        """Take one line; return what it completes: nothing for a blank line or a piece of a message."""
        if self._scanner is not None:
            return self._continue(self._scanner, line)
        try:
            return [parse(line)]
        except MessageError as exc:
            return self.receive_refused(line, exc)

    def receive_refused(self, line: bytes, error: MessageError) -> list[Item]:
        """Take a line, the first of a message, that the parser refused with this error."""
        start = line.lstrip(_SPACE)[:1]
        if not start:
            return []
        if error.rpc_code != PARSE_ERROR or start not in (b"{", b"["):
            return [error]
        scanner = Scanner()
        try:
            scanner.receive_data(line)
        except JsonError:
            return [error]
        if scanner.complete:
            return [error]
        self._scanner = scanner
        return self._keep(line)

    def receive_oversize(self) -> TooLarge:
        """Tell that a line over the limit was left out. What it was a piece of must not be joined without it."""
        self._reset()
        return self._too_large()

    def receive_eof(self) -> list[Item]:
        """Tell that no line follows; return an error for what was unfinished."""
        return self._give_up("a message was begun and not finished: its brackets do not close")

    def _continue(self, scanner: Scanner, line: bytes) -> list[Item]:
        stripped = line.strip(_SPACE)
        if not stripped:
            return []
        if stripped.startswith(b"{") and stripped.endswith(b"}"):
            try:
                whole = parse(line)
            except MessageError:
                pass  # a piece may look like an object too
            else:
                return [*self.receive_eof(), whole]
        try:
            scanner.receive_data(line)
        except JsonError as exc:
            return self._break_off(line, f"the lines are not one JSON message: {exc} of the last")
        return self._finish(line) if scanner.complete else self._keep(line)

    def _keep(self, line: bytes) -> list[Item]:
        if self._pieces is None:
            return []
        self._pieces.append(line)
        self._size += len(line) + 1
        if self._size <= self._limit + 1:
            return []
        self._pieces = None
        return [self._too_large()]

    def _finish(self, line: bytes) -> list[Item]:
        overflow = self._keep(line)
        pieces = self._pieces
        self._reset()
        if pieces is None:
            return overflow
        try:
            return [parse(b" ".join(pieces))]
        except MessageError as exc:
            return [exc]

    def _break_off(self, line: bytes, reason: str) -> list[Item]:
        """The line does not fit what was begun: one error for both, unless it begins something itself."""
        items = self._give_up(reason)
        error = MessageError(reason, PARSE_ERROR)
        begun = self.receive_refused(line, error)
        return items + [item for item in begun if item is not error]

    def _give_up(self, reason: str) -> list[Item]:
        is_owed = self._scanner is not None and self._pieces is not None
        self._reset()
        return [MessageError(reason, PARSE_ERROR)] if is_owed else []

    def _too_large(self) -> TooLarge:
        return TooLarge(f"a message was skipped: it is over the limit of {self._limit} bytes (message_limit)")

    def _reset(self) -> None:
        self._scanner, self._pieces, self._size = None, [], 0


class LineDecoder:
    """Turns chunks of a byte stream into messages, whatever the chunks' borders."""

    __slots__ = ("_assembler", "_buffer", "_limit", "_skipping")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._assembler = Assembler(limit)
        self._buffer = bytearray()  # the line that has not ended
        self._skipping = False  # inside a line over the limit

    def receive_data(self, data: bytes) -> list[Item]:
        """Take bytes; return what they complete, in order. Nothing is raised: errors are items."""
        lines = data.split(b"\n")
        rest = lines.pop()
        items: list[Item] = []
        has_returns = _CARRIAGE_RETURN in data
        if lines and (self._buffer or self._skipping):
            lines[0] = self._end_line(lines[0])
            has_returns = True  # one may have come with the last chunk
        assembler, limit = self._assembler, self._limit
        for line in lines:
            if has_returns and line.endswith(b"\r"):
                line = line[:-1]
            if len(line) > limit:
                items.append(assembler.receive_oversize())
            elif assembler._scanner is not None:  # `pending`, without the cost of a property for each line
                items += assembler.receive_line(line)
            else:
                try:
                    items.append(parse(line))
                except MessageError as exc:
                    items += assembler.receive_refused(line, exc)
        if rest and not self._skipping:
            self._keep(rest, items)
        return items

    def receive_eof(self) -> list[Item]:
        """Tell that the stream ended; return the last line, which needs no end, or an error for a piece."""
        line = self._end_line(b"").removesuffix(b"\r")
        return self._assembler.receive_line(line) + self._assembler.receive_eof()

    def _end_line(self, line: bytes) -> bytes:
        """What is left of the unfinished line once its end is there; nothing, when it was over the limit."""
        if self._skipping:
            line = b""
        elif self._buffer:
            self._buffer += line
            line = bytes(self._buffer)
        self._buffer, self._skipping = bytearray(), False
        return line

    def _keep(self, rest: bytes, items: list[Item]) -> None:
        self._buffer += rest
        # The return of a line end that is still to come does not count.
        if len(self._buffer) > self._limit + self._buffer.endswith(b"\r"):
            self._buffer, self._skipping = bytearray(), True
            items.append(self._assembler.receive_oversize())

"""Lines: one JSON-RPC message per line, or pretty-printed over several.

`LineDecoder` takes chunks of a byte stream; `Assembler` takes lines that are already split (each frame holds
one). Both return items: a `Message`, or an error in place of an unreadable message, after which the stream
continues. An array of messages becomes a `Batch`, for callers that answer it as one, or its items one after the
other (`flatten`). A line goes to the parser unchanged; only a refused line is examined as an array or as a piece
of a longer message. The usual line costs nothing beyond its parsing.
"""

import re
from typing import Any, Generic, Literal, TypeVar, overload

from hearth.errors import MessageError, TooLarge
from hearth.wire.json import PARSE_ERROR, Batch, Message, parse, parse_batch
from hearth.wire.scan import JsonError, Scanner

Item = Message | MessageError | TooLarge
AnyItem = TypeVar("AnyItem", Item, Item | Batch)

# The id of a response is in its first or last bytes; the content that made it large is between them.
HEAD_BYTES = 4096
TAIL_BYTES = 1024
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"\s*'
_ID = rb'"id"\s*:\s*(-?[0-9]+|"[^"\\]*")\s*'
# The two usual orders of a response's fields. At the end, the only bracket of the object is the outermost one.
_ID_FIRST = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb',\s*"(?:result|error)"')
_ID_LATER = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb',\s*)?"(?:result|error)"\s*:')
_ID_LAST = re.compile(_ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")

# Bytes kept for the log of a line that is not a message: more than is shown, so that a secret at the cut is still
# recognized as a whole.
REFUSED_LINE_BYTES = 8192
_SPACE = b" \t\r\n"
_CARRIAGE_RETURN = b"\r"[0]


class Assembler(Generic[AnyItem]):
    """Assembler of lines into messages.

    A message may span lines: they are joined until its brackets close. A line that is a complete message by
    itself ends an unfinished one, so that a broken message cannot swallow the messages after it.
    """

    __slots__ = ("_flatten", "_is_batch", "_limit", "_pieces", "_scanner", "_size")

    @overload
    def __init__(self: "Assembler[Item]", limit: int, flatten: Literal[True] = True) -> None: ...
    @overload
    def __init__(self: "Assembler[Item | Batch]", limit: int, flatten: Literal[False]) -> None: ...
    @overload
    def __init__(self, limit: int, flatten: bool) -> None: ...
    def __init__(self, limit: int, flatten: bool = True) -> None:
        self._limit = limit
        self._flatten = flatten
        self._scanner: Scanner | None = None  # set while a message is unfinished
        self._pieces: list[bytes] | None = []  # None while a message over the limit is skipped
        self._size = 0
        self._is_batch = False  # the unfinished message is known to be an array with a message in it

    @property
    def pending(self) -> bool:
        """True while a message has begun and not ended."""
        return self._scanner is not None

    def receive_line(self, line: bytes) -> list[AnyItem]:
        """Take one line; return the items it completes: none for a blank line or a piece of a message."""
        if self._scanner is not None:
            return self._continue(self._scanner, line)
        try:
            return [parse(line)]
        except MessageError as exc:
            return self.receive_refused(line, exc)

    def receive_refused(self, line: bytes, error: MessageError) -> list[AnyItem]:
        """Take a line, the first of a message, that the parser for one message refused with this error."""
        start = line.lstrip(_SPACE)[:1]
        if not start:
            return []
        if start == b"[":
            try:
                return self._given(parse_batch(line))
            except MessageError as exc:
                error = exc if exc.rpc_code != PARSE_ERROR or error.rpc_code != PARSE_ERROR else error
        error.line = line[:REFUSED_LINE_BYTES]
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

    def receive_oversize(self, id: bytes | None = None) -> TooLarge:
        """Report that a line over the limit was left out, and drop the message that the line was a piece of."""
        self._reset()
        return self._too_large(id)

    def receive_eof(self) -> list[AnyItem]:
        """Report the end of the lines; return an error for an unfinished message."""
        return self._give_up("a message was begun and not finished: its brackets do not close")

    def _given(self, batch: Batch) -> list[Any]:
        return list(batch.items) if self._flatten else [batch]

    def _continue(self, scanner: Scanner, line: bytes) -> list[AnyItem]:
        stripped = line.strip(_SPACE)
        if not stripped:
            return []
        whole = self._whole(stripped)
        if whole and not self._has_room_for_a_message(scanner):
            return self.receive_eof() + whole
        try:
            scanner.receive_data(line)
        except JsonError as exc:
            return self._break_off(line, f"the lines are not one JSON message: {exc} of the last")
        return self._finish(line) if scanner.complete else self._keep(line)

    def _whole(self, stripped: bytes) -> list[AnyItem]:
        """Parse the line by itself; return no items unless it is a message: pieces may be objects and arrays too."""
        borders = stripped[:1] + stripped[-1:]
        try:
            if borders == b"{}":
                return [parse(stripped)]
            if borders == b"[]" and _has_message(batch := parse_batch(stripped)):
                return self._given(batch)
        except MessageError:
            pass
        return []

    def _has_room_for_a_message(self, scanner: Scanner) -> bool:
        """Tell whether the unfinished message is a batch with one message per line that waits for its next message.

        An array without a message before this one is more probably a broken line.
        """
        if not scanner.is_listing:
            return False
        if not self._is_batch and self._pieces:
            begun = b" ".join(self._pieces).rstrip(_SPACE)
            try:
                self._is_batch = _has_message(parse_batch(begun.removesuffix(b",") + b"]"))
            except MessageError:
                pass
        return self._is_batch

    def _keep(self, line: bytes) -> list[AnyItem]:
        if self._pieces is None:
            return []
        self._pieces.append(line)
        self._size += len(line) + 1
        if self._size <= self._limit + 1:
            return []
        head = b" ".join(self._pieces)[:HEAD_BYTES]
        self._pieces = None
        return [self._too_large(answer_id(head, b""))]

    def _finish(self, line: bytes) -> list[AnyItem]:
        overflow = self._keep(line)
        pieces = self._pieces
        self._reset()
        if pieces is None:
            return overflow
        joined = b" ".join(pieces)
        try:
            if joined.lstrip(_SPACE).startswith(b"["):
                return self._given(parse_batch(joined))
            return [parse(joined)]
        except MessageError as exc:
            return [exc]

    def _break_off(self, line: bytes, reason: str) -> list[AnyItem]:
        """Reject the unfinished message and the line that does not continue it.

        Return one error for both, unless the line begins a message itself.
        """
        items = self._give_up(reason)
        error = MessageError(reason, PARSE_ERROR)
        begun = self.receive_refused(line, error)
        return items + [item for item in begun if item is not error]

    def _give_up(self, reason: str) -> list[AnyItem]:
        pieces = self._pieces if self._scanner is not None else None
        self._reset()
        if pieces is None:
            return []
        error = MessageError(reason, PARSE_ERROR)
        error.line = b" ".join(pieces)[:REFUSED_LINE_BYTES]
        return [error]

    def _too_large(self, id: bytes | None = None) -> TooLarge:
        return TooLarge(f"a message was skipped: it is over the limit of {self._limit} bytes (message_limit)", id)

    def _reset(self) -> None:
        self._scanner, self._pieces, self._size, self._is_batch = None, [], 0, False


def answer_id(head: bytes, tail: bytes) -> bytes | None:
    """Return the raw id of a response of which only the first and last bytes are known; None if they do not show it."""
    found = _ID_FIRST.match(head) or (_ID_LATER.match(head) and _ID_LAST.search(tail))
    return found[1] if found else None


def _has_message(batch: Batch) -> bool:
    return any(isinstance(item, Message) for item in batch.items)


class LineDecoder(Generic[AnyItem]):
    """Decoder of a byte stream into messages, wherever the chunks are cut."""

    __slots__ = ("_assembler", "_buffer", "_head", "_limit", "_skipping", "_tail")

    @overload
    def __init__(self: "LineDecoder[Item]", limit: int, flatten: Literal[True] = True) -> None: ...
    @overload
    def __init__(self: "LineDecoder[Item | Batch]", limit: int, flatten: Literal[False]) -> None: ...
    def __init__(self, limit: int, flatten: bool = True) -> None:
        self._limit = limit
        self._assembler: Assembler[AnyItem] = Assembler(limit, flatten)
        self._buffer = bytearray()  # the line that has not ended
        self._skipping = False  # inside a line over the limit
        self._head = self._tail = b""  # of that line, if it is a response whose id is still to come

    def receive_data(self, data: bytes) -> list[AnyItem]:
        """Take bytes; return the items they complete, in order. Raises nothing: errors are items."""
        lines = data.split(b"\n")
        rest = lines.pop()
        items: list[AnyItem] = []
        has_returns = _CARRIAGE_RETURN in data
        if lines and (self._buffer or self._skipping):
            lines[0] = self._end_line(lines[0], items)
            has_returns = True  # the last chunk may have ended with one
        assembler, limit = self._assembler, self._limit
        for line in lines:
            if has_returns and line.endswith(b"\r"):
                line = line[:-1]
            if len(line) > limit:
                items.append(assembler.receive_oversize(answer_id(line[:HEAD_BYTES], line[-TAIL_BYTES:])))
            elif assembler._scanner is not None:  # `pending`, without the cost of a property for each line
                items += assembler.receive_line(line)
            else:
                try:
                    items.append(parse(line))
                except MessageError as exc:
                    items += assembler.receive_refused(line, exc)
        if rest and not self._skipping:
            self._keep(rest, items)
        elif self._head:
            self._tail = (self._tail + rest)[-TAIL_BYTES:]
        return items

    def receive_eof(self) -> list[AnyItem]:
        """Report the end of the stream; return the last line, which needs no line end, or an error for a piece."""
        items: list[AnyItem] = []
        line = self._end_line(b"", items).removesuffix(b"\r")
        return items + self._assembler.receive_line(line) + self._assembler.receive_eof()

    def _end_line(self, line: bytes, items: list[AnyItem]) -> bytes:
        """Complete the unfinished line with its last part; return an empty line if it was over the limit."""
        if self._head:
            tail = (self._tail + line)[-TAIL_BYTES:]
            items.append(self._assembler.receive_oversize(answer_id(self._head, tail)))
            self._head = self._tail = b""
        if self._skipping:
            line = b""
        elif self._buffer:
            self._buffer += line
            line = bytes(self._buffer)
        self._buffer, self._skipping = bytearray(), False
        return line

    def _keep(self, rest: bytes, items: list[AnyItem]) -> None:
        self._buffer += rest
        # A trailing CR does not count: its LF may still come.
        if len(self._buffer) > self._limit + self._buffer.endswith(b"\r"):
            head, tail = bytes(self._buffer[:HEAD_BYTES]), bytes(self._buffer[-TAIL_BYTES:])
            self._buffer, self._skipping = bytearray(), True
            if _ID_LATER.match(head):
                self._head, self._tail = head, tail
            else:
                items.append(self._assembler.receive_oversize(answer_id(head, b"")))

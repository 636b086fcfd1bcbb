"""Strict JSON scanner without recursion, for input that msgspec refuses and for messages spread over lines.

msgspec refuses lone surrogate escapes and deep nesting. Both are valid JSON, and a proxy has to pass them on.
The grammar is that of RFC 8259, in possessive regular expressions, so that time and memory are linear in the
input. This module knows nothing of JSON-RPC and decodes nothing but keys.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

# One step is one bracket, key or comma that no run (below) could take, at about a microsecond. A message of
# 100,000 levels needs up to 400,000 steps; a message that needs more was made to stall the reader.
STEP_LIMIT = 500_000

# Each repeated group may also match nothing: before Python 3.11.5, a group that fails half way through keeps what
# it has consumed (python/cpython#100061). Optional groups do too, hence `(?>…|)` instead of `(…)?+`.
_WS = rb"[ \t\n\r]*+"
_COMMA = _WS + rb"," + _WS
_STRING = rb'"(?>[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|)*+"'
_NUMBER = rb"-?(?>0|[1-9][0-9]*+)(?>\.[0-9]++|)(?>[eE][+-]?[0-9]++|)"
_SCALAR = rb"(?>" + _STRING + rb"|" + _NUMBER + rb"|true|false|null)"

_Match = Callable[..., "re.Match[bytes] | None"]


class _Grammar:
    """Compiled patterns, built on first use: compiling them would add milliseconds to every start of the daemon."""

    def __init__(self) -> None:
        self.space: _Match = re.compile(_WS).match
        self.scalar: _Match = re.compile(_SCALAR + _WS).match
        self.name: _Match = re.compile(_STRING + _WS).match
        # One match takes a run of plain items or members, so that most of a real message is scanned in C.
        member = _STRING + _WS + rb":" + _WS + _SCALAR + _COMMA
        self.items: _Match = re.compile(_WS + rb"(?:(" + _SCALAR + _COMMA + rb")|)*+").match
        self.members: _Match = re.compile(_WS + rb"(?:(" + member + rb")|)*+").match
        self.opening_object: _Match = re.compile(_WS + rb"\{" + _WS + rb"(?>(\}" + _WS + rb")|)").match
        self.opening_array: _Match = re.compile(_WS + rb"\[" + _WS + rb"(?>(\]" + _WS + rb")|)").match
        self.entry: _Match = re.compile(rb"(" + _STRING + rb")" + _WS + rb":" + _WS).match
        self.no_entry: _Match = re.compile(rb"()").match


_grammar = cache(_Grammar)

_CLOSE_ARRAY, _CLOSE_OBJECT, _OPEN_ARRAY, _OPEN_OBJECT, _COMMA_BYTE, _COLON_BYTE = b"]}[{,:"


class JsonError(ValueError):
    """Error for bytes that are not JSON. `members` has the members of the outermost object that were complete."""

    def __init__(self, position: int, reason: str = "it goes wrong") -> None:
        super().__init__(f"{reason} at byte {position}")
        self.members: dict[str, bytes] = {}


class TooDeepError(JsonError):
    """Error for bytes that may be JSON but would take more than STEP_LIMIT to check."""


class Scanner:
    """Checker of one JSON value, fed in pieces that end between two tokens (as lines do)."""

    __slots__ = ("_closers", "_next", "_steps")

    def __init__(self) -> None:
        self._closers = bytearray()  # closing brackets of the open ones, innermost last
        self._next: _Step | None = _value  # the step for the next token; None after the value
        self._steps = 0

    @property
    def complete(self) -> bool:
        """True once the value has ended."""
        return self._next is None

    @property
    def is_listing(self) -> bool:
        """True while the value is an array that has elements and waits, after a comma, for the next."""
        return self._closers == b"]" and self._next is _value

    def receive_data(self, data: bytes, position: int = 0) -> int:
        """Continue at `position`; return the index after the value and its spaces, or the end of the data.

        Raises JsonError at the first byte that cannot belong to the value.
        """
        self._steps = 0
        return self._advance(data, position)

    def receive_value(self, data: bytes, position: int) -> int:
        """Take one complete value, a new one with each call. Raises JsonError if the data end before it does."""
        self._next = _value
        position = self._advance(data, position)
        if self._next is not None:
            raise JsonError(position, "it ends too early")
        return position

    def _advance(self, data: bytes, position: int) -> int:
        position, end = _past_space(data, position), len(data)
        while position < end and self._next is not None:
            self._steps += 1
            if self._steps > STEP_LIMIT:
                raise TooDeepError(position, "its nesting is too much")
            position = self._next(self, data, position)
        return position


_Step = Callable[[Scanner, bytes, int], int]


def _value(scanner: Scanner, data: bytes, position: int) -> int:
    found = _grammar().scalar(data, position)
    if found:
        return _ended(scanner, found.end())
    byte = data[position]
    if byte == _OPEN_ARRAY:
        scanner._closers.append(_CLOSE_ARRAY)
        return _run(scanner, _grammar().items(data, position + 1), _value)
    if byte == _OPEN_OBJECT:
        scanner._closers.append(_CLOSE_OBJECT)
        return _run(scanner, _grammar().members(data, position + 1), _key)
    raise JsonError(position)


def _separator(scanner: Scanner, data: bytes, position: int) -> int:
    byte, closer = data[position], scanner._closers[-1]
    if byte == closer:
        return _closed(scanner, data, position)
    if byte != _COMMA_BYTE:
        raise JsonError(position)
    if closer == _CLOSE_ARRAY:
        return _run(scanner, _grammar().items(data, position + 1), _value)
    return _run(scanner, _grammar().members(data, position + 1), _key)


def _key(scanner: Scanner, data: bytes, position: int) -> int:
    found = _grammar().name(data, position)
    if not found:
        raise JsonError(position)
    scanner._next = _colon
    return found.end()


def _colon(scanner: Scanner, data: bytes, position: int) -> int:
    if data[position] != _COLON_BYTE:
        raise JsonError(position)
    scanner._next = _value
    return _past_space(data, position + 1)


def _first_or_close(scanner: Scanner, data: bytes, position: int) -> int:
    if data[position] == scanner._closers[-1]:
        return _closed(scanner, data, position)
    step = _value if scanner._closers[-1] == _CLOSE_ARRAY else _key
    return step(scanner, data, position)


def _run(scanner: Scanner, found: "re.Match[bytes] | None", step: _Step) -> int:
    """Choose the next step after an opening bracket or a comma and the run of plain values that follows."""
    assert found is not None  # the pattern matches the empty string
    after_comma = found.lastindex is not None or found.string[found.start() - 1] == _COMMA_BYTE
    scanner._next = step if after_comma else _first_or_close
    return found.end()


def _closed(scanner: Scanner, data: bytes, position: int) -> int:
    del scanner._closers[-1]
    return _ended(scanner, _past_space(data, position + 1))


def _ended(scanner: Scanner, position: int) -> int:
    scanner._next = _separator if scanner._closers else None
    return position


def _past_space(data: bytes, position: int) -> int:
    found = _grammar().space(data, position)
    assert found is not None
    return found.end()


def check(data: bytes) -> None:
    """Raise JsonError unless the bytes are exactly one JSON value."""
    position = Scanner().receive_value(data, 0)
    if position != len(data):
        raise JsonError(position)


def members(data: bytes) -> dict[str, bytes]:
    """Return the keys of one JSON object and their raw values. Raises JsonError.

    The last of duplicate keys wins. Keys keep lone surrogates, and invalid UTF-8 as surrogates.
    """
    found: dict[str, bytes] = {}
    grammar = _grammar()
    try:
        for start, stop, name in _parts(data, grammar.opening_object, _CLOSE_OBJECT, grammar.entry):
            found[text(name)] = data[start:stop].rstrip()
    except JsonError as exc:
        exc.members = found
        raise
    return found


def elements(data: bytes) -> Iterator[bytes]:
    """Yield the raw elements of one JSON array. Raises JsonError at the point where the data prove to be no array."""
    grammar = _grammar()
    parts = _parts(data, grammar.opening_array, _CLOSE_ARRAY, grammar.no_entry)
    return (data[start:stop].rstrip() for start, stop, _ in parts)


def _parts(data: bytes, opening: _Match, closer: int, entry: _Match) -> Iterator[tuple[int, int, bytes]]:
    """Yield the start and end of each value of the outermost container, and the name before it."""
    opened = opening(data)
    if not opened:
        raise JsonError(_past_space(data, 0))
    scanner = Scanner()
    position, more = opened.end(), opened.lastindex is None
    while more:
        name = entry(data, position)
        if not name:
            raise JsonError(position)
        stop = scanner.receive_value(data, name.end())
        yield name.end(), stop, name[1]
        separator = data[stop] if stop < len(data) else 0
        if separator not in (closer, _COMMA_BYTE):
            raise JsonError(stop)
        more = separator == _COMMA_BYTE
        position = _past_space(data, stop + 1)
    if position != len(data):
        raise JsonError(position)


def text(raw: bytes) -> str:
    """Decode a JSON string that was checked before; lone surrogates are kept."""
    if b"\\" not in raw:
        return raw[1:-1].decode("utf-8", "surrogateescape")
    from json import loads as loads_standard

    value: str = loads_standard(raw.decode("utf-8", "surrogateescape"))
    return value


def quote(value: str) -> bytes:
    """Encode a string as JSON, including lone surrogates."""
    from json import dumps as dumps_standard

    return dumps_standard(value).encode()


def loads(data: bytes) -> Any:
    """Decode a document that msgspec refuses. Raises ValueError or RecursionError."""
    from json import loads as loads_standard

    check(data)  # the standard library would take NaN
    return loads_standard(data)


# --- lone surrogates
#
# A text that JavaScript has cut in the middle of an emoji ends with half of a pair: `"\ud83d"` is JSON but not Unicode,
# and msgspec refuses the whole message for it. `hide` replaces the `\u` of such halves with a mark that msgspec
# accepts, `show` restores it in the decoded values. The grammar stays msgspec's: hiding makes no malformed input valid.

# Bytes that messages do not contain, and that cannot overlap with themselves. A message that does contain them is
# left alone.
_MARK = b"\x7fhearth lone surrogate:"
_MARK_TEXT = _MARK.decode()
# Each lone surrogate costs a step in Python. A text has a few; a message with more than this is hostile, and is left
# alone.
_COUNT_LIMIT = 100_000

_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"[dD][89abAB]" + _HEX + _HEX
_LOW = rb"[dD][c-fC-F]" + _HEX + _HEX
# The empty alternative is for Python before 3.11.5, as above.
_WHOLE = rb"(?>[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u" + _HIGH + rb"\\u" + _LOW + rb"|)*+"
# All four digits are checked: hiding a broken escape would turn malformed input into JSON.
_LONE = rb"(" + _WHOLE + rb")\\u(?=[dD][89a-fA-F]" + _HEX + _HEX + rb")"


def hide(data: bytes) -> bytes | None:
    """Return the JSON with its lone surrogates hidden; None if there are none, or if they cannot be hidden."""
    if _MARK in data:
        return None
    lone = re.compile(_LONE).match  # from re's cache after the first call
    pieces: list[bytes] = []
    position = 0
    while found := lone(data, position):
        pieces.append(found[1])
        position = found.end()
        if len(pieces) > _COUNT_LIMIT:
            return None
    pieces.append(data[position:])
    return _MARK.join(pieces) if len(pieces) > 1 else None


def show(hidden: bytes) -> bytes:
    """Restore a raw value to its form before `hide`."""
    return hidden.replace(_MARK, b"\\u")


def is_hidden(key: str) -> bool:
    """Tell whether a decoded key may contain the mark. `show` cannot restore it: an escape may have spelt the mark."""
    return _MARK_TEXT in key

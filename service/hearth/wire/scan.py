"""A strict JSON scanner without recursion, for what msgspec refuses and for messages spread over several lines.

msgspec refuses lone surrogate escapes and gives up at deep nesting; both are JSON, and a proxy has to pass them on.
This scanner checks the same grammar (RFC 8259), byte by byte through possessive regular expressions, so that its
time and memory are linear in the input. It knows nothing of JSON-RPC, and it decodes nothing but keys and strings.
"""

import re
from json import loads as _loads_standard

_WS = rb"[ \t\n\r]*+"
_STRING = rb'"(?>[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"'
_NUMBER = rb"-?(?>0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR = rb"(?>" + _STRING + rb"|" + _NUMBER + rb"|true|false|null)"

_space = re.compile(_WS).match
_scalar = re.compile(_SCALAR + _WS).match
_key = re.compile(_STRING + _WS).match
# Runs of plain items are taken in one step: an array of numbers costs one match, not one per number.
_items = re.compile(_WS + rb"((?:" + _SCALAR + _WS + rb"," + _WS + rb")++)?+").match
_members = re.compile(
    _WS + rb"((?:" + _STRING + _WS + rb":" + _WS + _SCALAR + _WS + rb"," + _WS + rb")++)?+"
).match

# What may come next. The first four are decided by the innermost open bracket and by what stood before.
_VALUE, _FIRST_ITEM, _FIRST_KEY, _KEY, _COLON, _AFTER = range(6)
_ARRAY, _OBJECT, _COMMA, _COLON_BYTE = b"]"[0], b"}"[0], b","[0], b":"[0]
_OPEN_ARRAY, _OPEN_OBJECT = b"["[0], b"{"[0]


class JsonError(ValueError):
    """The bytes are not JSON; `position` is the first one that does not fit."""

    def __init__(self, position: int) -> None:
        super().__init__(f"not JSON at byte {position}")
        self.position = position


class Scanner:
    """Checks one JSON value, fed in pieces that end between two tokens (as lines do)."""

    __slots__ = ("_closers", "_state")

    def __init__(self) -> None:
        self._closers = bytearray()
        self._state = _VALUE

    @property
    def complete(self) -> bool:
        """Whether the value has ended."""
        return self._state == _AFTER and not self._closers

    def receive_data(self, data: bytes, position: int = 0) -> int:
        """Go on from `position`; return the index behind the value, or behind the data when the value goes on.

        Raises JsonError at the first byte that cannot belong to it.
        """
        state, closers, end = self._state, self._closers, len(data)
        position = _space(data, position).end()  # type: ignore[union-attr]
        while position < end:
            byte = data[position]
            if state <= _FIRST_ITEM:
                found = _scalar(data, position)
                if found:
                    position, state = found.end(), _AFTER
                elif byte == _OPEN_ARRAY:
                    closers.append(_ARRAY)
                    state, position = _after_bracket(_items(data, position + 1), _FIRST_ITEM, _VALUE)
                elif byte == _OPEN_OBJECT:
                    closers.append(_OBJECT)
                    state, position = _after_bracket(_members(data, position + 1), _FIRST_KEY, _KEY)
                elif byte == _ARRAY and state == _FIRST_ITEM:
                    del closers[-1]
                    state, position = _AFTER, _space(data, position + 1).end()  # type: ignore[union-attr]
                else:
                    raise JsonError(position)
            elif state == _AFTER:
                if not closers:
                    break
                if byte == closers[-1]:
                    del closers[-1]
                    position = _space(data, position + 1).end()  # type: ignore[union-attr]
                elif byte != _COMMA:
                    raise JsonError(position)
                elif closers[-1] == _ARRAY:
                    state, position = _after_bracket(_items(data, position + 1), _VALUE, _VALUE)
                else:
                    state, position = _after_bracket(_members(data, position + 1), _KEY, _KEY)
            elif state == _COLON:
                if byte != _COLON_BYTE:
                    raise JsonError(position)
                state, position = _VALUE, _space(data, position + 1).end()  # type: ignore[union-attr]
            else:
                found = _key(data, position)
                if found:
                    state, position = _COLON, found.end()
                elif byte == _OBJECT and state == _FIRST_KEY:
                    del closers[-1]
                    state, position = _AFTER, _space(data, position + 1).end()  # type: ignore[union-attr]
                else:
                    raise JsonError(position)
        self._state = state
        return position


def _after_bracket(found: "re.Match[bytes] | None", empty: int, filled: int) -> tuple[int, int]:
    assert found is not None
    return (filled if found.lastindex else empty), found.end()


def check(data: bytes) -> None:
    """Raise JsonError unless the bytes are exactly one JSON value."""
    scanner = Scanner()
    position = scanner.receive_data(data)
    if position != len(data) or not scanner.complete:
        raise JsonError(position)


def members(data: bytes) -> dict[str, bytes]:
    """The keys of one JSON object and their values as they stand. Raises JsonError.

    Of a key that comes twice the last counts. Keys keep lone surrogates and, as surrogate escapes, invalid UTF-8.
    """
    position = _space(data, 0).end()  # type: ignore[union-attr]
    if data[position : position + 1] != b"{":
        raise JsonError(position)
    position = _space(data, position + 1).end()  # type: ignore[union-attr]
    found: dict[str, bytes] = {}
    separator = data[position : position + 1]
    if separator == b"}":
        position += 1
    while separator != b"}":
        key = _key(data, position)
        if not key or data[key.end() : key.end() + 1] != b":":
            raise JsonError(position)
        start = _space(data, key.end() + 1).end()  # type: ignore[union-attr]
        scanner = Scanner()
        position = scanner.receive_data(data, start)
        separator = data[position : position + 1]
        if not scanner.complete or separator not in (b",", b"}"):
            raise JsonError(position)
        found[text(key.group().rstrip())] = data[start:position].rstrip(b" \t\n\r")
        position += 1
        if separator == b",":
            position = _space(data, position).end()  # type: ignore[union-attr]
    position = _space(data, position).end()  # type: ignore[union-attr]
    if position != len(data):
        raise JsonError(position)
    return found


def text(raw: bytes) -> str:
    """The value of a JSON string that was checked before; lone surrogates stay in it."""
    if b"\\" not in raw:
        return raw[1:-1].decode("utf-8", "surrogateescape")
    value: str = _loads_standard(raw.decode("utf-8", "surrogateescape"))
    return value

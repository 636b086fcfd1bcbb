"""Lone surrogate escapes, hidden from msgspec.

A text that was cut in the middle of an emoji, as JavaScript does it, leaves half of a pair: `"\\ud83d"` is
JSON, but no Unicode, and msgspec refuses the whole message for it. Here the `\\u` of such halves is replaced
by a mark that passes, and put back into what msgspec returns. The grammar stays msgspec's: nothing becomes
JSON by being hidden.
"""

import re

# Bytes that no message holds, and that cannot overlap with themselves. A message that does hold them is left
# alone.
_MARK = b"\x7fhearth lone surrogate:"
_MARK_TEXT = _MARK.decode()
# Each costs a step in Python. A text has a few; what has more was made for the purpose, and is left alone.
_COUNT_LIMIT = 100_000

_HEX = rb"[0-9a-fA-F]"
_HIGH = rb"[dD][89abAB]" + _HEX + _HEX
_LOW = rb"[dD][c-fC-F]" + _HEX + _HEX
# The empty alternative is for Python before 3.11.5, as in `scan`.
_WHOLE = rb"(?>[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F])|\\u" + _HIGH + rb"\\u" + _LOW + rb"|)*+"
# All four digits are looked at: hiding a broken escape would make JSON of what is none.
_LONE = rb"(" + _WHOLE + rb")\\u(?=[dD][89a-fA-F]" + _HEX + _HEX + rb")"


def hide(data: bytes) -> bytes | None:
    """The JSON with its lone surrogates hidden; None when there are none, or when it cannot be done."""
    if _MARK in data:
        return None
    lone = re.compile(_LONE).match  # from the second time on, out of re's cache
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
    """A raw value as it was before `hide`."""
    return hidden.replace(_MARK, b"\\u")


def is_hidden(key: str) -> bool:
    """Whether a decoded key may hold what was hidden. It cannot be shown again: an escape may have spelt the mark."""
    return _MARK_TEXT in key

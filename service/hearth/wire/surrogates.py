"""Lone surrogate escapes, hidden from msgspec.

A text that JavaScript has cut in the middle of an emoji ends with half of a pair: `"\\ud83d"` is JSON but not
Unicode, and msgspec refuses the whole message for it. This module replaces the `\\u` of such halves with a mark
that msgspec accepts, and restores it in the decoded values. The grammar stays msgspec's: hiding makes no
malformed input valid.
"""

import re

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
# The empty alternative is for Python before 3.11.5, as in `scan`.
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

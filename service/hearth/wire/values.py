"""Lenient readers of single raw values: a value that is absent or of another type is None or empty, not an error.

For fields that Hearth reads but does not require; use `json` where a malformed value must be refused.
"""

from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Raw

from hearth.errors import MessageError
from hearth.wire import json, scan, surrogates

RawBytes = bytes | Raw
# An object under construction: received values unchanged, and values written here.
Members = dict[str, RawBytes]

_decode_text = msgspec.json.Decoder(str).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
# 64 bits have at most 20 characters; a longer number is not an id or a code that Hearth made.
_INTEGER_CHARACTERS = 20
_SPACE = b" \t\r\n"
_COMMA = b","[0]


def text(raw: RawBytes | None) -> str | None:
    """Return the string, or None. Lone surrogates are kept, so that equal names stay equal."""
    if raw is None:
        return None
    try:
        return _decode_text(raw)
    except msgspec.DecodeError:
        quoted = bytes(raw)
        return scan.text(quoted) if quoted[:1] == b'"' else None


def integer(raw: RawBytes | None) -> int | None:
    """Return the integer, or None."""
    if raw is None:
        return None
    digits = bytes(raw)
    if digits.isdigit() and len(digits) <= _INTEGER_CHARACTERS:
        return int(digits)
    if digits[:1] == b"-" and digits[1:].isdigit() and len(digits) <= _INTEGER_CHARACTERS:
        return int(digits)
    return None


def is_true(raw: RawBytes | None) -> bool:
    """Tell whether the value is the literal `true`."""
    return raw is not None and bytes(raw) == b"true"


def members(raw: RawBytes | None) -> json.Fields:
    """Return the object's fields; empty if the value is no object."""
    if raw is None:
        return {}
    try:
        return json.split(raw)
    except MessageError:
        return {}


def elements(raw: RawBytes | None) -> list[Raw]:
    """Return the array's elements. Raises MessageError for any other value: an empty list would hide the fault."""
    data = b"[]" if raw is None else raw
    try:
        return _decode_array(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return _elements_slowly(bytes(data))
    except scan.JsonError:
        raise MessageError("expected a JSON array", json.INVALID_PARAMS) from None


def _elements_slowly(data: bytes) -> list[Raw]:
    """Return the elements of valid JSON that msgspec refuses. Raises JsonError for the rest."""
    hidden = surrogates.hide(data)
    if hidden is not None:
        try:
            return [Raw(surrogates.show(bytes(item))) for item in _decode_array(hidden)]
        except (msgspec.DecodeError, RecursionError):
            pass
    return [Raw(item) for item in scan.elements(data)]


def element_slices(raw: RawBytes | None) -> Iterator[list[Raw]]:
    """Yield the array's elements, a bounded number at a time. Raises MessageError for any other value.

    A list of all elements may need fifty times the memory of the array; a caller that stops early never holds it.
    """
    data = b"[]" if raw is None else bytes(raw)
    decode = json.elements_decoder()
    try:
        found = decode(data)
    except json.REFUSALS:
        yield from _slices_slowly(data)
        return
    while found:
        yield found
        data = b"[" + data[_end_of(found, data) :]
        found = decode(data)


def _end_of(elements: list[Raw], data: bytes) -> int:
    """Find where the array continues after its first elements: at its closing bracket, or after a comma."""
    position = data.index(b"[") + 1
    for element in elements:
        position = _space(data, _space(data, position) + len(element))
        position += data[position] == _COMMA
    return position


def _space(data: bytes, position: int) -> int:
    while data[position] in _SPACE:
        position += 1
    return position


def _slices_slowly(data: bytes) -> Iterator[list[Raw]]:
    """Yield slices of valid JSON that msgspec refuses."""
    hidden = surrogates.hide(data)
    if hidden is not None:
        for found in element_slices(hidden):
            yield [Raw(surrogates.show(bytes(item))) for item in found]
        return
    elements = scan.each_element(data)
    try:
        while found := [Raw(item) for item in islice(elements, json.BATCH_LIMIT)]:
            yield found
    except scan.JsonError:
        raise MessageError("expected a JSON array", json.INVALID_PARAMS) from None


def error(message: json.Message) -> tuple[int, str]:
    """Return the code and message of an error response; zero and a placeholder where they are missing."""
    fields = members(message.error)
    return integer(fields.get("code")) or 0, text(fields.get("message")) or "an error without a message"

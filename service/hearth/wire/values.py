"""Lenient readers of single raw values: a value that is absent or of another type is None or empty, not an error.

For fields that Hearth reads but does not require; use `json` where a malformed value must be refused.

Ids are carried as raw JSON. A peer may answer request `1` with id `1.0`, or request `"\\u0061"` with id `"a"`: tables
are therefore keyed by `id_key`, which compares texts: floats would treat different long numbers as equal.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeGuard

import msgspec
from msgspec import Raw

from hearth.errors import MessageError
from hearth.wire import json, scan

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


def is_object(raw: RawBytes | None) -> TypeGuard[RawBytes]:
    """Tell whether the value is an object, by its first character."""
    return raw is not None and bytes(raw).lstrip()[:1] == b"{"


def array(items: Iterable[RawBytes]) -> bytes:
    """Return an array of these elements."""
    return b"[%b]" % b",".join(map(bytes, items))


def elements(raw: RawBytes | None) -> list[Raw]:
    """Return the array's elements. Raises MessageError for any other value: an empty list would hide the fault."""
    data = b"[]" if raw is None else raw
    try:
        return _decode_array(data)
    except json.REFUSALS:
        pass
    try:
        return json.elements_slowly(bytes(data), _decode_array)
    except scan.JsonError:
        raise MessageError("expected a JSON array", json.INVALID_PARAMS) from None


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
    hidden = scan.hide(data)
    if hidden is not None:
        for found in element_slices(hidden):
            yield [Raw(scan.show(bytes(item))) for item in found]
        return
    items = scan.elements(data)
    try:
        while found := [Raw(item) for item in islice(items, json.BATCH_LIMIT)]:
            yield found
    except scan.JsonError:
        raise MessageError("expected a JSON array", json.INVALID_PARAMS) from None


def error(message: json.Message) -> tuple[int, str]:
    """Return the code and message of an error response; zero and a placeholder where they are missing."""
    fields = members(message.error)
    return integer(fields.get("code")) or 0, text(fields.get("message")) or "an error without a message"


_NUMBER = rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?"
_QUOTE = b'"'[0]
# Numbers of up to this length become ints, as nearly all ids do. Longer ones stay text: int() is quadratic and
# refuses very long numbers.
_INT_BYTES = 18


def id_key(raw: bytes) -> object:
    """Return a hashable that is equal for equal ids and differs for 1 and "1". `raw` is one JSON value."""
    if len(raw) <= _INT_BYTES and raw.isdigit():
        return int(raw)
    if raw[0] == _QUOTE:
        return scan.text(raw)
    found = re.fullmatch(_NUMBER, raw)
    return _number_key(*found.groups(b"")) if found else raw


def _number_key(sign: bytes, whole: bytes, fraction: bytes, exponent: bytes) -> object:
    digits = (whole + fraction).lstrip(b"0")
    significant = digits.rstrip(b"0")
    if not significant:
        return 0
    if len(exponent) > _INT_BYTES:
        return sign, digits, exponent
    power = int(exponent or b"0") - len(fraction) + len(digits) - len(significant)
    if power >= 0 and len(significant) + power <= _INT_BYTES:
        return int(sign + significant) * 10**power
    return sign, significant, power

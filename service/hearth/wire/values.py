"""Single raw values, read leniently: what is absent, or of another kind, is None or empty and never an exception.

For fields that Hearth looks at but does not require; where a malformed value must be refused, use `json`.
"""

import msgspec
from msgspec import Raw

from hearth.errors import MessageError
from hearth.wire import json, scan

RawBytes = bytes | Raw
# An object under construction: what came in as it is, and what was written here.
Members = dict[str, RawBytes]

_decode_text = msgspec.json.Decoder(str).decode
_decode_array = msgspec.json.Decoder(list[Raw]).decode
# 64 bits have at most 20 characters; what is longer is not an id or a code that Hearth made.
_INTEGER_CHARACTERS = 20


def text(raw: RawBytes | None) -> str | None:
    """The string, or None. Lone surrogates are kept, so that equal names stay equal."""
    if raw is None:
        return None
    try:
        return _decode_text(raw)
    except msgspec.DecodeError:
        quoted = bytes(raw)
        return scan.text(quoted) if quoted[:1] == b'"' else None


def integer(raw: RawBytes | None) -> int | None:
    """The integer, or None."""
    if raw is None:
        return None
    digits = bytes(raw)
    if digits.isdigit() and len(digits) <= _INTEGER_CHARACTERS:
        return int(digits)
    if digits[:1] == b"-" and digits[1:].isdigit() and len(digits) <= _INTEGER_CHARACTERS:
        return int(digits)
    return None


def is_true(raw: RawBytes | None) -> bool:
    """Whether it is the literal `true`."""
    return raw is not None and bytes(raw) == b"true"


def members(raw: RawBytes | None) -> json.Fields:
    """The object's fields; empty when there is no object."""
    if raw is None:
        return {}
    try:
        return json.split(raw)
    except MessageError:
        return {}


def elements(raw: RawBytes | None) -> list[Raw]:
    """The array's elements. Raises MessageError for what is no array: an empty list would hide the fault."""
    try:
        return _decode_array(raw if raw is not None else b"[]")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return [Raw(item) for item in _elements_slowly(bytes(raw or b""))]


def _elements_slowly(raw: bytes) -> list[bytes]:
    """What msgspec refuses although it is JSON, one element after the other."""
    data = raw.strip(b" \t\r\n")
    if data[:1] != b"[" or data[-1:] != b"]":
        raise MessageError("expected a JSON array", json.INVALID_PARAMS)
    items: list[bytes] = []
    position, end = 1, len(data) - 1
    try:
        while data[position:end].strip(b" \t\r\n"):
            scanner = scan.Scanner()
            start, position = position, scanner.receive_data(data, position)
            if not scanner.complete or (position < end and data[position : position + 1] != b","):
                raise scan.JsonError(position)
            items.append(data[start:position].strip(b" \t\r\n"))
            position += 1
    except scan.JsonError:
        raise MessageError("expected a JSON array", json.INVALID_PARAMS) from None
    return items


def error(message: json.Message) -> tuple[int, str]:
    """The code and the sentence of an error response; zero and a stand-in where they are missing."""
    fields = members(message.error)
    return integer(fields.get("code")) or 0, text(fields.get("message")) or "an error without a message"

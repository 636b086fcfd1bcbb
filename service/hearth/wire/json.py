"""JSON-RPC messages over raw bytes.

What a message carries is passed on as the bytes that came in; only `id`, `method` and the levels that somebody
rewrites are taken apart. The usual message goes through msgspec; what msgspec refuses although it is JSON (lone
surrogates, deep nesting) goes through `scan`. This module knows JSON-RPC and nothing of MCP.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from hearth.errors import MessageError
from hearth.wire import scan

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602

Fields = dict[str, Raw]

_decode_fields = msgspec.json.Decoder(Fields).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_VERSION = Raw(b'"2.0"')
_ID_STARTS = frozenset(b'"-0123456789')
# What msgspec raises for input that it will not take; UnicodeDecodeError comes from keys.
_REFUSALS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


class Kind(enum.Enum):
    """What a message is, told by the fields it has."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


class Message(msgspec.Struct, gc=False):
    """One JSON-RPC message: its id as raw JSON, its method, and all its fields as raw JSON."""

    id: bytes | None
    method: str | None
    fields: Fields

    @property
    def kind(self) -> Kind:
        """Request, notification or response."""
        if self.method is None:
            return Kind.RESPONSE
        return Kind.NOTIFICATION if self.id is None else Kind.REQUEST

    @property
    def params(self) -> bytes | None:
        """The raw `params`; a copy, so that nothing keeps the whole line alive."""
        raw = self.fields.get("params")
        return None if raw is None else bytes(raw)

    @property
    def result(self) -> bytes | None:
        """The raw `result` of a response."""
        raw = self.fields.get("result")
        return None if raw is None else bytes(raw)

    @property
    def error(self) -> bytes | None:
        """The raw `error` of a response."""
        raw = self.fields.get("error")
        return None if raw is None else bytes(raw)


def parse(line: bytes) -> Message:
    """Read one message. Raises MessageError: -32700 for what is no JSON, -32600 for what is no JSON-RPC 2.0 message."""
    try:
        fields = _decode_fields(line)
    except _REFUSALS:
        fields = _parse_slowly(line)
    if not line.isascii() and not _is_utf8(line):
        raise MessageError("the message is not valid UTF-8", INVALID_REQUEST, _usable_id(fields))
    if b"\n" in line or b"\r" in line:
        fields = {key: Raw(one_line(bytes(value))) for key, value in fields.items()}
    if fields.get("jsonrpc") != _VERSION:
        _check_version(fields)
    raw_id = fields.get("id")
    id = None if raw_id is None else bytes(raw_id)
    method = fields.get("method")
    if method is not None:
        if id is not None and id[0] not in _ID_STARTS:
            raise MessageError("the id of a request must be a string or a number")
        return Message(id, _method(method, id), fields)
    _check_response(fields, id)
    return Message(id, None, fields)


def _parse_slowly(line: bytes) -> Fields:
    try:
        return {key: Raw(value) for key, value in scan.members(line).items()}
    except scan.JsonError:
        pass
    try:
        scan.check(line)
    except scan.JsonError as exc:
        raise MessageError(
            f"the message is not JSON: it goes wrong at byte {exc.position}", PARSE_ERROR
        ) from None
    # Batches would be taken apart here, one message after the other; MCP had them in 2025-03-26 only.
    if line.lstrip().startswith(b"["):
        raise MessageError("batches are not supported: send one message per line")
    raise MessageError("a message must be a JSON object")


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _usable_id(fields: Fields) -> bytes | None:
    raw = bytes(fields["id"]) if "id" in fields else b""
    return raw if raw and raw[0] in _ID_STARTS and raw.isascii() else None


def _check_version(fields: Fields) -> None:
    raw = bytes(fields.get("jsonrpc", b""))
    if not raw.startswith(b'"') or scan.text(raw) != "2.0":
        raise MessageError('the message has no "jsonrpc": "2.0"', INVALID_REQUEST, _usable_id(fields))


def _method(raw: Raw, id: bytes | None) -> str:
    quoted = bytes(raw)
    if quoted[0] != 34:
        raise MessageError("the method must be a string", INVALID_REQUEST, id)
    if b"\\" in quoted:
        return str(_readable(scan.text(quoted)))
    return quoted[1:-1].decode()


def _check_response(fields: Fields, id: bytes | None) -> None:
    if "result" not in fields and "error" not in fields:
        raise MessageError("the message has no method, result or error", INVALID_REQUEST, _usable_id(fields))
    # An error may answer a message whose id could not be read: its id is null (JSON-RPC 2.0, section 5).
    if id is None or (id[0] not in _ID_STARTS and not (id == b"null" and "error" in fields)):
        raise MessageError("the id of a response must be a string or a number")


def split(raw: bytes | Raw) -> Fields:
    """One level of an object, its values raw. Raises MessageError (-32602) for anything else."""
    try:
        return _decode_fields(raw)
    except _REFUSALS:
        pass
    try:
        return {key: Raw(value) for key, value in scan.members(bytes(raw)).items()}
    except scan.JsonError:
        raise MessageError("expected a JSON object", INVALID_PARAMS) from None


def join(fields: Mapping[str, Raw | bytes]) -> bytes:
    """The object with these raw values, each as it is."""
    for value in fields.values():
        if type(value) is not Raw:  # msgspec would write bytes as base64
            fields = {key: value if type(value) is Raw else Raw(value) for key, value in fields.items()}
            break
    try:
        return _encode(fields)
    except UnicodeEncodeError:  # a key with a lone surrogate
        pairs = (_quote(key) + b":" + bytes(value) for key, value in fields.items())
        return b"{" + b",".join(pairs) + b"}"


def _quote(key: str) -> bytes:
    from json import dumps as dumps_standard

    return dumps_standard(key).encode()


def one_line(raw: bytes) -> bytes:
    """JSON without line ends: they can only stand between tokens, where a space means the same."""
    return raw.replace(b"\r", b" ").replace(b"\n", b" ")


_NUMBER = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
# Below this many digits a number becomes an int; above, it stays a canonical text, whatever its size.
_INT_DIGITS = 18


def id_key(raw: bytes) -> object:
    """A hashable that is equal for equal ids, however they are written, and differs between 1 and "1"."""
    if raw[0] == 34:
        return scan.text(raw)
    if len(raw) <= _INT_DIGITS and (raw.isdigit() or raw[1:].isdigit()):
        return int(raw)
    found = _NUMBER.fullmatch(raw)
    return _number_key(*found.groups(b"")) if found else raw


def _number_key(sign: bytes, whole: bytes, fraction: bytes, exponent: bytes) -> object:
    digits = (whole + fraction).lstrip(b"0")
    if not digits:
        return 0
    if len(exponent) > _INT_DIGITS:
        return sign, digits, exponent
    power = int(exponent or b"0") - len(fraction)
    short = digits.rstrip(b"0")
    power += len(digits) - len(short)
    if power >= 0 and len(sign) + len(short) + power <= _INT_DIGITS:
        return int(sign + short) * 10**power
    return sign, short, power


def loads(raw: bytes | Raw) -> Any:
    """The value of a small document. Lone surrogates become U+FFFD. Raises MessageError (-32602)."""
    try:
        return _decode_any(raw)
    except _REFUSALS:
        pass
    from json import loads as loads_standard

    try:
        data = bytes(raw)
        scan.check(data)  # json.loads takes NaN
        return _readable(loads_standard(data))
    except (ValueError, RecursionError):
        raise MessageError("the value is not JSON, or nested too deeply to be read", INVALID_PARAMS) from None


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    return value


def dumps(value: Any) -> bytes:
    """The document as compact JSON on one line."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_readable(value))

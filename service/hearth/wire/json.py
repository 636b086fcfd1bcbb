"""JSON-RPC messages over raw bytes.

The content of a message is passed on as the bytes that came in: only `id`, `method` and the levels that a
caller rewrites are parsed. The usual message goes through msgspec. Valid JSON that msgspec refuses (lone
surrogates, deep nesting) goes through `scan`. This module knows JSON-RPC and nothing of MCP.
"""

import codecs
import enum
import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import takewhile
from typing import Any

import msgspec
from msgspec import Raw as Raw  # also for callers

from hearth.errors import MessageError
from hearth.wire import scan

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
# Each member is a call of its own, and all answers wait for the last. A peer with more messages can send more lines.
BATCH_LIMIT = 1000

# One level of an object, its values as they came. A value shares the memory of the whole line it came with,
# so copy (`bytes(value)`) any value that outlives the message.
Fields = dict[str, Raw]

_decode_fields = msgspec.json.Decoder(Fields).decode
_decode_any = msgspec.json.Decoder().decode
_decode_str = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
# Exceptions that msgspec raises for input it refuses; UnicodeDecodeError comes from keys.
REFUSALS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_VERSION = Raw(b'"2.0"')
_ID_STARTS = frozenset(b'"-0123456789')
_LINE_FEED, _CARRIAGE_RETURN, _QUOTE = b'\n\r"'
# A str can take four times the bytes it was made from, so UTF-8 is checked in pieces of this size.
_UTF8_PIECE_BYTES = 1024 * 1024
# Up to this size a refusal names the byte where `scan` found the error. Scanning takes about 55 ms per MiB and blocks
# the event loop meanwhile.
_SCAN_BYTES = 1024 * 1024


class Kind(enum.Enum):
    """Kind of a message, determined by its fields."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESPONSE = "response"


class Message(msgspec.Struct, gc=False):
    """One JSON-RPC message. `id` is raw JSON; `fields` has every field, including unknown ones."""

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
        """A copy of the raw `params`."""
        return self._copy("params")

    @property
    def result(self) -> bytes | None:
        """A copy of the raw `result`."""
        return self._copy("result")

    @property
    def error(self) -> bytes | None:
        """A copy of the raw `error`."""
        return self._copy("error")

    def _copy(self, name: str) -> bytes | None:
        raw = self.fields.get(name)
        return None if raw is None else bytes(raw)


class Batch(msgspec.Struct):
    """Messages that came in one array, in order; an element that is no message is replaced by its error."""

    # Unlike a message, a batch is tracked by the garbage collector: errors refer to their holders through their frames.
    items: list[Message | MessageError]


def parse(line: bytes) -> Message:
    """Read one message, from bytes that may hold line ends between tokens.

    Raises MessageError: -32700 for input that is not JSON, -32600 for JSON that is not a JSON-RPC 2.0 message and for
    anything that begins as an array, whatever follows: arrays are for `parse_batch`.
    """
    try:
        fields = _decode_fields(line)
    except REFUSALS as exc:
        fields = _parse_slowly(line, exc)
    if not line.isascii():
        _check_utf8(line, fields)
    if _LINE_FEED in line or _CARRIAGE_RETURN in line:
        fields = {key: Raw(one_line(value)) for key, value in fields.items()}
    if fields.get("jsonrpc") != _VERSION:
        _check_version(fields)
    raw_id = fields.get("id")
    own_id = None if raw_id is None else bytes(raw_id)
    method = fields.get("method")
    if method is None:
        _check_response(fields, own_id)
        return Message(own_id, None, fields)
    if own_id is not None and own_id[0] not in _ID_STARTS:
        raise MessageError("the id of a request must be a string or a number")
    try:
        return Message(own_id, _decode_str(method), fields)
    except REFUSALS:
        return Message(own_id, _decode_method(bytes(method), own_id), fields)


def _parse_slowly(line: bytes, refusal: Exception) -> Fields:
    start = line.lstrip()[:1]
    if start == b"[":
        raise _no_object()
    _check_large(line, refusal)
    try:
        if start == b"{":
            return _split_slowly(line)
        scan.check(line)
    except scan.JsonError as exc:
        raise _unreadable(exc) from None
    raise _no_object()


def _check_large(line: bytes, refusal: Exception) -> None:
    """Raise MessageError for large input that is malformed, rather than JSON that msgspec merely refuses."""
    # Upon a ValidationError, msgspec has looked at the first value only.
    if len(line) <= _SCAN_BYTES or isinstance(refusal, RecursionError | msgspec.ValidationError):
        return
    if line.isascii() and b"\\u" not in line:
        reason = str(refusal).removeprefix("JSON is malformed: ")
        raise MessageError(f"the message is not JSON: {reason}", PARSE_ERROR)


def _no_object() -> MessageError:
    return MessageError("a message must be a JSON object")


def _unreadable(exc: scan.JsonError) -> MessageError:
    if isinstance(exc, scan.TooDeepError):
        asks = "method" in exc.members
        return MessageError(f"the message cannot be read: {exc}", INVALID_REQUEST, _usable_id(exc.members), asks)
    return MessageError(f"the message is not JSON: {exc}", PARSE_ERROR)


def parse_batch(line: bytes) -> Batch:
    """Read an array of messages, from bytes that may hold line ends between tokens.

    Raises MessageError: -32700 for input that is no JSON array, -32600 for an array that is empty or has too many
    elements. An element that is no message becomes an error item and does not affect the others.
    """
    elements = _elements(line)
    if not elements:
        raise MessageError("a batch must have at least one message")
    if len(elements) > BATCH_LIMIT:
        raise MessageError(f"a batch may have at most {BATCH_LIMIT} messages")
    return Batch([_member(bytes(element)) for element in elements])


def _member(element: bytes) -> Message | MessageError:
    # JSON-RPC does not nest batches: an array within a batch is no message.
    try:
        return parse(element)
    except MessageError as exc:
        return exc


def _elements(line: bytes) -> list[Raw]:
    """Return the elements of an array, at most one more than the limit. Raises MessageError."""
    decode = elements_decoder()
    try:
        return decode(line)
    except REFUSALS as exc:
        _check_large(line, exc)
    try:
        return elements_slowly(line, decode)
    except scan.JsonError as exc:
        raise _unreadable(exc) from None


def elements_slowly(data: bytes, decode: Callable[[bytes], list[Raw]]) -> list[Raw]:
    """Return the elements of a valid array that msgspec refuses. Raises JsonError for the rest."""
    hidden = scan.hide(data)
    if hidden is not None:
        try:
            return [Raw(scan.show(bytes(element))) for element in decode(hidden)]
        except REFUSALS:
            pass
    return [Raw(element) for element in scan.elements(data)]


@cache
def elements_decoder() -> Callable[[bytes], list[Raw]]:
    """Return a decoder that keeps a bounded number of elements and skips the rest.

    A `list[Raw]` would hold all elements first, at fifty bytes for an element of two. The decoder is built on first
    use, since building it takes milliseconds.
    """
    fields = [(f"element_{number}", Raw, Raw()) for number in range(BATCH_LIMIT + 1)]
    decode = msgspec.json.Decoder(msgspec.defstruct("Elements", fields, array_like=True)).decode

    def decode_elements(line: bytes) -> list[Raw]:
        # The default of an absent element is empty, which no JSON value is.
        return list(takewhile(bool, msgspec.structs.astuple(decode(line))))

    return decode_elements


def _check_utf8(line: bytes, fields: Fields) -> None:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        for start in range(0, len(line), _UTF8_PIECE_BYTES):
            decode(line[start : start + _UTF8_PIECE_BYTES])
        decode(b"", True)
    except UnicodeDecodeError:
        own_id = _usable_id(fields)
        code = PARSE_ERROR if own_id is None else INVALID_REQUEST
        raise MessageError("the message is not valid UTF-8", code, own_id, "method" in fields) from None


def _usable_id(fields: Mapping[str, Raw | bytes]) -> bytes | None:
    """Return the id to answer to; None without one that an answer can carry."""
    raw = bytes(fields.get("id", b"null"))
    try:
        raw.decode()
    except UnicodeDecodeError:
        return None
    return one_line(raw) if raw[0] in _ID_STARTS else None


def _check_version(fields: Fields) -> None:
    raw = bytes(fields.get("jsonrpc", b"null"))
    if raw[0] != _QUOTE or scan.text(raw) != "2.0":
        raise MessageError(
            'the message has no "jsonrpc": "2.0"', INVALID_REQUEST, _usable_id(fields), "method" in fields
        )


def _decode_method(raw: bytes, own_id: bytes | None) -> str:
    if raw[0] != _QUOTE:
        raise MessageError("the method must be a string", INVALID_REQUEST, own_id, asks=True)
    return str(_readable(scan.text(raw)))


def _check_response(fields: Fields, own_id: bytes | None) -> None:
    if "result" not in fields and "error" not in fields:
        raise MessageError("the message has no method, result or error", INVALID_REQUEST, _usable_id(fields))
    # An error may answer a message whose id could not be read: its id is null (JSON-RPC 2.0, section 5). Such
    # a response is valid, or two sides that answer errors with errors would never stop.
    if own_id is None or (own_id[0] not in _ID_STARTS and (own_id != b"null" or "error" not in fields)):
        raise MessageError("the id of a response must be a string or a number")


def split(raw: bytes | Raw) -> Fields:
    """Return one level of an object, its values raw. Raises MessageError (-32602) for anything else."""
    try:
        return _decode_fields(raw)
    except REFUSALS:
        pass
    try:
        return _split_slowly(bytes(raw))
    except scan.JsonError:
        raise MessageError("expected a JSON object", INVALID_PARAMS) from None


def _split_slowly(data: bytes) -> Fields:
    """Split valid JSON that msgspec refuses. Raises JsonError for the rest."""
    hidden = scan.hide(data)
    if hidden is not None:
        try:
            found = _decode_fields(hidden)
        except REFUSALS:
            found = {}
        if found and not any(map(scan.is_hidden, found)):
            return {key: Raw(scan.show(bytes(value))) for key, value in found.items()}
    return {key: Raw(value) for key, value in scan.members(data).items()}


def join(fields: Mapping[str, Raw | bytes]) -> bytes:
    """Encode an object of these fields; their values are spliced in unchanged."""
    converted: dict[str, Raw | bytes] | None = None
    for key, value in fields.items():
        if type(value) is not Raw:  # msgspec would write bytes as base64
            converted = converted or dict(fields)
            converted[key] = Raw(value)
    try:
        return _encode(converted or fields)
    except UnicodeEncodeError:  # a key with a lone surrogate
        return b"{%b}" % b",".join(b"%b:%b" % (scan.quote(key), bytes(fields[key])) for key in fields)


def one_line(raw: bytes | Raw) -> bytes:
    """Replace line ends in JSON with spaces. Line ends occur between tokens only, where a space means the same."""
    return bytes(raw).replace(b"\r", b" ").replace(b"\n", b" ")


def loads(raw: bytes | Raw) -> Any:
    """Decode a small document; lone surrogates become U+FFFD. Raises MessageError (-32602)."""
    try:
        return _decode_any(raw)
    except REFUSALS:
        pass
    try:
        return _readable(scan.loads(bytes(raw)))
    except (ValueError, RecursionError):
        raise MessageError("the value is not JSON, or too deeply nested", INVALID_PARAMS) from None


def dumps(value: Any) -> bytes:
    """Encode a value as compact JSON on one line; lone surrogates become U+FFFD."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_readable(value))


def _readable(value: Any) -> Any:
    """Replace lone surrogates in a value's strings, since encoding such text fails."""
    if isinstance(value, str):
        return re.sub("[\ud800-\udfff]", "\ufffd", value)
    if isinstance(value, list | tuple):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    return value

"""What a line of the client, a body or an event of the server says, as far as a bridge has to know. Pure.

Everything passes as the bytes that came; only ids, methods and the few params that headers repeat are read. Numbers
stay text, so that an id goes back as it was written.
"""

from _json import make_scanner

from hearth.bridge.replies import Literal, Literals, find_id
from hearth.errors import MessageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeGuard

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"
CANCELLED = "notifications/cancelled"
DISCOVER, LISTEN = "server/discover", "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"

_SPACE = " \t\r\n"
_scan = make_scanner(Literals())  # type: ignore[arg-type]  # any object with these fields will do

# What tells ids apart: the number 1 and the text "1" are two.
Key = tuple[bool, str]


def key_of(id: str) -> Key:
    """The id as a key. Numbers are equal however they are written."""
    if not isinstance(id, Literal):
        return (False, id)
    try:
        return (True, str(int(id)))
    except ValueError:
        pass
    try:
        number = float(id)
        return (True, str(int(number)) if number.is_integer() else repr(number))
    except (ValueError, OverflowError):
        return (True, str(id))


def is_text(value: "Any") -> "TypeGuard[str]":
    """Whether it was a string in JSON."""
    return isinstance(value, str) and not isinstance(value, Literal)


class Unreadable(MessageError):
    """What came is no message. `written_id`: its id, as `replies` has it, where one is to be seen."""

    def __init__(self, sentence: str, rpc_code: int, id: str | None = None) -> None:
        super().__init__(sentence, rpc_code)
        self.written_id = id


class Message:
    """One message: `raw` is what passes. A request has id and method, a notification no id, a response no method."""

    __slots__ = ("fields", "id", "method", "raw")

    def __init__(self, raw: bytes, fields: "dict[str, Any]") -> None:
        self.raw = raw
        self.fields = fields
        id = fields.get("id")
        self.id: str | None = id if isinstance(id, str) else None
        method = fields.get("method")
        self.method: str | None = method if is_text(method) else None

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return self.method is not None and self.id is not None

    @property
    def is_response(self) -> bool:
        """Whether it is an answer, to a request or to nothing in particular."""
        return self.method is None and ("result" in self.fields or "error" in self.fields)

    @property
    def key(self) -> Key | None:
        """What its id is told apart by."""
        return None if self.id is None else key_of(self.id)

    @property
    def params(self) -> "dict[str, Any]":
        """Its params; empty where there are none, or no object."""
        found = self.fields.get("params")
        return found if isinstance(found, dict) else {}

    @property
    def meta(self) -> "dict[str, Any]":
        """Its `_meta`."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}

    @property
    def version(self) -> str | None:
        """The revision that a request of the modern era names; None for any other message."""
        found = self.meta.get(VERSION_KEY)
        return found if is_text(found) else None

    @property
    def result(self) -> "dict[str, Any] | None":
        """The result of an answer; None for an error."""
        found = self.fields.get("result")
        return found if isinstance(found, dict) else None


def read(data: bytes) -> tuple[list[Message], bool]:
    """The messages in a line, a body or an event's data, each on one line; whether they came in an array.

    Raises Unreadable, with the id where one is to be seen.
    """
    raw = data.replace(b"\r", b" ").replace(b"\n", b" ").strip(b" \t")
    try:
        text = raw.removeprefix(b"\xef\xbb\xbf").decode()
        found, end = _scan(text, 0)
        if end != len(text):
            raise ValueError("something follows the message")
    except RecursionError:
        id = find_id(data, data)
        raise Unreadable("the message is nested too deeply", INVALID_REQUEST, id) from None
    except Exception as exc:  # StopIteration, or the json package's own error, or that this package is gone
        raise Unreadable("this is not JSON", PARSE_ERROR) from exc
    if isinstance(found, dict):
        return [Message(raw.removeprefix(b"\xef\xbb\xbf"), found)], False
    if not isinstance(found, list) or not found:
        raise Unreadable("a message is a JSON object", INVALID_REQUEST)
    return _members(text), True


def _members(text: str) -> list[Message]:
    """The messages of an array, each with its own bytes."""
    found: list[Message] = []
    position = 1
    while True:
        while text[position] in _SPACE or text[position] == ",":
            position += 1
        if text[position] == "]":
            return found
        start = position
        value, position = _scan(text, start)
        if not isinstance(value, dict):
            raise Unreadable("a message is a JSON object", INVALID_REQUEST)
        found.append(Message(text[start:position].encode(), value))


def quoted(id: str) -> str:
    """An id as it stands in JSON."""
    from _json import encode_basestring_ascii

    return str(id) if isinstance(id, Literal) else encode_basestring_ascii(id)


def error_in(data: bytes) -> tuple[str, str | None] | None:
    """The JSON-RPC error object in the body of a refusal as JSON text, and the id beside it; None if there is none."""
    try:
        [message], _ = read(data)
    except (Unreadable, ValueError):
        return None
    error = message.fields.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), Literal):
        return None
    return written(error), message.id


def written(value: "Any") -> str:
    """JSON of what was read here, numbers as they were."""
    from _json import encode_basestring_ascii

    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_basestring_ascii(key)}:{written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return {True: "true", False: "false", None: "null"}[value]

"""Replies of the bridge itself to its client, as JSON-RPC lines, and remarks on lines that are not JSON.

No I/O; loaded behind the first answer.

Only here is a client's line ever parsed, and only because nobody else can answer it. Numbers stay text: an id goes
back as it was written.
"""

from _json import encode_basestring_ascii, make_scanner, scanstring

from hearth.bridge.jsonlite import ScannerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
UNREACHABLE = -32603

_SPACE = " \t\r\n"
# The daemon's own questions have ids of this form (docs/protocol.md, Ids).
_QUESTION_PREFIX = "hearth-"
# Enough to recognise a stray print by.
SHOWN_CHARACTERS = 200
# Long runs that mix letters and digits are tokens far more often than words.
_TOKEN = r"(?=[A-Za-z_+/=.~-]*\d)(?=[\d_+/=.~-]*[A-Za-z])[A-Za-z0-9_+/=.~-]{16,}"
# The value that follows a name of a secret, with or without quotes.
_NAMED = (
    r"((?:token|secret|passw(?:or)?d|api[_-]?key|credential|authorization|bearer|cookie)\w*[\"']?\s*[:= ]\s*[\"']?"
    r"(?:bearer\s+|basic\s+)?)([^\s\"',;}]+)"
)
IN_DOUBT = " It had been handed to a daemon that gave no answer: it may or may not have run."


class Literal(str):
    """A JSON number, as it was written."""

    __slots__ = ()


class Literals(ScannerSettings):
    """Has the scanner leave numbers as they are."""

    parse_float = Literal
    parse_int = Literal
    parse_constant = Literal


_scan = make_scanner(Literals())  # type: ignore[arg-type]  # any object with these fields will do


def error(id: "Any", code: int, message: str) -> bytes:
    """Return an error response; without an id when that is None."""
    text = f'"error":{{"code":{code},"message":{encode_basestring_ascii(message)}}}'
    if id is None:
        return f'{{"jsonrpc":"2.0",{text}}}'.encode()
    written = id if isinstance(id, Literal) else encode_basestring_ascii(id)
    return f'{{"jsonrpc":"2.0","id":{written},{text}}}'.encode()


def withdrawal(question: str) -> bytes:
    """Tells the client that a question of a daemon that went away needs no answer."""
    params = f'{{"requestId":{encode_basestring_ascii(question)},"reason":"the daemon that asked is gone"}}'
    return f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}'.encode()


def failure(line: bytes, sentence: str, in_doubt: bool = False) -> bytes | None:
    """Return the answer to a line that cannot be passed on; None if it wants none (a notification, a response)."""
    if in_doubt:
        sentence = sentence.rstrip(".") + "." + IN_DOUBT
    try:
        text = line.decode().strip(_SPACE)
        message, end = _scan(text, 0)
        if end != len(text):
            raise ValueError("something follows the message")
    except RecursionError:
        # Too deep for the scanner of the standard library; the id is seldom down there.
        found = find_id(line, line)
        return None if found is None else error(found, UNREACHABLE, sentence)
    except Exception:  # StopIteration, or the json package's own error, or that this package is gone
        return error(None, PARSE_ERROR, "this line is not JSON; one message per line is expected")
    if isinstance(message, list):
        answers = [answer for item in message if (answer := _refuse(item, sentence))]
        return b"[" + b",".join(answers) + b"]" if answers else None
    return _refuse(message, sentence)


def _refuse(message: "Any", sentence: str) -> bytes | None:
    if not isinstance(message, dict):
        return error(None, INVALID_REQUEST, "a message is a JSON object")
    id = message.get("id")
    if "method" not in message or not isinstance(id, str):
        return None
    return error(id, UNREACHABLE, sentence)


def too_large(head: bytes, tail: bytes, limit: int) -> tuple[bytes | None, bytes | None]:
    """Return what to say about a skipped line: to the client, or to the daemon if it answered a question."""
    id = find_id(head, tail)
    sentence = f"the message is over the limit of {limit} bytes and was skipped; send less at once"
    reply = error(id, INVALID_REQUEST, sentence)
    if isinstance(id, str) and not isinstance(id, Literal) and id.startswith(_QUESTION_PREFIX):
        return None, reply
    return reply, None


def refusal_in(data: bytes) -> str | None:
    """Return why a daemon sends us away before it knows that we speak frames: then it says so in a line of JSON-RPC."""
    try:
        message, _ = _scan(data.decode(), 0)
        return str(message["error"]["message"])
    except Exception:  # anything else than that line
        return None


def find_id(head: bytes, tail: bytes) -> "Any":
    """Return the id of a message of which only the first and the last bytes are at hand; None if it is not to be seen.

    Only an id of the outermost object counts: one inside the params is somebody else's.
    """
    found = _find_ahead(head.decode("utf-8", "replace"))
    return found if found is not None else _find_behind(tail.decode("utf-8", "replace"))


def _find_ahead(text: str) -> "Any":
    """Walk over the members from the front, until the text breaks off."""
    position = _skip(text, 0)
    try:
        while text[position] in "{,":
            key, position = scanstring(text, _skip(text, position + 1) + 1)
            position = _skip(text, position)
            value, position = _scan(text, _skip(text, position + 1))
            # A number at the very end may have lost its last digits.
            if key == "id" and isinstance(value, str) and position < len(text):
                return value
            position = _skip(text, position)
    except Exception:  # the text breaks off, or never was JSON: there is nothing to see
        return None
    return None


def _find_behind(text: str) -> "Any":
    """Find an id that only flat members separate from the last bracket: that is the outermost object's."""
    start = text.rfind('"id"')
    if start < 0:
        return None
    try:
        members, end = _scan("{" + text[start:].rstrip(_SPACE), 0)
    except Exception:  # a value, or inside a string: there is nothing to see
        return None
    flat = all(isinstance(value, str) for value in members.values())
    return members.get("id") if flat and end == len(text[start:].rstrip(_SPACE)) + 1 else None


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def described(line: bytes) -> str:
    """Return the sentence for one line."""
    import re  # seldom needed, and heavy

    # Masked before it is cut: half a token has no name in front of it.
    text = line[: 16 * SHOWN_CHARACTERS].decode("utf-8", "replace")
    text = re.sub(_TOKEN, "***", re.sub(_NAMED, r"\1***", text, flags=re.IGNORECASE))
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    rest = len(printable) - SHOWN_CHARACTERS
    cut = printable[:SHOWN_CHARACTERS] + (" …" if rest > 0 else "")
    return f"a line of the client is not JSON, and was refused: {cut}"

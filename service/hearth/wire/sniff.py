"""Detection of a connection's protocol from its first bytes.

Nothing is configured: the first frame has a length below 2^24, HTTP begins with a method in capitals, the two line
protocols begin with an object whose keys tell them apart. A few empty lines before HTTP and lines are skipped. Nothing
else is checked: each protocol's own decoder refuses malformed input. Pure: the caller collects the bytes and asks again
when the result is None.
"""

import enum
import re

# Peers name their protocol near the start. A peer that puts its arguments first is read as MCP lines, whose
# decoder has its own limit and answers input that it cannot use.
SNIFF_LIMIT_BYTES = 64 * 1024

# First byte of the first frame's length: that frame is a hello or a command. Any other byte would mean 2^24 bytes or
# more, for which no reader should wait; such a byte can only be something else, for example a line end.
_FRAME_START = 0x00
# Most bytes of empty lines before the first message; RFC 9112, 2.2 asks a server to skip at least one empty line.
BLANK_LIMIT_BYTES = 16
_BLANK = b"\r\n"
_OBJECT = b"{"[0]
# A string (with the colon that makes it a key), a bracket, or a run of the other characters that JSON has outside
# strings. The empty alternatives are for Python before 3.11.5, as in `scan`.
_STRING_START = rb'"(?>[^"\\\x00-\x1f]++|\\[^\x00-\x1f]|)*+'
_TOKEN = rb"(" + _STRING_START + rb'")(?>[ \t\r\n]*+(:)|)|([{\[])|([}\]])|[ \t\r\n,:0-9+\-.eEtrufalsn]++'


class DetectedProtocol(enum.Enum):
    """Protocol spoken on a connection."""

    FRAMES = "frames"
    HTTP = "http"
    LINES = "lines"
    SESSION = "session"
    UNKNOWN = "unknown"


_KEYS = {b'"jsonrpc"': DetectedProtocol.LINES, b'"type"': DetectedProtocol.SESSION}


def sniff(first: bytes) -> DetectedProtocol | None:
    """Return the protocol of a connection that begins with these bytes; None if more bytes are needed.

    The result does not change when more bytes follow; SNIFF_LIMIT_BYTES are always enough.
    """
    if not first:
        return None
    if first[0] in _BLANK:
        return _sniff_behind(first.lstrip(_BLANK), len(first))
    return DetectedProtocol.FRAMES if first[0] == _FRAME_START else _sniff_text(first)


def _sniff_behind(rest: bytes, size: int) -> DetectedProtocol | None:
    """Return the protocol of the bytes after empty lines, which no frame follows."""
    if size - len(rest) > BLANK_LIMIT_BYTES:
        return DetectedProtocol.UNKNOWN
    return _sniff_text(rest) if rest else None


def _sniff_text(first: bytes) -> DetectedProtocol | None:
    byte = first[0]
    if ord("A") <= byte <= ord("Z"):
        return DetectedProtocol.HTTP
    if byte != _OBJECT:  # a batch begins with `[`, and none may come before `initialize`
        return DetectedProtocol.UNKNOWN
    found = _sniff_object(first[:SNIFF_LIMIT_BYTES])
    if found is None and len(first) >= SNIFF_LIMIT_BYTES:
        return DetectedProtocol.LINES
    return found


def _sniff_object(data: bytes) -> DetectedProtocol | None:
    """Return the protocol that the first matching key at the top level names."""
    match_token = re.compile(_TOKEN).match  # only lines need it, and the bridge speaks frames
    depth, position, end = 0, 0, len(data)
    while position < end:
        token = match_token(data, position)
        if not token:
            is_unfinished = re.compile(_STRING_START + rb"\\?").fullmatch(data, position)
            return None if is_unfinished else DetectedProtocol.UNKNOWN
        string, colon, opening, closing = token.groups()
        if colon and depth == 1 and string in _KEYS:
            return _KEYS[string]
        depth += bool(opening) - bool(closing)
        if depth == 0:
            return DetectedProtocol.UNKNOWN
        position = token.end()
    return None

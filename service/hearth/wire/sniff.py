"""Which language a connection speaks, told by its first bytes.

Nothing is configured: the first frame has a length below 2^24, HTTP begins with a method in capitals, the two line
languages with an object whose keys tell them apart; before HTTP and lines, a few empty lines are passed over. Nothing
is checked beyond that: each language's own decoder refuses what is wrong in it. Pure: the caller collects the bytes and
asks again when the answer is None.
"""

import enum
import re

# Peers that know what they speak name it at the start. One that puts its arguments first is read as MCP
# lines, whose decoder has its own limit and answers what it cannot use.
SNIFF_LIMIT_BYTES = 64 * 1024

# Of the first frame's length: it is a hello or a command. What is longer could only be something else, such as a line
# end, and nobody would wait for all of it.
_FRAME_START = 0x00
# As many bytes of empty lines before what is said; RFC 9112, 2.2 wants one line to be passed over.
BLANK_LIMIT_BYTES = 16
_BLANK = b"\r\n"
_OBJECT = b"{"[0]
# A string (with the colon that makes it a key), a bracket, or a run of what else JSON has outside strings. The
# empty alternatives are for Python before 3.11.5, as in `scan`.
_STRING_START = rb'"(?>[^"\\\x00-\x1f]++|\\[^\x00-\x1f]|)*+'
_TOKEN = rb"(" + _STRING_START + rb'")(?>[ \t\r\n]*+(:)|)|([{\[])|([}\]])|[ \t\r\n,:0-9+\-.eEtrufalsn]++'


class Language(enum.Enum):
    """What is spoken on a connection."""

    FRAMES = "frames"
    HTTP = "http"
    LINES = "lines"
    SESSION = "session"
    UNKNOWN = "unknown"


_KEYS = {b'"jsonrpc"': Language.LINES, b'"type"': Language.SESSION}


def sniff(first: bytes) -> Language | None:
    """The language of a connection that begins with these bytes; None when more are needed to tell.

    An answer does not change when more bytes follow, and none is needed beyond SNIFF_LIMIT_BYTES.
    """
    if not first:
        return None
    if first[0] in _BLANK:
        return _sniff_behind(first.lstrip(_BLANK), len(first))
    return Language.FRAMES if first[0] == _FRAME_START else _sniff_text(first)


def _sniff_behind(rest: bytes, size: int) -> Language | None:
    """What comes behind empty lines: no frame does."""
    if size - len(rest) > BLANK_LIMIT_BYTES:
        return Language.UNKNOWN
    return _sniff_text(rest) if rest else None


def _sniff_text(first: bytes) -> Language | None:
    byte = first[0]
    if ord("A") <= byte <= ord("Z"):
        return Language.HTTP
    if byte != _OBJECT:  # a batch begins with `[`, and none may come before `initialize`
        return Language.UNKNOWN
    found = _sniff_object(first[:SNIFF_LIMIT_BYTES])
    if found is None and len(first) >= SNIFF_LIMIT_BYTES:
        return Language.LINES
    return found


def _sniff_object(data: bytes) -> Language | None:
    """The first key at the top level that names a language decides."""
    match_token = re.compile(_TOKEN).match  # only lines need it, and the bridge speaks frames
    depth, position, end = 0, 0, len(data)
    while position < end:
        token = match_token(data, position)
        if not token:
            is_unfinished = re.compile(_STRING_START + rb"\\?").fullmatch(data, position)
            return None if is_unfinished else Language.UNKNOWN
        string, colon, opening, closing = token.groups()
        if colon and depth == 1 and string in _KEYS:
            return _KEYS[string]
        depth += bool(opening) - bool(closing)
        if depth == 0:
            return Language.UNKNOWN
        position = token.end()
    return None

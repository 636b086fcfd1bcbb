"""Check for the token of a daemon on TCP in the first bytes of a connection. No I/O.

frames   the first frame's header has `token`
lines    the first line is `Authorization: Bearer TOKEN`; the messages follow
HTTP     each request has the header; the HTTP package checks it
"""

import enum
import hmac

from hearth.errors import WireError
from hearth.wire import json

# The size of a hello with its longest values; a longer first frame or first line cannot hold a valid token.
FIRST_LIMIT_BYTES = 128 * 1024
_PREFIX = b"authorization:"
_LENGTH_BYTES, _HEADER_BYTES = 4, 6


class TokenVerdict(enum.Enum):
    """Verdict on the bytes that a connection has sent so far."""

    MORE = "more"
    SHOWN = "shown"
    REFUSED = "refused"
    HTTP = "http"


def check(first: bytes, token: str) -> tuple[TokenVerdict, bytes]:
    """Return the verdict, and the bytes that are left for the connection's protocol."""
    if not first:
        return TokenVerdict.MORE, first
    if first[0] == 0:
        return _check_frame(first, token), first
    if _PREFIX.startswith(first[: len(_PREFIX)].lower()):
        return _check_line(first, token)
    return (TokenVerdict.HTTP if first[:1].isupper() else TokenVerdict.REFUSED), first


def is_token(given: object, token: str) -> bool:
    """Tell whether `given` is the token, in constant time."""
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _check_frame(first: bytes, token: str) -> TokenVerdict:
    total = int.from_bytes(first[:_LENGTH_BYTES], "big")
    if total > FIRST_LIMIT_BYTES and len(first) >= _LENGTH_BYTES:
        return TokenVerdict.REFUSED
    if len(first) < _LENGTH_BYTES + total or len(first) < _HEADER_BYTES:
        return TokenVerdict.MORE
    size = int.from_bytes(first[_LENGTH_BYTES:_HEADER_BYTES], "big")
    try:
        header = json.loads(first[_HEADER_BYTES : _HEADER_BYTES + size])
    except WireError:
        return TokenVerdict.REFUSED
    is_shown = isinstance(header, dict) and is_token(header.get("token"), token)
    return TokenVerdict.SHOWN if is_shown else TokenVerdict.REFUSED


def _check_line(first: bytes, token: str) -> tuple[TokenVerdict, bytes]:
    line, end, rest = first.partition(b"\n")
    if not end:
        return (TokenVerdict.MORE if len(first) < FIRST_LIMIT_BYTES else TokenVerdict.REFUSED), first
    scheme, _, given = line[len(_PREFIX) :].decode("latin-1").strip().partition(" ")
    is_shown = scheme.lower() == "bearer" and is_token(given.strip(), token)
    return (TokenVerdict.SHOWN if is_shown else TokenVerdict.REFUSED), rest

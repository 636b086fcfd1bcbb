"""Event ids: the session, the stream and the message of an event, and the request to answer if these are lost. Pure.

    EPOCH-STREAM-NUMBER            the general stream, or one that answers many requests
    EPOCH-STREAM-REQUEST-NUMBER    the stream of one request

An epoch identifies the time of a session in one daemon: random bytes, and a few bytes of a hash over them and the
session's id, by which any daemon recognizes the session's own ids. The numbers of streams and messages start again in
each epoch: an id of a former epoch must not be taken for a current one. REQUEST is the request's own id, in hexadecimal
digits: a client that resumes for an answer that was lost with its daemon gets an error, and no daemon has to remember
the request.
"""

import hashlib
import os
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.wire import json

_EPOCH_BYTES = 4
_MARK_BYTES = 4
# Far more digits than a counter reaches.
_DIGITS_LIMIT = 20
# Clients use counters or UUIDs; a longer request id is left out of the event id.
_REQUEST_LIMIT_BYTES = 64


class Place(NamedTuple):
    """Content of an event id: a message of a stream, and the raw id of the request that the stream answers."""

    epoch: str
    stream: int
    number: int
    request: bytes | None = None


def new_epoch(session: str) -> str:
    """Return a new epoch, different from all that the client of that session has seen."""
    return _epoch(os.urandom(_EPOCH_BYTES), session)


def is_of(place: Place, session: str) -> bool:
    """Tell whether an event id belongs to that session, in any epoch."""
    return place.epoch == _epoch(bytes.fromhex(place.epoch)[:_EPOCH_BYTES], session)


def _epoch(random: bytes, session: str) -> str:
    return (random + hashlib.sha256(random + session.encode()).digest()[:_MARK_BYTES]).hex()


def stream_name(epoch: str, stream: int, request: bytes | None) -> bytes:
    """Return the prefix of all event ids of one stream."""
    if request is None or len(request) > _REQUEST_LIMIT_BYTES:
        return b"%b-%d" % (epoch.encode(), stream)
    return b"%b-%d-%b" % (epoch.encode(), stream, request.hex().encode())


def parse(text: str) -> Place | None:
    """Return the content of an event id, or None for other text."""
    epoch, *rest = text.split("-")
    if len(rest) not in (2, 3) or not _is_hexadecimal(epoch, 2 * (_EPOCH_BYTES + _MARK_BYTES)):
        return None
    stream, number = _counted(rest[0]), _counted(rest[-1])
    if stream is None or number is None:
        return None
    if len(rest) == 2:
        return Place(epoch, stream, number)
    request = _request(rest[1])
    return None if request is None else Place(epoch, stream, number, request)


def _counted(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_LIMIT else None


def _is_hexadecimal(text: str, size: int) -> bool:
    return len(text) == size and set(text) <= set("0123456789abcdef")


def _request(text: str) -> bytes | None:
    """Return the raw id of a request if it is valid: it is a client's input and becomes part of an answer."""
    if len(text) > 2 * _REQUEST_LIMIT_BYTES or not _is_hexadecimal(text, len(text)) or len(text) % 2:
        return None
    raw = bytes.fromhex(text)
    try:
        value = json.loads(raw)
    except MessageError:
        return None
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return json.one_line(raw).strip() if is_id else None

"""The ids of events: whose stream, which message of it, and what to do about it when both are gone. Pure.

    EPOCH-STREAM-NUMBER            the general stream, or one that answers many requests
    EPOCH-STREAM-REQUEST-NUMBER    the stream of one request

An epoch is one life of a session in one daemon: something random, and a few bytes of a hash over that and the session's
id, by which any daemon knows that session's own. Streams and messages are counted anew in each: an id of a
former one must not be taken for one of now. REQUEST is the request's own id, in hexadecimal digits: a client that comes
back for an answer that died with its daemon can be told so, and nobody has to remember what was asked.
"""

import hashlib
import os
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.wire import json

_EPOCH_BYTES = 4
_MARK_BYTES = 4
# Counters, never near it.
_DIGITS_LIMIT = 20
# Clients count, or have a UUID; a longer id is left out of the event's.
_REQUEST_LIMIT_BYTES = 64


class Place(NamedTuple):
    """What an event id names: a message of a stream, and the raw id of the request that the stream is for."""

    epoch: str
    stream: int
    number: int
    request: bytes | None = None


def new_epoch(session: str) -> str:
    """Another one than any that the client of that session has seen."""
    return _epoch(os.urandom(_EPOCH_BYTES), session)


def is_of(place: Place, session: str) -> bool:
    """Whether it is of that session, in whatever life."""
    return place.epoch == _epoch(bytes.fromhex(place.epoch)[:_EPOCH_BYTES], session)


def _epoch(random: bytes, session: str) -> str:
    return (random + hashlib.sha256(random + session.encode()).digest()[:_MARK_BYTES]).hex()


def stream_name(epoch: str, stream: int, request: bytes | None) -> bytes:
    """What the ids of all events of one stream begin with."""
    if request is None or len(request) > _REQUEST_LIMIT_BYTES:
        return b"%b-%d" % (epoch.encode(), stream)
    return b"%b-%d-%b" % (epoch.encode(), stream, request.hex().encode())


def parse(text: str) -> Place | None:
    """The place that an event id names; None for what is no such id."""
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
    """The raw id of a request; it comes from outside, and goes back as part of an answer."""
    if len(text) > 2 * _REQUEST_LIMIT_BYTES or not _is_hexadecimal(text, len(text)) or len(text) % 2:
        return None
    raw = bytes.fromhex(text)
    try:
        value = json.loads(raw)
    except MessageError:
        return None
    is_id = isinstance(value, str | int) and not isinstance(value, bool)
    return json.one_line(raw).strip() if is_id else None

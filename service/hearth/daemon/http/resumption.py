"""Resuming of streams: the format of event ids, and the replay buffers. Independent of HTTP.

An event id names the stream and the message of an event, and the request to answer if these are lost:

    EPOCH-STREAM-NUMBER            the general stream, or one that answers many requests
    EPOCH-STREAM-REQUEST-NUMBER    the stream of one request

An epoch identifies the time of a session in one daemon: random bytes, and a few bytes of a hash over them and the
session's id, by which any daemon recognizes the session's own ids. The numbers of streams and messages start again in
each epoch: an id of a former epoch must not be taken for a current one. REQUEST is the request's own id, in hexadecimal
digits: a client that resumes for an answer that was lost with its daemon gets an error, and no daemon has to remember
the request.

A replay buffer has answered streams that a client may resume for messages that it has not read, or that were in flight
when the connection broke. Buffers are bounded for each session, and for all sessions together.
"""

import hashlib
import os
from typing import NamedTuple

from hearth.daemon.http.streams import Stream
from hearth.errors import MessageError
from hearth.wire import json

_EPOCH_BYTES = 4
_MARK_BYTES = 4
# Far more digits than a counter reaches.
_DIGITS_LIMIT = 20
# Clients use counters or UUIDs; a longer request id is left out of the event id.
_REQUEST_LIMIT_BYTES = 64


class EventId(NamedTuple):
    """Content of an event id: a message of a stream, and the raw id of the request that the stream answers."""

    epoch: str
    stream: int
    number: int
    request: bytes | None = None


def new_epoch(session: str) -> str:
    """Return a new epoch, different from all that the client of that session has seen."""
    return _epoch(os.urandom(_EPOCH_BYTES), session)


def is_event_of(place: EventId, session: str) -> bool:
    """Tell whether an event id belongs to that session, in any epoch."""
    return place.epoch == _epoch(bytes.fromhex(place.epoch)[:_EPOCH_BYTES], session)


def _epoch(random: bytes, session: str) -> str:
    return (random + hashlib.sha256(random + session.encode()).digest()[:_MARK_BYTES]).hex()


def stream_name(epoch: str, stream: int, request: bytes | None) -> bytes:
    """Return the prefix of all event ids of one stream."""
    if request is None or len(request) > _REQUEST_LIMIT_BYTES:
        return b"%b-%d" % (epoch.encode(), stream)
    return b"%b-%d-%b" % (epoch.encode(), stream, request.hex().encode())


def parse_event_id(text: str) -> EventId | None:
    """Return the content of an event id, or None for other text."""
    epoch, *rest = text.split("-")
    if len(rest) not in (2, 3) or not _is_hexadecimal(epoch, 2 * (_EPOCH_BYTES + _MARK_BYTES)):
        return None
    stream, number = _counted(rest[0]), _counted(rest[-1])
    if stream is None or number is None:
        return None
    if len(rest) == 2:
        return EventId(epoch, stream, number)
    request = _request(rest[1])
    return None if request is None else EventId(epoch, stream, number, request)


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


# Limits of one session.
STREAMS_LIMIT = 64
LIMIT_BYTES = 16 * 1024 * 1024
# Limit of all sessions: the default size of the largest message. A thousand sessions, each at its own limit, would take
# 16 GB of memory for clients of which nearly all will never resume a stream.
TOTAL_LIMIT_BYTES = 64 * 1024 * 1024


class Total:
    """Total size of the replay buffers of all sessions."""

    def __init__(self) -> None:
        self.size = 0
        # The buffers that are not empty.
        self._keepers: set[ReplayBuffer] = set()

    def count(self, keeper: "ReplayBuffer", more: int) -> None:
        """Add a change in size of one buffer, in bytes."""
        self.size += more
        if keeper.size:
            self._keepers.add(keeper)
        else:
            self._keepers.discard(keeper)

    def trim(self, newcomer: "ReplayBuffer") -> None:
        """Drop the oldest streams of the largest buffers, but never the one just added: its client may be reading."""
        while self.size > TOTAL_LIMIT_BYTES:
            others = (each for each in self._keepers if each is not newcomer or len(each) > 1)
            largest = max(others, key=lambda each: each.size, default=None)
            if largest is None:
                return
            largest.drop_oldest()


class ReplayBuffer:
    """Answered streams of one session, by their numbers, the oldest first."""

    def __init__(self, total: Total) -> None:
        self.size = 0
        self._total = total
        # With the size that each stream had at its end; it only shrinks later.
        self._streams: dict[int, tuple[Stream, int]] = {}
        # The streams that were here at the last sweep.
        self._old: set[int] = set()
        self._is_over = False

    def __len__(self) -> int:
        return len(self._streams)

    def get(self, number: int) -> Stream | None:
        """Return the stream of that number, if it is still here."""
        found = self._streams.get(number)
        return found[0] if found else None

    def add(self, stream: Stream) -> None:
        """Add a stream that has ended. Older ones, of this session or another, may be dropped for it."""
        if self._is_over:
            return
        size = stream.size
        self._streams[stream.number] = (stream, size)
        self._count(size)
        while len(self) > STREAMS_LIMIT or (self.size > LIMIT_BYTES and len(self) > 1):
            self.drop_oldest()
        self._total.trim(self)

    def drop_oldest(self) -> None:
        """Drop the oldest stream; the buffer must not be empty."""
        self.drop(next(iter(self._streams)))

    def drop(self, number: int) -> None:
        """Drop a stream that will not, or must not, be resumed."""
        found = self._streams.pop(number, None)
        if found:
            self._count(-found[1])

    def sweep(self) -> None:
        """Drop the streams that were read to their end before the last sweep: their clients have not resumed them."""
        for number in self._old:
            stream = self.get(number)
            if stream and not stream.waiting:
                self.drop(number)
        self._old = set(self._streams)

    def close(self) -> None:
        """Drop everything because the session is over; streams of calls that end later are not added."""
        self._is_over = True
        self._streams.clear()
        self._count(-self.size)

    def _count(self, more: int) -> None:
        if more:
            self.size += more
            self._total.count(self, more)

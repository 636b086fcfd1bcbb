"""Server-sent events: chunks of a byte stream in, events out.

The stream is interpreted as in the HTML standard (section 9.2.6): lines end with CR, LF or both; a blank line ends an
event; an event cut off by the end of the stream is dropped. This module knows nothing of the content of events.
"""

from typing import NamedTuple

from hearth.errors import TooLarge

_BOM = b"\xef\xbb\xbf"
_MESSAGE = "message"
# Ids go into a header of the next request, where servers take 8 KiB for all headers together.
ID_LIMIT_BYTES = 1024
# A name is a word; no caller waits for a longer one.
_NAME_LIMIT_BYTES = 256
# Eleven days in milliseconds; larger values are cut to this.
_RETRY_DIGITS = 9


class Event(NamedTuple):
    """One event. `data` has its lines joined by LF."""

    name: str
    data: bytes


class SseDecoder:
    """Decoder of a stream into events. `limit` bounds the bytes of one event's data, and of any line.

    An event over the limit yields one `TooLarge` at once; its rest is skipped, and the stream continues.
    """

    __slots__ = (
        "_after_return", "_begun", "_buffer", "_data", "_id", "_limit", "_name", "_oversize", "_size", "_skipping",
        "last_id", "retry",
    )  # fmt: skip

    def __init__(self, limit: int, last_id: bytes = b"") -> None:
        # The id of the last event that was whole, and the pause before the next connection, in milliseconds.
        self.last_id = self._id = last_id
        self.retry: int | None = None
        self._limit = limit
        self._buffer = bytearray()  # the line that has not ended
        self._skipping = False  # inside a line over the limit
        self._oversize = False  # inside an event over the limit
        self._after_return = False  # an LF that comes next belongs to the CR before it
        self._begun = False  # the first line has been seen
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    def receive_data(self, data: bytes) -> list[Event | TooLarge]:
        """Take bytes; return the events they complete, in order."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        elif not data:
            return []
        self._after_return = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        found: list[Event | TooLarge] = []
        for line in lines:
            self._take_line(self._whole(line, found), found)
        self._keep(rest, found)
        return found

    def _whole(self, line: bytes, found: list[Event | TooLarge]) -> bytes:
        self._keep(line, found)
        whole, self._buffer = bytes(self._buffer), bytearray()
        if self._skipping:
            # Replaced by a comment line, so that the rest of the event is kept.
            self._skipping, whole = False, b":"
        if not self._begun:
            self._begun = True
            whole = whole.removeprefix(_BOM)
        return whole

    def _keep(self, piece: bytes, found: list[Event | TooLarge]) -> None:
        if self._skipping:
            return
        self._buffer += piece
        if len(self._buffer) > self._limit + len(b"data: "):
            if self._buffer.startswith(b"data"):
                self._give_up(found)
            self._buffer, self._skipping = bytearray(), True

    def _give_up(self, found: list[Event | TooLarge]) -> None:
        if not self._oversize:
            self._oversize, self._data = True, []
            found.append(TooLarge(f"an event was skipped: it is over the limit of {self._limit} bytes (message_limit)"))

    def _take_line(self, line: bytes, found: list[Event | TooLarge]) -> None:
        if not line:
            self._end_event(found)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._take_data(value, found)
        elif field == b"event":
            self._name = value if len(value) <= _NAME_LIMIT_BYTES else b"?"
        elif field == b"id":
            # The standard ignores an id with a NUL; no header could carry one with another control character.
            if len(value) <= ID_LIMIT_BYTES and all(byte >= 0x20 and byte != 0x7F for byte in value):
                self._id = value
        elif field == b"retry" and value.isdigit():
            self.retry = int(value) if len(value) <= _RETRY_DIGITS else 10**_RETRY_DIGITS

    def _take_data(self, value: bytes, found: list[Event | TooLarge]) -> None:
        self._size += len(value) + bool(self._data)
        if self._size > self._limit:
            self._give_up(found)
        elif not self._oversize:
            self._data.append(value)

    def _end_event(self, found: list[Event | TooLarge]) -> None:
        self.last_id = self._id
        data = b"\n".join(self._data)
        if data:
            # An event without data only sets the id: servers begin a stream with one.
            found.append(Event(self._name.decode(errors="replace") or _MESSAGE, data))
        self._name, self._data, self._size, self._oversize = b"", [], 0, False

"""Client sink of an HTTP session: sorts the hub's messages into one stream per request, and one for everything else.

Each message is sent on exactly one stream. Independent of HTTP itself.
"""

import itertools

from hearth.daemon.http import http_messages
from hearth.daemon.http.session_store import SessionJournal
from hearth.daemon.http.streams import ReplayBuffer, Stream, Total
from hearth.errors import HearthError
from hearth.hub.sinks import ClientSink
from hearth.mcp import messages
from hearth.wire import json

# Tag of replayed lines: no stream has this number, so their answers are discarded.
REPLAYED = -1


class HttpSink(ClientSink):
    """Client sink of one session. `limit` bounds the bytes that wait for the reader of one stream.

    Clients may resume `resumable` streams; with a `book` the session outlives the daemon. `id` is the name by which
    clients refer to the session. `total` is the size of the replay buffers of all sessions.
    """

    def __init__(
        self, limit: int, resumable: bool, book: SessionJournal | None = None, id: str = "", total: Total | None = None
    ) -> None:
        self._limit = limit
        self._resumable = resumable
        self._book = book
        self._id = id
        self._epoch = http_messages.new_epoch(id) if resumable else ""
        # The messages of requests that are not finished: the hub may ask to keep one.
        self._messages: dict[int, json.Message] = {}
        self._tags = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._finished = ReplayBuffer(total or Total())
        # The general stream, number 0, for messages that belong to no request.
        self.general = Stream(0, limit, resumable)
        # Send everything on the general stream: clients of the oldest revision have one stream only.
        self.is_single = False
        # End the general stream as soon as no request waits for an answer on it.
        self._is_ending = False
        # The tags of streams that stay open after their request was handled.
        self.attended: set[int] = set()

    # --- interface for the HTTP modules

    def begin(self) -> int:
        """Create the stream of a new request and return its tag, which is the number of the stream."""
        tag = next(self._tags)
        self._streams[tag] = Stream(tag, self._limit, self._resumable)
        return tag

    def answered(self, request: bytes, payload: bytes) -> Stream:
        """Return a stream with the answer to a request that a former daemon received."""
        tag = self.begin()
        stream = self._streams[tag]
        stream.request = request
        self.answer(tag, payload)
        return stream

    def carry(self, tag: int, message: json.Message) -> None:
        """Attach the message of a request to its tag."""
        if message.method is not None:
            self._streams[tag].request = message.id
        if self._book:
            self._messages[tag] = message

    def carry_batch(self, tag: int, batch: json.Batch) -> None:
        """Attach the messages of a batch to its tag."""
        messages = [item for item in batch.items if isinstance(item, json.Message) and item.method is not None]
        self._streams[tag].batch = [message.id for message in messages if message.id is not None]

    def name(self, stream: Stream) -> bytes:
        """Return the prefix of the stream's event ids."""
        return http_messages.stream_name(self._epoch, stream.number, stream.request)

    def knows(self, place: http_messages.EventId) -> bool:
        """Tell whether an event id belongs to this session, in this daemon or a former one."""
        return http_messages.is_event_of(place, self._id)

    def is_own(self, place: http_messages.EventId) -> bool:
        """Tell whether an event id is of this session's current epoch."""
        return place.epoch == self._epoch

    def stream(self, tag: int) -> Stream | None:
        """Return the stream of that number, if it is open or can be replayed."""
        if not tag:
            return self.general
        return self._streams.get(tag) or self._finished.get(tag)

    def forget(self, tag: int) -> None:
        """Drop a stream that its client has read completely, or no longer wants."""
        self._streams.pop(tag, None)
        self._finished.drop(tag)
        self._messages.pop(tag, None)
        self.attended.discard(tag)

    def abandon(self, stream: Stream) -> None:
        """Discard the outcome of a request whose client has disconnected and cannot resume the stream."""
        stream.abandoned = True
        self._finished.drop(stream.number)

    def sweep(self) -> None:
        """Drop the streams that were read to their end some time ago and were not resumed."""
        self._finished.sweep()

    def end_standing(self) -> None:
        """End the streams that would stay open forever; pending requests are still answered."""
        for tag in self.attended:
            if tag in self._streams:
                self._streams[tag].end()
        self._is_ending = True
        self._end_general()

    def _end_general(self) -> None:
        if self._is_ending and not (self.is_single and self._streams.keys() - self.attended):
            self.general.end()

    def end_all(self) -> None:
        """End all streams; requests that still wait for an answer get an error."""
        for tag, stream in self._streams.items():
            if stream.owes and tag not in self.attended:
                stream.add_answer(_unanswered(stream))
            stream.end()
        self.general.end()
        self._finished.close()

    # --- interface for the hub

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        if self.is_single:
            self.general.add(payload)
            self._streams.pop(tag, None)
            self._end_general()
            return
        # Before the answer: a client that has it may rely on the state that was set.
        self._note(tag, keep, drop)
        stream = self._streams.get(tag)
        if stream:
            stream.add_answer(payload)
            self._end(tag, stream)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self._note(tag, keep, drop)
        stream = self._streams.get(tag)
        if stream:
            self._end(tag, stream)

    def _end(self, tag: int, stream: Stream) -> None:
        stream.end()
        del self._streams[tag]
        if self._resumable and not stream.abandoned:
            self._finished.add(stream)
        self._end_general()

    def _note(self, tag: int, keep: str | None, drop: str | None) -> None:
        message = self._messages.pop(tag, None)
        if keep is not None and message is not None:
            self.keep_line(tag, keep, json.join(message.fields))
        if drop is not None:
            self.drop_line(drop)

    def attend(self, tag: int, keep: str) -> None:
        self.attended.add(tag)

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        # Replayed lines are kept already.
        if self._book and tag != REPLAYED:
            self._book.keep(key, line)

    def drop_line(self, key: str) -> None:
        if self._book:
            self._book.drop(key)

    def notify(self, payload: bytes, topic: str | None = None, about: int | None = None) -> None:
        self._about(about).add_notice(payload, topic)

    def tell(self, payload: bytes, about: int | None = None) -> None:
        self._about(about).add(payload)

    def ask(self, question: str, payload: bytes, about: int | None = None) -> None:
        self._about(about).add(payload)

    def _about(self, tag: int | None) -> Stream:
        return self._streams.get(tag or 0, self.general) if not self.is_single else self.general

    def close(self) -> None:
        self.end_all()


def _unanswered(stream: Stream) -> bytes:
    problem = HearthError("the session was ended before this request was answered; it may or may not have run")
    if stream.request is not None:
        return messages.failure(stream.request, problem)
    return b"[%b]" % b",".join([messages.failure(id, problem) for id in stream.batch])

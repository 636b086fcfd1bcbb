"""What the hub says to a session that speaks HTTP, sorted into streams: one for each request, one for everything else.

A message goes on exactly one stream. Knows nothing of HTTP itself.
"""

import itertools

from hearth.daemon.http import event_ids
from hearth.daemon.http.replay import ReplayBuffer, Total
from hearth.daemon.http.session_store import SessionJournal
from hearth.daemon.http.streams import Stream
from hearth.errors import HearthError
from hearth.mcp import messages
from hearth.wire import json

# Of what is told to a later daemon the answers go nowhere: no stream has this number.
REPLAYED = -1


class HttpSink:
    """The outlet of one session. `limit` is of the bytes that wait for a reader of one stream.

    `resumable`: clients may come back for what they missed. `book`: they may also do so after the daemon's end.
    `id` is how they name the session. `total` is what all sessions keep for them.
    """

    hears_of_owner = False

    def __init__(
        self, limit: int, resumable: bool, book: SessionJournal | None = None, id: str = "", total: Total | None = None
    ) -> None:
        self._limit = limit
        self._resumable = resumable
        self._book = book
        self._id = id
        self._epoch = event_ids.new_epoch(id) if resumable else ""
        # The messages of requests that are not dealt with yet: the hub may want one to be kept.
        self._messages: dict[int, json.Message] = {}
        self._tags = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._finished = ReplayBuffer(total or Total())
        # For what no request is the reason of; its number is 0.
        self.general = Stream(0, limit, resumable)
        # Where everything goes, for clients of the oldest revision: they have one stream.
        self.is_single = False
        # The general stream ends as soon as nobody waits for an answer on it.
        self._is_ending = False
        # Streams that go on after their request was dealt with.
        self.attended: set[int] = set()

    # --- for those who speak HTTP

    def begin(self) -> int:
        """A request has come: its tag. Its stream has the same number."""
        tag = next(self._tags)
        self._streams[tag] = Stream(tag, self._limit, self._resumable)
        return tag

    def answered(self, request: bytes, payload: bytes) -> Stream:
        """A stream for a request that came to a former daemon, with its answer."""
        tag = self.begin()
        stream = self._streams[tag]
        stream.request = request
        self.answer(tag, payload)
        return stream

    def carry(self, tag: int, message: json.Message) -> None:
        """What the request of that tag is."""
        if message.method is not None:
            self._streams[tag].request = message.id
        if self._book:
            self._messages[tag] = message

    def carry_batch(self, tag: int, batch: json.Batch) -> None:
        """The same for many at once."""
        messages = [item for item in batch.items if isinstance(item, json.Message) and item.method is not None]
        self._streams[tag].batch = [message.id for message in messages if message.id is not None]

    def name(self, stream: Stream) -> bytes:
        """What the ids of its events begin with."""
        return event_ids.stream_name(self._epoch, stream.number, stream.request)

    def knows(self, place: event_ids.Place) -> bool:
        """Whether an event id is of this session, in this life or a former one."""
        return event_ids.is_of(place, self._id)

    def is_own(self, place: event_ids.Place) -> bool:
        """Whether an event id is of this life of the session, and not of a former one."""
        return place.epoch == self._epoch

    def stream(self, tag: int) -> Stream | None:
        """The stream of that number, if anything is left of it."""
        if not tag:
            return self.general
        return self._streams.get(tag) or self._finished.get(tag)

    def forget(self, tag: int) -> None:
        """Its client has everything, or wants nothing more."""
        self._streams.pop(tag, None)
        self._finished.drop(tag)
        self._messages.pop(tag, None)
        self.attended.discard(tag)

    def abandon(self, stream: Stream) -> None:
        """Its client has gone, and cannot come back: what becomes of the request is told to nobody."""
        stream.abandoned = True
        self._finished.drop(stream.number)

    def sweep(self) -> None:
        """Forget what was read to its end some time ago: nobody has come back for it."""
        self._finished.sweep()

    def end_standing(self) -> None:
        """End what would go on for ever; requests that are being answered are."""
        for tag in self.attended:
            if tag in self._streams:
                self._streams[tag].end()
        self._is_ending = True
        self._end_general()

    def _end_general(self) -> None:
        if self._is_ending and not (self.is_single and self._streams.keys() - self.attended):
            self.general.end()

    def end_all(self) -> None:
        """Nothing more will be said, but to those who still wait for an answer that there is none."""
        for tag, stream in self._streams.items():
            if stream.owes and tag not in self.attended:
                stream.add_answer(_unanswered(stream))
            stream.end()
        self.general.end()
        self._finished.close()

    # --- for the hub

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        if self.is_single:
            self.general.add(payload)
            self._streams.pop(tag, None)
            self._end_general()
            return
        # First: whoever has the answer may rely on what was set.
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
        # What is replayed is kept already.
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

    def settled(self, question: str) -> None:
        pass

    def owner_changed(self, owner: str, is_owner: bool) -> None:
        pass

    def owes(self) -> bool:
        return False

    def close(self) -> None:
        self.end_all()


def _unanswered(stream: Stream) -> bytes:
    problem = HearthError("the session was ended before this request was answered; it may or may not have run")
    if stream.request is not None:
        return messages.failure(stream.request, problem)
    return b"[%b]" % b",".join([messages.failure(id, problem) for id in stream.batch])

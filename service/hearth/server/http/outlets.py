"""What the hub says to a session that speaks HTTP, sorted into streams: one for each request, one for everything else.

A message goes on exactly one stream. Knows nothing of HTTP itself.
"""

import itertools
from collections import OrderedDict

from hearth.server.http.streams import Stream

# Streams of requests that were answered while nobody read: their clients may come back for the answers.
FINISHED_LIMIT = 64


class HttpOutlet:
    """The outlet of one session. `limit` is of the bytes that wait for a reader of one stream.

    `resumable`: clients may come back for what they missed.
    """

    def __init__(self, limit: int, resumable: bool) -> None:
        self._limit = limit
        self._resumable = resumable
        self._tags = itertools.count(1)
        self._streams: dict[int, Stream] = {}
        self._finished: OrderedDict[int, Stream] = OrderedDict()
        # For what no request is the reason of; its number is 0.
        self.general = Stream(0, limit, resumable)
        # Where everything goes, for clients of the oldest revision: they have one stream.
        self.is_single = False
        # Streams that go on after their request was dealt with.
        self.attended: set[int] = set()

    # --- for those who speak HTTP

    def begin(self) -> int:
        """A request has come: its tag. Its stream has the same number."""
        tag = next(self._tags)
        self._streams[tag] = Stream(tag, self._limit, self._resumable)
        return tag

    def stream(self, tag: int) -> Stream | None:
        """The stream of that number, if anything is left of it."""
        if not tag:
            return self.general
        return self._streams.get(tag) or self._finished.get(tag)

    def forget(self, tag: int) -> None:
        """Its client has everything, or wants nothing more."""
        self._streams.pop(tag, None)
        self._finished.pop(tag, None)
        self.attended.discard(tag)

    def end_standing(self) -> None:
        """End what would go on for ever; requests that are being answered are."""
        for tag in self.attended:
            if tag in self._streams:
                self._streams[tag].end()
        self.general.end()

    def end_all(self) -> None:
        """Nothing more will be said."""
        for stream in (*self._streams.values(), self.general):
            stream.end()

    # --- for the hub

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        if self.is_single:
            self.general.add(payload)
            self._streams.pop(tag, None)
            return
        stream = self._streams.get(tag)
        if stream:
            stream.add(payload)
            self._end(tag, stream)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        stream = self._streams.get(tag)
        if stream:
            self._end(tag, stream)

    def _end(self, tag: int, stream: Stream) -> None:
        stream.end()
        del self._streams[tag]
        self._finished[tag] = stream
        if len(self._finished) > FINISHED_LIMIT:
            self._finished.popitem(last=False)

    def attend(self, tag: int, keep: str) -> None:
        self.attended.add(tag)

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        pass

    def drop_line(self, key: str) -> None:
        pass

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

"""JSON-RPC batches: many messages in one line, and one array of answers when the last of them is there.

Only revision 2025-03-26 of MCP has them, so only a session that negotiated it may send them, and never with
`initialize` in them. Each member goes the way that it would go by itself; what becomes of it is told to a `Member` in
the session's stead. The bridge never keeps a batch, which it would have to replay with all that is in it: a member that
is to be kept is handed to it alone.
"""

from typing import Protocol

from hearth.errors import MessageError
from hearth.hub.sessions import ReplySink, Session
from hearth.mcp import messages, versions
from hearth.wire import json, values

REVISION = "2025-03-26"


class Receive(Protocol):
    """Takes one message of a session's client, as the router does."""

    def __call__(
        self, session: Session, tag: int, message: json.Message, resent: bool, replay: bool, batch: ReplySink
    ) -> None: ...


class Batch:
    """What its members are answered with, until it is complete."""

    __slots__ = ("_answers", "_open", "_tag", "session")

    def __init__(self, session: Session, tag: int, size: int) -> None:
        self.session = session
        self._tag = tag
        self._open = size
        self._answers: list[bytes] = []

    def add(self, payload: bytes | None) -> None:
        """One member is finished, with an answer or without."""
        if payload is not None:
            self._answers.append(payload)
        self._open -= 1
        if self._open:
            return
        # Looked up only now: a session that was closed meanwhile has another.
        sink = self.session.sink
        if self._answers:
            sink.answer(self._tag, b"[%b]" % b",".join(self._answers))
        else:
            sink.finish(self._tag)


class Member:
    """One message of a batch. To its call it is what the wire is to others."""

    __slots__ = ("_batch", "_message")

    def __init__(self, batch: Batch, message: json.Message) -> None:
        self._batch = batch
        self._message = message

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        """Its answer, which waits for those of the others."""
        self._note(tag, keep, drop)
        self._batch.add(payload)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        """It has none."""
        self._note(tag, keep, drop)
        self._batch.add(None)

    def _note(self, tag: int, keep: str | None, drop: str | None) -> None:
        # Before the answer: whoever has that may rely on what was set.
        sink = self._batch.session.sink
        if keep is not None:
            sink.keep_line(tag, keep, json.join(self._message.fields))
        if drop is not None:
            sink.drop_line(drop)


def receive(receive_one: Receive, session: Session, tag: int, batch: json.Batch, resent: bool, replay: bool) -> None:
    """Take a batch of a session's client, and give each message in it to `receive_one`."""
    if session.era != versions.LEGACY or session.version != REVISION:
        session.sink.answer(tag, messages.failure(None, refusal()))
        return
    whole = Batch(session, tag, len(batch.items))
    for item in map(_checked, batch.items):
        if isinstance(item, MessageError):
            whole.add(messages.failure(item.id, item))
        else:
            receive_one(session, tag, item, resent, replay, Member(whole, item))


def refusal() -> MessageError:
    """What a client is told that has not negotiated them, on every wire."""
    return MessageError(
        f"batches exist only in revision {REVISION} of MCP, which this session has not negotiated; "
        "send each message by itself"
    )


def _checked(item: json.Message | MessageError) -> json.Message | MessageError:
    """The item, or why it may not be in a batch."""
    if isinstance(item, MessageError) or item.kind is not json.Kind.REQUEST:
        return item
    if item.method == "initialize":
        return MessageError("initialize must not be in a batch", id=item.id)
    if _is_modern(item):
        return MessageError(f"a batch may hold only requests of revision {REVISION}", id=item.id)
    return item


def _is_modern(message: json.Message) -> bool:
    meta = values.members(values.members(message.fields.get("params")).get("_meta"))
    return versions.PROTOCOL_VERSION_KEY in meta

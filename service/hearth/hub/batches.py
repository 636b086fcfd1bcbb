"""JSON-RPC batches: several messages in one line, answered by one array once the last of them is finished.

Only revision 2025-03-26 of MCP has batches. Only a session that negotiated it may send them, and never with
`initialize` in them. Each member is routed as if it had been sent alone; its outcome goes to a `Member` in the place of
the session's sink. The bridge never keeps a whole batch, because it would have to replay every member: a member that
must be kept is handed to the bridge as a line of its own.
"""

from typing import TYPE_CHECKING

from hearth.errors import MessageError
from hearth.hub.sessions import Session
from hearth.mcp import messages, versions
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.router import Router

REVISION = "2025-03-26"


class PendingBatch:
    """Collector of the answers of a batch's members; sends them when the last member is finished."""

    __slots__ = ("_answers", "_open", "_tag", "session")

    def __init__(self, session: Session, tag: int, size: int) -> None:
        self.session = session
        self._tag = tag
        self._open = size
        self._answers: list[bytes] = []

    def add(self, payload: bytes | None) -> None:
        """Finish one member, with an answer or without."""
        if payload is not None:
            self._answers.append(payload)
        self._open -= 1
        if self._open:
            return
        # Looked up only now: a session that was closed in the meantime has another sink.
        sink = self.session.sink
        if self._answers:
            sink.answer(self._tag, b"[%b]" % b",".join(self._answers))
        else:
            sink.finish(self._tag)


class Member:
    """Reply sink of one message of a batch, in the place of the session's sink."""

    __slots__ = ("_batch", "_message")

    def __init__(self, batch: PendingBatch, message: json.Message) -> None:
        self._batch = batch
        self._message = message

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        """Add the answer to the batch, where it waits for the others."""
        self._note(tag, keep, drop)
        self._batch.add(payload)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        """Finish the member without an answer."""
        self._note(tag, keep, drop)
        self._batch.add(None)

    def _note(self, tag: int, keep: str | None, drop: str | None) -> None:
        # Before the answer: a client that has the answer may rely on the kept line.
        sink = self._batch.session.sink
        if keep is not None:
            sink.keep_line(tag, keep, json.join(self._message.fields))
        if drop is not None:
            sink.drop_line(drop)


def receive(router: "Router", session: Session, tag: int, batch: json.Batch, resent: bool, replay: bool) -> None:
    """Take a batch of a session's client, and give each message in it to the router."""
    if session.era != versions.LEGACY or session.version != REVISION:
        session.sink.answer(tag, messages.failure(None, refusal()))
        return
    whole = PendingBatch(session, tag, len(batch.items))
    for item in map(_checked, batch.items):
        if isinstance(item, MessageError):
            whole.add(messages.failure(item.id, item))
        else:
            router.receive(session, tag, item, resent, replay, Member(whole, item))


def refusal() -> MessageError:
    """Return the error for a batch from a client that has not negotiated the revision, on any wire."""
    return MessageError(
        f"batches exist only in revision {REVISION} of MCP, which this session has not negotiated; "
        "send each message by itself"
    )


def _checked(item: json.Message | MessageError) -> json.Message | MessageError:
    """Return the item, or the error for one that is not allowed in a batch."""
    if isinstance(item, MessageError) or item.kind is not json.Kind.REQUEST:
        return item
    if item.method == "initialize":
        return MessageError("initialize must not be in a batch", id=item.id)
    meta = values.members(values.members(item.fields.get("params")).get("_meta"))
    if versions.PROTOCOL_VERSION_KEY in meta:
        return MessageError(f"a batch may hold only requests of revision {REVISION}", id=item.id)
    return item

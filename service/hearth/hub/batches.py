"""JSON-RPC batches: many messages in one line, and one array of answers when the last of them is there.

Only revision 2025-03-26 of MCP has them, so only a session that negotiated it may send them, and never with
`initialize` in them. Each member goes the way that it would go by itself; a `Batch` takes its answer in the session's
stead.

A wire knows of one line with one answer, and the bridge may keep one line under one key. A batch with members whose
effect lasts (a log level, a subscription) is therefore kept as a whole, and what lasts of it is all that is carried out
when it is replayed. With one such member its key is that member's: a later line of that key replaces the batch. With
several it has a key of its own, and later lines are replayed behind it, as they came.
"""

import hashlib
from collections.abc import Iterator
from typing import Protocol

from hearth.errors import MessageError
from hearth.hub.sessions import Session
from hearth.mcp import answers, eras
from hearth.wire import json, values

REVISION = "2025-03-26"
# What leaves something behind that a later daemon has to know of.
LASTING = frozenset({"notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})


class Receive(Protocol):
    """Takes one message of a session's client, as the router does."""

    def __call__(
        self, session: Session, tag: int, message: json.Message, resent: bool, replay: bool, batch: "Batch"
    ) -> None: ...


class Batch:
    """The members of one batch, on the way to their one answer. To their calls it is what the wire is to others."""

    __slots__ = ("_answers", "_drops", "_keeps", "_open", "_session", "_tag")

    def __init__(self, session: Session, tag: int, size: int) -> None:
        self._session = session
        self._tag = tag
        self._open = size
        self._answers: list[bytes] = []
        # As sets that know the order in which they were filled.
        self._keeps: dict[str, None] = {}
        self._drops: dict[str, None] = {}

    def answer(self, tag: int, payload: bytes, keep: str | None = None) -> None:
        """The answer to one member."""
        self._answers.append(payload)
        self.finish(tag, keep)

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        """One member has had its answer, or has none."""
        if keep is not None:
            self._keeps[keep] = None
            self._drops.pop(keep, None)
        if drop is not None:
            self._keeps.pop(drop, None)
            self._drops[drop] = None
        self._open -= 1
        if self._open == 0:
            self._end()

    def _end(self) -> None:
        # Not before: a session that was closed meanwhile has another outlet.
        outlet, keep, drops = self._session.outlet, _key(self._keeps), list(self._drops)
        if self._answers:
            outlet.answer(self._tag, b"[%b]" % b",".join(self._answers), keep)
        else:
            outlet.finish(self._tag, keep, drops.pop() if drops else None)
        # An answer has no room for them; that the line is finished may be said again.
        for drop in drops:
            outlet.finish(self._tag, drop=drop)


def receive(receive_one: Receive, session: Session, tag: int, batch: json.Batch, resent: bool, replay: bool) -> None:
    """Take a batch of a session's client, and give each message in it to `receive_one`."""
    if session.era != eras.LEGACY or session.version != REVISION:
        problem = MessageError(
            f"batches exist only in revision {REVISION} of MCP, which this session has not negotiated; "
            "send each message by itself"
        )
        session.outlet.answer(tag, answers.failure(None, problem))
        return
    items = [_checked(item) for item in (_lasting(batch) if replay else batch.items)]
    if not items:
        session.outlet.finish(tag)
        return
    members = Batch(session, tag, len(items))
    for item in items:
        if isinstance(item, MessageError):
            members.answer(tag, answers.failure(item.id, item))
        else:
            receive_one(session, tag, item, resent, replay, members)


def _lasting(batch: json.Batch) -> Iterator[json.Message]:
    """Of a batch that another daemon has answered, what its effect on this one must be."""
    return (item for item in batch.items if isinstance(item, json.Message) and item.method in LASTING)


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
    return eras.PROTOCOL_VERSION_KEY in meta


def _key(keeps: dict[str, None]) -> str | None:
    if len(keeps) < 2:
        return next(iter(keeps), None)
    # Any number of keys of any length; that of a frame's header has little room.
    return f"batch:{hashlib.blake2s(json.dumps(sorted(keeps))).hexdigest()}"

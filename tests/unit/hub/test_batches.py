"""A batch has one answer, whatever becomes of its members; each of them is kept, and dropped, by itself."""

import json as standard
from typing import Any

import pytest
from outlets import Kept, session

from hearth.hub import batches
from hearth.hub.sessions import Session
from hearth.hub.sinks import ClientSink, ReplySink
from hearth.mcp import versions
from hearth.wire import json

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}'
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
RESPONSE = b'{"jsonrpc":"2.0","id":"hearth-1","result":{}}'
LEVEL = b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}'


class Answers(Kept):
    """An outlet that keeps the keys, too."""

    def answer(self, tag: int, payload: bytes, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("answer", tag, payload, keep))

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("finish", tag, keep, drop))

    def drop_line(self, key: str) -> None:
        self.said.append(("drop", key))

    def keep_line(self, tag: int, key: str, line: bytes) -> None:
        self.said.append(("keep", tag, key, line))


class Desk:
    """Takes messages as the router does, and answers nothing by itself."""

    def __init__(self) -> None:
        self.taken: list[tuple[json.Message, bool, bool]] = []
        self.members: list[ReplySink] = []

    def receive(
        self, session: Session, tag: int, message: json.Message, resent: bool, replay: bool, batch: ReplySink
    ) -> None:
        assert tag == 7
        self.taken.append((message, resent, replay))
        self.members.append(batch)

    @property
    def methods(self) -> list[str | None]:
        return [message.method for message, _, _ in self.taken]


def opened(version: str | None = "2025-03-26", era: str | None = versions.LEGACY) -> tuple[Session, Answers]:
    member, _ = session()
    sink = Answers()
    member.sink = sink
    member.era, member.version = era, version
    return member, sink


def received(member: Session, *messages: bytes, resent: bool = False, replay: bool = False) -> Desk:
    desk = Desk()
    batches.receive(desk, member, 7, json.parse_batch(b"[" + b",".join(messages) + b"]"), resent, replay)
    return desk


def answered(sink: Answers) -> list[dict[str, Any]]:
    """The members of the one answer."""
    ((what, tag, payload, _),) = sink.said
    assert (what, tag) == ("answer", 7)
    assert isinstance(payload, bytes)
    return standard.loads(payload)


def test_members_go_their_own_ways_in_order() -> None:
    member, sink = opened()
    desk = received(member, CALL, NOTICE, RESPONSE, PING, resent=True)
    assert desk.methods == ["tools/call", "notifications/initialized", None, "ping"]
    assert [(resent, replay) for _, resent, replay in desk.taken] == [(True, False)] * 4
    assert len(set(map(id, desk.members))) == 4
    assert sink.said == []


def test_one_array_is_given_when_the_last_member_is_done() -> None:
    member, sink = opened()
    first, notice, response, last = received(member, CALL, NOTICE, RESPONSE, PING).members
    last.answer(7, b'{"id":2}')
    notice.finish(7)
    first.answer(7, b'{"id":1}')
    assert sink.said == []
    response.finish(7)
    assert sink.said == [("answer", 7, b'[{"id":2},{"id":1}]', None)]


def test_a_batch_without_answers_is_finished_without_one() -> None:
    member, sink = opened()
    for one in received(member, NOTICE, CALL).members:
        one.finish(7)
    assert sink.said == [("finish", 7, None, None)]


def test_a_batch_of_which_nothing_is_a_message_is_answered_at_once() -> None:
    member, sink = opened()
    assert received(member, b"1", b"[]", b'{"jsonrpc":"1.0","id":3,"method":"x"}').taken == []
    assert [(error.get("id"), error["error"]["code"]) for error in answered(sink)] == [
        (None, -32600), (None, -32600), (3, -32600),
    ]  # fmt: skip
    assert [("id" in error) for error in answered(sink)] == [False, False, True]


def test_what_is_no_message_spoils_only_itself() -> None:
    member, sink = opened()
    desk = received(member, b"{}", CALL)
    assert desk.methods == ["tools/call"]
    desk.members[0].answer(7, b'{"id":1}')
    assert [error.get("id") for error in answered(sink)] == [None, 1]


def test_initialize_in_a_batch_is_refused_and_the_rest_is_not() -> None:
    member, sink = opened()
    desk = received(member, b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}', NOTICE)
    assert desk.methods == ["notifications/initialized"]
    desk.members[0].finish(7)
    (error,) = answered(sink)
    assert (error["id"], error["error"]["code"]) == ("i", -32600)
    assert "initialize" in error["error"]["message"]


def test_a_modern_request_in_a_batch_is_refused() -> None:
    member, sink = opened()
    meta = standard.dumps({"_meta": {versions.PROTOCOL_VERSION_KEY: "2026-07-28"}}).encode()
    assert received(member, b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":%b}' % meta).taken == []
    (error,) = answered(sink)
    assert (error["id"], error["error"]["code"]) == (4, -32600)


@pytest.mark.parametrize(
    ("era", "version"),
    [
        (None, None),
        (versions.LEGACY, "2024-11-05"),
        (versions.LEGACY, "2025-06-18"),
        (versions.LEGACY, "2025-11-25"),
        (versions.MODERN, "2026-07-28"),
    ],
)
def test_a_session_of_another_revision_gets_one_error_without_an_id(era: str | None, version: str | None) -> None:
    member, sink = opened(version, era)
    assert received(member, CALL, PING).taken == []
    ((_, _, payload, keep),) = sink.said
    assert isinstance(payload, bytes)
    error = standard.loads(payload)
    assert set(error) == {"jsonrpc", "error"}
    assert error["error"]["code"] == -32600
    assert "only in revision 2025-03-26" in error["error"]["message"]
    assert keep is None


def test_a_session_that_was_closed_meanwhile_hears_nothing() -> None:
    member, sink = opened()
    first, second = received(member, LEVEL, CALL).members
    first.answer(7, b"{}")
    member.sink = ClientSink()
    second.answer(7, b"{}", keep="level")
    assert sink.said == []


# --- what is kept


def test_a_member_is_kept_by_itself_before_its_batch_is_answered() -> None:
    member, sink = opened()
    level, call, notice = received(member, LEVEL, CALL, NOTICE).members
    notice.finish(7, keep="initialized")
    level.answer(7, b"{}", keep="level")
    assert sink.said == [("keep", 7, "initialized", NOTICE), ("keep", 7, "level", LEVEL)]
    call.answer(7, b"[]")
    assert sink.said[2:] == [("answer", 7, b"[{},[]]", None)]


def test_what_a_member_drops_is_dropped_at_once() -> None:
    member, sink = opened()
    first, second = received(member, CALL, NOTICE).members
    first.answer(7, b"{}", drop="a")
    assert sink.said == [("drop", "a")]
    second.finish(7, drop="b")
    assert sink.said[1:] == [("drop", "b"), ("answer", 7, b"[{}]", None)]


def test_a_line_of_a_batch_that_was_spread_is_kept_on_one_line() -> None:
    member, sink = opened()
    (level,) = received(member, LEVEL.replace(b",", b",\n")).members
    level.answer(7, b"{}", keep="level")
    kept = sink.heard("keep")[0][3]
    assert isinstance(kept, bytes)
    assert b"\n" not in kept
    assert json.loads(kept) == json.loads(LEVEL)

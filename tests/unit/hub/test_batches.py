"""A batch has one answer, whatever becomes of its members, and keeps what they would have kept."""

import json as standard
from typing import Any

import pytest
from outlets import Kept, session

from hearth.hub import batches
from hearth.hub.batches import Batch
from hearth.hub.sessions import Nobody, Session
from hearth.mcp import eras
from hearth.wire import json

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}'
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
RESPONSE = b'{"jsonrpc":"2.0","id":"hearth-1","result":{}}'
LEVEL = b'{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}'


class Answers(Kept):
    """An outlet that keeps the keys, too."""

    def answer(self, tag: int, payload: bytes, keep: str | None = None) -> None:
        self.said.append(("answer", tag, payload, keep))

    def finish(self, tag: int, keep: str | None = None, drop: str | None = None) -> None:
        self.said.append(("finish", tag, keep, drop))


class Desk:
    """Takes messages as the router does, and answers nothing by itself."""

    def __init__(self) -> None:
        self.taken: list[tuple[json.Message, bool, bool]] = []
        self.batches: list[Batch] = []

    def receive(
        self, session: Session, tag: int, message: json.Message, resent: bool, replay: bool, batch: Batch
    ) -> None:
        assert tag == 7
        self.taken.append((message, resent, replay))
        self.batches.append(batch)

    @property
    def methods(self) -> list[str | None]:
        return [message.method for message, _, _ in self.taken]


def opened(version: str | None = "2025-03-26", era: str | None = eras.LEGACY) -> tuple[Session, Answers]:
    member, _ = session()
    outlet = Answers()
    member.outlet = outlet
    member.era, member.version = era, version
    return member, outlet


def received(member: Session, *messages: bytes, resent: bool = False, replay: bool = False) -> Desk:
    desk = Desk()
    batches.receive(desk.receive, member, 7, json.parse_batch(b"[" + b",".join(messages) + b"]"), resent, replay)
    return desk


def answered(outlet: Answers) -> list[dict[str, Any]]:
    """The members of the one answer."""
    ((what, tag, payload, _),) = outlet.said
    assert (what, tag) == ("answer", 7)
    assert isinstance(payload, bytes)
    found: list[dict[str, Any]] = standard.loads(payload)
    return found


def test_members_go_their_own_ways_in_order() -> None:
    member, outlet = opened()
    desk = received(member, CALL, NOTICE, RESPONSE, PING, resent=True)
    assert desk.methods == ["tools/call", "notifications/initialized", None, "ping"]
    assert [(resent, replay) for _, resent, replay in desk.taken] == [(True, False)] * 4
    assert len(set(map(id, desk.batches))) == 1
    assert outlet.said == []


def test_one_array_is_given_when_the_last_member_is_done() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 4)
    batch.answer(7, b'{"id":2}')
    batch.finish(7)
    batch.answer(7, b'{"id":1}')
    assert outlet.said == []
    batch.finish(7)
    assert outlet.said == [("answer", 7, b'[{"id":2},{"id":1}]', None)]


def test_a_batch_without_answers_is_finished_without_one() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 2)
    batch.finish(7)
    batch.finish(7)
    assert outlet.said == [("finish", 7, None, None)]


def test_a_batch_of_which_nothing_is_a_message_is_answered_at_once() -> None:
    member, outlet = opened()
    assert received(member, b"1", b"[]", b'{"jsonrpc":"1.0","id":3,"method":"x"}').taken == []
    assert [(error.get("id"), error["error"]["code"]) for error in answered(outlet)] == [
        (None, -32600), (None, -32600), (3, -32600),
    ]  # fmt: skip
    assert [("id" in error) for error in answered(outlet)] == [False, False, True]


def test_what_is_no_message_spoils_only_itself() -> None:
    member, outlet = opened()
    desk = received(member, b"{}", CALL)
    assert desk.methods == ["tools/call"]
    desk.batches[0].answer(7, b'{"id":1}')
    assert [error.get("id") for error in answered(outlet)] == [None, 1]


def test_initialize_in_a_batch_is_refused_and_the_rest_is_not() -> None:
    member, outlet = opened()
    desk = received(member, b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}', NOTICE)
    assert desk.methods == ["notifications/initialized"]
    desk.batches[0].finish(7)
    (error,) = answered(outlet)
    assert (error["id"], error["error"]["code"]) == ("i", -32600)
    assert "initialize" in error["error"]["message"]


def test_a_modern_request_in_a_batch_is_refused() -> None:
    member, outlet = opened()
    meta = standard.dumps({"_meta": {eras.PROTOCOL_VERSION_KEY: "2026-07-28"}}).encode()
    assert received(member, b'{"jsonrpc":"2.0","id":4,"method":"tools/list","params":%b}' % meta).taken == []
    (error,) = answered(outlet)
    assert (error["id"], error["error"]["code"]) == (4, -32600)


@pytest.mark.parametrize(
    ("era", "version"),
    [
        (None, None),
        (eras.LEGACY, "2024-11-05"),
        (eras.LEGACY, "2025-06-18"),
        (eras.LEGACY, "2025-11-25"),
        (eras.MODERN, "2026-07-28"),
    ],
)
def test_a_session_of_another_revision_gets_one_error_without_an_id(era: str | None, version: str | None) -> None:
    member, outlet = opened(version, era)
    assert received(member, CALL, PING).taken == []
    ((_, _, payload, keep),) = outlet.said
    assert isinstance(payload, bytes)
    error = standard.loads(payload)
    assert set(error) == {"jsonrpc", "error"}
    assert error["error"]["code"] == -32600
    assert "only in revision 2025-03-26" in error["error"]["message"]
    assert keep is None


def test_a_session_that_was_closed_meanwhile_hears_nothing() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 2)
    batch.answer(7, b"{}", keep="level")
    member.outlet = Nobody()
    batch.finish(7)
    assert outlet.said == []


# --- what is kept


def test_one_kept_member_lends_the_batch_its_key() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 3)
    batch.answer(7, b"{}", keep="level")
    batch.finish(7)
    batch.answer(7, b"{}", keep="level")
    assert outlet.said == [("answer", 7, b"[{},{}]", "level")]


def test_a_batch_without_an_answer_is_kept_all_the_same() -> None:
    member, outlet = opened()
    Batch(member, 7, 1).finish(7, keep="initialized")
    assert outlet.said == [("finish", 7, "initialized", None)]


def kept_under(*keys: str) -> object:
    member, outlet = opened()
    batch = Batch(member, 7, len(keys))
    for key in keys:
        batch.answer(7, b"{}", keep=key)
    return outlet.said[0][3]


def test_several_kept_members_give_the_batch_a_key_of_their_own() -> None:
    keys = {kept_under("a", "b"), kept_under("b", "a"), kept_under("a", "c"), kept_under("a,b", "c"), kept_under("a")}
    assert len(keys) == 4
    long = kept_under(*(f"subscribe:{'x' * 200}{number}" for number in range(1000)))
    assert isinstance(long, str) and len(long) < 100


def test_every_key_that_is_dropped_is_told() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 3)
    for drop in ("a", "b", "c"):
        batch.finish(7, drop=drop)
    assert outlet.said[0][0:3] == ("finish", 7, None)
    assert {item[3] for item in outlet.said} == {"a", "b", "c"}
    member, outlet = opened()
    batch = Batch(member, 7, 2)
    batch.finish(7, drop="a")
    batch.answer(7, b"{}", keep="b")
    assert outlet.said == [("answer", 7, b"[{}]", "b"), ("finish", 7, None, "a")]


def test_what_is_kept_and_dropped_in_one_batch_is_what_it_was_last() -> None:
    member, outlet = opened()
    batch = Batch(member, 7, 4)
    batch.finish(7, keep="a")
    batch.finish(7, drop="a")
    batch.finish(7, drop="b")
    batch.finish(7, keep="b")
    assert outlet.said == [("finish", 7, "b", "a")]


def test_of_a_replayed_batch_only_what_lasts_is_carried_out() -> None:
    member, outlet = opened()
    desk = received(member, CALL, LEVEL, b"1", RESPONSE, NOTICE, PING, replay=True)
    assert desk.methods == ["logging/setLevel", "notifications/initialized"]
    desk.batches[0].answer(7, b"{}", keep="level")
    desk.batches[0].finish(7, keep="initialized")
    ((what, _, _, keep),) = outlet.said
    assert (what, keep) == ("answer", kept_under("initialized", "level"))


def test_a_replayed_batch_of_which_nothing_lasts_is_finished() -> None:
    member, outlet = opened()
    assert received(member, CALL, replay=True).taken == []
    assert outlet.said == [("finish", 7, None, None)]

"""Conversations over HTTP: sessions, messages in bodies, and every cell of the table of refusals."""

import json

import pytest

from hearth.errors import MessageError
from hearth.upstreams.http import conversation
from hearth.upstreams.http.conversation import (
    HttpRefusal,
    OutgoingRequest,
    UpstreamSession,
    Verdict,
    Wording,
    is_usable,
    judge,
    refused,
    retry_after,
)
from hearth.wire.json import Message
from hearth.wire.lines import Item

# --- sessions


@pytest.fixture
def session() -> UpstreamSession:
    return UpstreamSession()


def result(**capabilities: object) -> bytes:
    return json.dumps({"protocolVersion": "2025-06-18", "capabilities": capabilities}).encode()


def test_before_it_begins_nothing_is_sent_along() -> None:
    assert UpstreamSession().headers() == {}


def test_its_id_and_its_version_go_with_every_request(session: UpstreamSession) -> None:
    session.begin("abc", result())
    assert session.headers() == {"Mcp-Session-Id": "abc", "MCP-Protocol-Version": "2025-06-18"}
    assert session.generation == 1


def test_a_server_may_give_no_id_and_no_version(session: UpstreamSession) -> None:
    session.begin(None, b"{}")
    assert session.headers() == {}
    assert session.generation == 1


@pytest.mark.parametrize("id", ["", "a b", "a\n", "é", "\x7f", "x" * 5000])
def test_an_id_that_is_none_is_not_used(session: UpstreamSession, id: str) -> None:
    session.begin(id, result())
    assert session.id is None
    assert is_usable(id) == (id == "")


def test_what_it_was_told_is_what_counts_in_the_end(session: UpstreamSession) -> None:
    for method, params in [
        ("logging/setLevel", b'{"level":"debug"}'),
        ("resources/subscribe", b'{"uri":"a:1"}'),
        ("resources/subscribe", b'{"uri":"a:2"}'),
        ("tools/call", b'{"name":"x"}'),
        ("logging/setLevel", b'{"level":"error"}'),
        ("resources/unsubscribe", b'{"uri":"a:1"}'),
        ("resources/unsubscribe", b'{"uri":"a:3"}'),
        ("resources/subscribe", b'{"uri":"a:2","x":1}'),
    ]:
        session.note(method, params)
    assert list(session.told()) == [
        ("logging/setLevel", b'{"level":"error"}'),
        ("resources/subscribe", b'{"uri":"a:2","x":1}'),
    ]


def test_a_new_one_may_have_other_lists_of_what_it_offers(session: UpstreamSession) -> None:
    session.begin("abc", result(tools={}, prompts={}, logging={}))
    assert [notice.method for notice in session.notices()] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
    ]


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"retry-after": "7"}, 7),
        (503, {"retry-after": "0"}, 0),
        (500, {"retry-after": "7"}, None),
        (503, {}, None),
        (503, {"retry-after": "-1"}, None),
        (503, {"retry-after": "soon"}, None),
        (503, {"retry-after": "1" * 20}, None),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 10),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 10),
        (503, {"retry-after": "Sun, 06 Nov 1994 08:49:27 GMT"}, 0),
        (503, {"retry-after": "Sun, 99 Nov 1994 GMT"}, None),
    ],
)
def test_a_server_may_ask_for_a_pause(status: int, headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(status, headers, 784111777) == seconds


def test_what_to_do_names_what_the_reader_can_change() -> None:
    words = Wording(identity="I", headers="H", address="A", pace="P")
    for status, word in ((401, "I"), (403, "H"), (404, "A"), (429, "P")):
        assert word in str(refused("x", status, words)) and "entry" not in str(refused("x", status, words))
        assert "entry" in str(refused("x", status))


# --- messages in a body: one, or an array

ONE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
NOTICE = b'{"jsonrpc":"2.0","method":"x"}'


def shown(items: list[Item]) -> list[object]:
    return [(item.id, item.method) if isinstance(item, Message) else type(item) for item in items]


def test_a_body_is_one_message_or_an_array() -> None:
    assert shown(conversation.items(ONE)) == [(b"1", None)]
    assert shown(conversation.items(b" \r\n[" + NOTICE + b",\n" + ONE + b"]")) == [(None, "x"), (b"1", None)]


@pytest.mark.parametrize("data", [b"", b"{]", b"[", b"[]", b"1", b"\xff"])
def test_what_is_no_message_is_an_error(data: bytes) -> None:
    assert shown(conversation.items(data)) == [MessageError]


def test_what_is_no_message_in_an_array_costs_only_itself() -> None:
    assert shown(conversation.items(b"[1," + ONE + b"]")) == [MessageError, (b"1", None)]


def test_an_error_is_found_whatever_its_id() -> None:
    error = b'{"code":-32000,"message":"no"}'
    for id in (b"", b'"id":null,', b'"id":"server-error",', b'"id":7,'):
        found = conversation.error_in(b'{"jsonrpc":"2.0",%b"error":%b}' % (id, error))
        assert found is not None
        assert bytes(found) == error
    assert conversation.error_in(ONE) is None


def test_an_error_becomes_the_answer_to_the_request_it_belongs_to() -> None:
    found = conversation.error_in(b'{"id":null,"error":{"code":-1,\n"message":"no"}}')
    assert found is not None
    answer = conversation.relabelled(7, found)
    assert (answer.id, answer.error) == (b"7", b'{"code":-1, "message":"no"}')


def test_an_answer_is_to_just_one_request() -> None:
    assert conversation.answers_to(1, ONE)
    assert not conversation.answers_to(11, ONE)
    assert not conversation.answers_to(1, b'{"id":"1"}')
    assert not conversation.answers_to(1, b"<html>")


# --- statuses that are no success

ABOUT_THE_CALLER = [401, 403, 407, 408, 429, 500, 502, 503, 504]
ABOUT_THE_MESSAGE = [400, 404, 405, 406, 409, 410, 415, 422]
NOBODY = b"<html>"


def body(code: int = -32000, id: object = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}).encode()


OWN, OTHER = body(id=7), body(id="server-error")


def verdict(
    method: str, status: int, said: bytes, era: str | None = None, has_session: bool = True, is_last: bool = False
) -> Verdict:
    request = OutgoingRequest(7, json.dumps(method).encode(), b"{}", lambda size: None)
    return judge(HttpRefusal.read(request, status, said), era, has_session, is_last)


@pytest.mark.parametrize("status", ABOUT_THE_CALLER)
@pytest.mark.parametrize("method", ["server/discover", "initialize"])
@pytest.mark.parametrize("said", [NOBODY, OWN, OTHER])
def test_a_refused_caller_says_nothing_about_the_era(method: str, status: int, said: bytes) -> None:
    assert verdict(method, status, said) is Verdict.FAIL


@pytest.mark.parametrize("status", ABOUT_THE_CALLER)
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_refused_caller_gets_the_answer_if_there_is_one(status: int, era: str) -> None:
    assert verdict("tools/call", status, OWN, era) is Verdict.ANSWER
    assert verdict("tools/call", status, OTHER, era) is Verdict.FAIL
    assert verdict("tools/call", status, NOBODY, era) is Verdict.FAIL


@pytest.mark.parametrize("status", ABOUT_THE_MESSAGE)
@pytest.mark.parametrize("said", [NOBODY, OWN, OTHER])
def test_a_refused_discovery_is_an_answer(status: int, said: bytes) -> None:
    assert verdict("server/discover", status, said) is Verdict.ANSWER


@pytest.mark.parametrize("status", ABOUT_THE_MESSAGE)
def test_a_refused_initialize_leads_to_the_old_transport_unless_it_is_answered(status: int) -> None:
    assert verdict("initialize", status, NOBODY) is Verdict.FALL_BACK
    assert verdict("initialize", status, OTHER) is Verdict.FALL_BACK
    assert verdict("initialize", status, OWN) is Verdict.ANSWER
    # Of a session that is to be renewed, the transport is known.
    assert verdict("initialize", status, NOBODY, "legacy") is Verdict.ANSWER


def test_an_expired_session_is_renewed_once() -> None:
    for said in (NOBODY, OTHER, OWN):
        assert verdict("tools/call", 404, said, "legacy") is Verdict.RENEW
    assert verdict("tools/call", 404, NOBODY, "legacy", is_last=True) is Verdict.FAIL
    assert verdict("tools/call", 404, OTHER, "legacy", is_last=True) is Verdict.ANSWER


def test_a_method_that_a_server_does_not_know_is_no_expired_session() -> None:
    assert verdict("x/y", 404, body(-32601, id=7), "legacy") is Verdict.ANSWER
    assert verdict("x/y", 404, body(-32601), "legacy") is Verdict.RENEW


@pytest.mark.parametrize("has_session", [True, False])
def test_a_missing_session_is_begun_once(has_session: bool) -> None:
    assert verdict("tools/call", 400, NOBODY, "legacy", has_session) is Verdict.RENEW
    assert verdict("tools/call", 400, OTHER, "legacy", has_session) is Verdict.RENEW
    assert verdict("tools/call", 400, OWN, "legacy", has_session) is Verdict.ANSWER
    assert verdict("tools/call", 400, OTHER, "legacy", has_session, is_last=True) is Verdict.ANSWER


@pytest.mark.parametrize("status", [405, 406, 410, 415, 422])
def test_other_refusals_in_the_legacy_era_are_answers_or_failures(status: int) -> None:
    assert verdict("tools/call", status, OWN, "legacy") is Verdict.ANSWER
    assert verdict("tools/call", status, OTHER, "legacy") is Verdict.ANSWER
    assert verdict("tools/call", status, NOBODY, "legacy") is Verdict.FAIL


@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_a_modern_error_in_the_legacy_era_is_a_strangers(code: int) -> None:
    assert verdict("tools/call", 400, body(code, id=7), "legacy") is Verdict.STRANGER
    assert verdict("tools/call", 400, body(code), "legacy", has_session=False) is Verdict.STRANGER


def test_a_missing_header_is_learned_once_and_only_for_tools() -> None:
    for id in (7, None):
        assert verdict("tools/call", 400, body(-32020, id), "modern") is Verdict.LEARN
        assert verdict("tools/call", 400, body(-32020, id), "modern", is_last=True) is Verdict.ANSWER
        assert verdict("resources/read", 400, body(-32020, id), "modern") is Verdict.ANSWER


@pytest.mark.parametrize("status", ABOUT_THE_MESSAGE)
def test_what_answers_nothing_in_the_modern_era_is_a_strangers(status: int) -> None:
    assert verdict("tools/call", status, OWN, "modern") is Verdict.ANSWER
    assert verdict("tools/call", status, body(-32021), "modern") is Verdict.ANSWER
    assert verdict("tools/call", status, OTHER, "modern") is Verdict.STRANGER
    assert verdict("tools/call", status, NOBODY, "modern") is Verdict.STRANGER


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"null", b'{"error":{}}', b'{"error":{"code":"x"}}', b'{"id":7}', b"\xff"]
)
def test_anything_may_be_said(said: bytes) -> None:
    assert verdict("tools/call", 500, said, "legacy") is Verdict.FAIL

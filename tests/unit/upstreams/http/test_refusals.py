"""What an HTTP status that is no success means: every cell of the table."""

import json

import pytest

from hearth.upstreams.http.conversation import HttpRefusal, OutgoingRequest, Verdict, judge

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

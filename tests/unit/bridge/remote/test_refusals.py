"""What an HTTP status means, row by row."""

import pytest

from hearth.bridge.remote.refusals import ANSWER, FAIL, LATER, LEARN, RENEW, Refusal, judge, sentence, wait

KEY = (True, "1")


def refusal(status: int, body: str = "", retry_after: float | None = None) -> Refusal:
    return Refusal(status, "Reason", retry_after, body.encode(), KEY)


def error(code: int, id: object = 1) -> str:
    written = '"server-error"' if id == "other" else "null" if id is None else str(id)
    return f'{{"jsonrpc":"2.0","id":{written},"error":{{"code":{code},"message":"x"}}}}'


@pytest.mark.parametrize(
    ("status", "body", "method", "verdict"),
    [
        (404, "", "tools/call", RENEW),
        (404, error(-32001, None), "tools/call", RENEW),
        (404, error(-32601), "tools/call", ANSWER),
        (404, error(-32601, None), "tools/call", RENEW),
        (404, "", "initialize", FAIL),
        (400, "", "tools/list", RENEW),
        (400, error(-32000, "other"), "tools/list", RENEW),
        (400, error(-32602), "tools/list", ANSWER),
        (405, "", "tools/list", FAIL),
        (500, "", "tools/call", FAIL),
        (500, error(-32603), "tools/call", ANSWER),
        (401, error(-32000), "tools/call", FAIL),
        (403, "", "tools/call", FAIL),
    ],
)
def test_legacy(status: int, body: str, method: str, verdict: str) -> None:
    found = refusal(status, body)
    assert judge(found, method, False, True, set(), 0) == verdict
    # Nothing is tried twice, nor what cannot be.
    for can_renew, mended in ((True, {RENEW}), (False, set())):
        assert judge(found, method, False, can_renew, mended, 0) == (
            (ANSWER if body else FAIL) if verdict == RENEW else verdict
        )


@pytest.mark.parametrize(
    ("status", "body", "method", "verdict"),
    [
        (400, error(-32020), "tools/call", LEARN),
        (400, error(-32020), "tools/list", ANSWER),
        (400, error(-32022), "server/discover", ANSWER),
        (404, error(-32601), "x", ANSWER),
        (404, "", "tools/call", FAIL),
        (404, "", "server/discover", ANSWER),
        (400, "<html>", "server/discover", ANSWER),
        (502, "", "server/discover", FAIL),
        (401, "", "server/discover", FAIL),
    ],
)
def test_modern(status: int, body: str, method: str, verdict: str) -> None:
    assert judge(refusal(status, body), method, True, True, set(), 0) == verdict
    assert judge(refusal(status, body), method, True, True, {LEARN}, 0) == (ANSWER if verdict == LEARN else verdict)


@pytest.mark.parametrize(
    ("status", "retry_after", "waited", "verdict"),
    [
        (429, 1, 0, LATER),
        (503, 0, 0, LATER),
        (503, 1, 19.5, FAIL),
        (503, 3600, 0, FAIL),
        (503, None, 0, FAIL),
        (500, 1, 0, FAIL),
    ],
)
def test_who_asks_to_wait_is_waited_for_within_bounds(
    status: int, retry_after: float | None, waited: float, verdict: str
) -> None:
    assert judge(refusal(status, "", retry_after), "tools/call", False, True, set(), waited) == verdict


@pytest.mark.parametrize(
    ("asked", "date", "seconds"),
    [
        ("12", None, 12),
        ("Wed, 01 Mar 2028 00:00:03 GMT", "Tue, 29 Feb 2028 23:59:58 GMT", 5),
        # It counts from the server's own clock, or else from ours.
        ("Sat, 01 Jan 2000 00:00:10 GMT", "Sat, 01 Jan 2000 00:00:00 GMT", 10),
        ("Sun, 09 Sep 2001 01:46:47 GMT", None, 7),
        ("Sun, 09 Sep 2001 01:46:47 GMT", "no date", 7),
        ("Sun, 09 Sep 2001 01:46:39 GMT", None, 0),
        ("Sun, 09 Sep 2001 01:46:47 CET", None, None),
        ("Sun, 09 Foo 2001 01:46:47 GMT", None, None),
        ("soon", None, None),
        ("-1", None, None),
        ("9" * 9, None, None),
        (None, "Sun, 09 Sep 2001 01:46:47 GMT", None),
    ],
)
def test_a_server_names_seconds_or_a_date(asked: str | None, date: str | None, seconds: float | None) -> None:
    headers = {name: value for name, value in (("retry-after", asked), ("date", date)) if value is not None}
    assert wait(headers, 1_000_000_000) == seconds


def test_a_sentence_has_the_status_its_reason_and_what_to_do() -> None:
    assert sentence("http://x", 502, "Bad\x1b[31m Gateway") == (
        "http://x answered HTTP 502 Bad[31m Gateway: whatever stands before it cannot reach it"
    )
    assert sentence("http://x", 599, "") == "http://x answered HTTP 599: it failed by itself; look at its own log"
    assert sentence("http://x", 418, "Teapot") == "http://x answered HTTP 418 Teapot: it does not take the request"


def test_only_who_takes_no_mcp_there_is_said_to_have_another_address() -> None:
    statuses = {status for status in range(400, 600) if "after --to" in sentence("http://x", status, "")}
    assert statuses == {404, 405, 406, 415}
    assert "does not know who asks" in sentence("http://x", 401, "Unauthorized")

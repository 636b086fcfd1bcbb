"""The judge of the chaos tests is itself judged: each rule, broken once, is noticed."""

from typing import Any

import pytest

from support.chaos.reckoning import IN_DOUBT, Request, violations, wrong_runs


def result(id: int | str, kind: str, key: str) -> dict[str, Any]:
    return {"id": id, "result": {"content": [{"type": "text", "text": f"{kind} {key}"}]}}


def error(id: int | str, text: str = IN_DOUBT) -> dict[str, Any]:
    return {"id": id, "error": {"code": -32603, "message": text}}


def progress(token: str) -> dict[str, Any]:
    return {"method": "notifications/progress", "params": {"progressToken": token}}


READ = Request(1, "read", "a", token="t")
ONCE = Request(2, "once", "b")
LOST = Request(2, "once", "b", exposed=True)
WITHDRAWN = Request(3, "put", "c", cancelled=True)


@pytest.mark.parametrize(
    ("asked", "received"),
    [
        ([READ, ONCE], [progress("t"), result(2, "once", "b"), result(1, "read", "a")]),
        ([LOST], [error(2)]),
        ([WITHDRAWN], []),
        ([WITHDRAWN], [result(3, "put", "c")]),
        ([Request("p", "ping", "")], [{"id": "p", "result": {}}]),
    ],
)
def test_what_is_right_is_passed(asked: list[Request], received: list[dict[str, Any]]) -> None:
    assert list(violations(asked, received)) == []


@pytest.mark.parametrize(
    ("asked", "received", "complaint"),
    [
        ([READ], [], "0 answers"),
        ([READ], [result(1, "read", "a")] * 2, "2 answers"),
        ([WITHDRAWN], [result(3, "put", "c")] * 2, "2 answers"),
        ([READ], [result(1, "read", "b")], "a wrong result"),
        ([READ], [result("1", "read", "a")], "not asked"),
        ([READ], [error(1)], "an error instead"),
        ([ONCE], [error(2)], "an error instead"),
        ([LOST], [error(2, "the daemon cannot be reached")], "an error instead"),
        ([READ], [progress("u"), result(1, "read", "a")], "somebody else's"),
        ([READ], [result(1, "read", "a"), progress("t")], "behind its answer"),
    ],
)
def test_what_is_wrong_is_named(asked: list[Request], received: list[dict[str, Any]], complaint: str) -> None:
    assert any(complaint in found for found in violations(asked, received))


def test_a_call_that_ran_twice_or_not_at_all_is_named() -> None:
    asked = [READ, ONCE]
    assert list(wrong_runs(asked, {"a", "b"}, ["read a", "read a", "once b"])) == []
    assert list(wrong_runs(asked, set(), [])) == []
    assert any("ran 2 times" in found for found in wrong_runs(asked, {"b"}, ["once b", "once b"]))
    assert any("never ran" in found for found in wrong_runs(asked, {"a"}, ["once b"]))

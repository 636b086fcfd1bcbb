"""What a legacy server was told in one session."""

import json
from typing import Any

import pytest

from hearth.bridge.remote.messages import Message, read
from hearth.bridge.remote.session import Session, is_usable


def message(**fields: Any) -> Message:
    [found], _ = read(json.dumps({"jsonrpc": "2.0", **fields}).encode())
    return found


def begun(id: str | None = "s1", **result: Any) -> Session:
    session = Session()
    session.begin(id, message(id=1, result={"protocolVersion": "2025-11-25", **result}))
    return session


def test_id_and_version_go_with_every_message() -> None:
    assert Session().headers() == {}
    assert begun().headers() == {"Mcp-Session-Id": "s1", "MCP-Protocol-Version": "2025-11-25"}
    assert begun(None).headers() == {"MCP-Protocol-Version": "2025-11-25"}
    assert begun(protocolVersion="a\r\nb").headers() == {"Mcp-Session-Id": "s1"}


@pytest.mark.parametrize("id", ["", "a b", "a\n", "ä", "x" * 5000])
def test_an_id_that_no_header_can_carry_is_none(id: str) -> None:
    assert not is_usable(id)
    assert "Mcp-Session-Id" not in begun(id).headers()


def test_what_lasts_is_said_again() -> None:
    session = begun()
    for method, params in (
        ("logging/setLevel", {"level": "info"}),
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "a"}),
        ("resources/subscribe", {"uri": "b"}),
        ("resources/unsubscribe", {"uri": "a"}),
        ("tools/call", {"name": "x"}),
    ):
        session.note(message(id=2, method=method, params=params))
    assert [found.params for found in session.told()] == [{"level": "debug"}, {"uri": "b"}]


def test_a_client_that_begins_anew_is_known_by_its_new_words() -> None:
    session = begun()
    session.note(message(id=1, method="initialize", params={"a": "b"}))
    session.note(message(method="notifications/initialized"))
    session.note(message(id=2, method="logging/setLevel", params={"level": "info"}))
    session.note(message(id=3, method="initialize", params={"c": "d"}))
    assert session.opening is not None and session.opening.params == {"c": "d"}
    assert (session.introduction, session.told()) == (None, [])


def test_only_what_was_announced_may_change() -> None:
    capabilities = {"tools": {"listChanged": True}, "prompts": {"listChanged": False}, "resources": {}, "logging": {}}
    session = begun(capabilities=capabilities)
    assert [json.loads(line) for line in session.notices()] == [
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    ]
    assert begun(capabilities=[]).notices() == []


def test_questions_of_a_lost_session_are_withdrawn_and_late_answers_dropped() -> None:
    session = begun()
    session.asked(message(id="q", method="roots/list"))
    session.asked(message(id=7, method="roots/list"))
    assert session.may_answer(message(id=7, result={}))
    assert not session.may_answer(message(id=7, result={}))
    session.begin("s2", message(id=1, result={}))
    [line] = session.notices()
    assert json.loads(line)["params"]["requestId"] == "q"
    assert not session.may_answer(message(id="q", result={}))
    assert session.notices() == []


def test_only_a_session_that_there_was_is_begun_again() -> None:
    session = Session()
    assert not session.can_begin_again
    session.note(message(id=1, method="initialize", params={}))
    assert not session.can_begin_again
    session.begin(None, message(id=1, result={}))
    assert session.can_begin_again

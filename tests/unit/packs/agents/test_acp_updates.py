"""Updates of agents: each kind with its members of the right types, and garbage refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.packs.agents.acp_updates import OPTIONAL, ToolCalls, block_text, is_system_error, parse_update

TEXT = {"type": "text", "text": "hello"}
UPDATES: list[dict[str, Any]] = [
    {"sessionUpdate": "user_message_chunk", "content": TEXT},
    {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m1"},
    {"sessionUpdate": "agent_thought_chunk", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
    {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}},
    {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "content": [], "title": None},
    {"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "low", "status": "pending"}]},
    {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "x", "description": "y"}]},
    {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
    {"sessionUpdate": "config_option_update", "configOptions": []},
    {"sessionUpdate": "session_info_update", "title": "New"},
    {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}},
    {"sessionUpdate": "notice", "severity": "warning", "title": "slow"},
    {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed", "summary": None},
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
    {"sessionUpdate": "of_tomorrow", "anything": [1, 2]},
]
ANYTHING = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers() | st.just({})) | st.just({})


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update["sessionUpdate"])
def test_an_update_of_every_kind_passes_unchanged(update: dict[str, Any]) -> None:
    assert parse_update({"sessionId": "s", "update": update}) == ("s", update)


@pytest.mark.parametrize("update", UPDATES[:-1], ids=lambda update: update["sessionUpdate"])
def test_a_required_member_of_another_type_is_refused(update: dict[str, Any]) -> None:
    for name in update.keys() - OPTIONAL.keys() - {"sessionUpdate", "rawInput"}:
        with pytest.raises(MessageError, match=name):
            parse_update({"sessionId": "s", "update": update | {name: True}})


def test_malformed_optional_members_and_elements_are_left_out() -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": 5, "status": "pending", "kind": None}
    update |= {"content": [7, {"type": "content"}], "locations": "x", "_meta": []}
    _, found = parse_update({"sessionId": "s", "update": update})
    assert found == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "status": "pending",
        "kind": None,
        "content": [{"type": "content"}],
    }
    _, plan = parse_update({"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": [1, {"content": "a"}]}})
    assert plan["entries"] == [{"content": "a"}]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"update": UPDATES[0]},
        {"sessionId": 5, "update": UPDATES[0]},
        {"sessionId": "s", "update": []},
        {"sessionId": "s", "update": {"sessionUpdate": []}},
        {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}},
        {"sessionId": "s", "update": {"sessionUpdate": "usage_update", "used": True, "size": 1}},
    ],
)
def test_what_is_no_update_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        parse_update(params)


@given(
    st.sampled_from([update["sessionUpdate"] for update in UPDATES]),
    st.dictionaries(st.sampled_from([*OPTIONAL, *(name for update in UPDATES for name in update)]), ANYTHING),
)
def test_no_update_does_more_than_be_refused(kind: str, members: dict[str, Any]) -> None:
    try:
        _, found = parse_update({"sessionId": "s", "update": members | {"sessionUpdate": kind}})
    except MessageError:
        return
    assert found["sessionUpdate"] == kind
    block_text(found.get("content"))


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (TEXT, "hello"),
        ({"type": "image", "data": "…"}, "[image]"),
        ({"type": "resource_link", "name": "x", "uri": "file:///x"}, "[file:///x]"),
        ({"type": "resource", "resource": {"uri": "file:///x", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "file:///x", "blob": "AA=="}}, "[file:///x]"),
        ({"type": "resource"}, "[resource]"),
        ({"type": 5}, ""),
        ("text", ""),
        (None, ""),
    ],
)
def test_a_block_has_a_text_whatever_it_is(block: object, expected: str) -> None:
    assert block_text(block) == expected


def test_a_permission_request_is_completed_by_what_updates_told() -> None:
    calls = ToolCalls()
    calls.note({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", "rawInput": {}, "title": "T"})
    calls.note({"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [{"type": "diff", "path": "/a"}]})
    asked = {"toolCallId": "c", "title": "Edit files", "kind": "edit", "rawInput": {}}
    completed = calls.completed(asked)
    assert completed == {**asked, "content": [{"type": "diff", "path": "/a"}]}
    # The request itself counts where it tells something.
    assert calls.completed({"toolCallId": "c", "kind": "execute"})["kind"] == "execute"
    assert calls.completed({"toolCallId": "other"}) == {"toolCallId": "other"}


def test_only_the_newest_and_smaller_tool_calls_are_kept() -> None:
    calls = ToolCalls()
    for number in range(100):
        calls.note({"sessionUpdate": "tool_call", "toolCallId": str(number), "kind": "read"})
    assert calls.completed({"toolCallId": "0"}) == {"toolCallId": "0"}
    assert calls.completed({"toolCallId": "99"}) == {"toolCallId": "99", "kind": "read"}
    calls.note({"sessionUpdate": "tool_call", "toolCallId": "big", "rawInput": {"text": "x" * 300_000}})
    assert calls.completed({"toolCallId": "big"}) == {"toolCallId": "big"}


def test_a_failure_of_codex_is_known_by_its_status() -> None:
    update = {"sessionUpdate": "session_info_update", "_meta": {"codex": {"threadStatus": {"type": "systemError"}}}}
    assert is_system_error(update)
    for meta in ({}, {"codex": []}, {"codex": {"threadStatus": {"type": "idle"}}}, None):
        assert not is_system_error({**update, "_meta": meta})

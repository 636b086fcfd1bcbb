"""Formats of hooks: every event of every client, both ways."""

import json
from typing import Any

import pytest

from hearth.errors import HookFormatError
from hearth.policy import hook_formats
from hearth.policy.hook_formats import (
    CLIENTS,
    DECIDING,
    EVENTS,
    PAYLOAD_LIMIT_BYTES,
    REASON_LIMIT_CHARACTERS,
    SILENT,
    STOPPING,
    HookAnswer,
    HookVerdict,
    answer,
    failure,
    parse,
)
from support.hook_payloads import document, payload

EVERY = [(client, event) for client in CLIENTS for event in (*EVENTS[client], "worker-exit")]
# The events that docs/hooks.md promises, whatever else a client has.
PROMISED = (
    *("pre-tool-use", "post-tool-use", "notification", "stop", "subagent-start", "subagent-stop", "pre-compact"),
    *("session-start", "session-end", "permission-request", "user-prompt-submit"),
)
PROMISED_GEMINI = ("after-agent", "before-tool", "before-model", "after-model")
ALLOW, DENY, BLOCK = HookVerdict("allow"), HookVerdict("deny", "no pushing"), HookVerdict("block", "commit first")


def said(client: str, event: str, verdict: HookVerdict) -> Any:
    """The JSON of an answer; None for silence."""
    found = answer(client, event, verdict)
    assert found.exit_code == 0 and found.stderr == b""
    return json.loads(found.stdout) if found.stdout else None


def test_every_promised_event_is_known() -> None:
    assert set(PROMISED) <= set(EVENTS["claude"])
    assert set(PROMISED) - {"notification"} <= set(EVENTS["codex"])
    assert set(PROMISED_GEMINI) <= set(EVENTS["gemini"])


@pytest.mark.parametrize(("client", "event"), EVERY)
def test_each_event_of_each_client_is_read(client: str, event: str) -> None:
    call = parse(client, event, payload(client, event))
    given = document(client, event)
    assert (call.client, call.event) == (client, event)
    assert (call.session_id, call.cwd) == (given["session_id"], "/work/project")
    assert call.stop_hook_active is given.get("stop_hook_active", False)
    assert call.agent_id == given.get("agent_id", "")
    assert call.tool == ("Bash" if "tool_name" in given else None)
    assert json.loads(call.arguments) == ({"command": "git status"} if "tool_name" in given else {})


@pytest.mark.parametrize(("client", "event"), EVERY)
def test_each_event_of_each_client_can_be_answered_by_every_verdict(client: str, event: str) -> None:
    name = EVENTS[client].get(event, "")
    for verdict in (ALLOW, DENY, BLOCK):
        found = said(client, event, verdict)
        if name not in DECIDING | STOPPING:
            assert found is None
        elif verdict is not ALLOW:
            assert verdict.reason in json.dumps(found)
        assert "ask" not in json.dumps(found)
    assert said(client, event, SILENT) is None


@pytest.mark.parametrize("event", ["pre-tool-use"])
def test_claude_code_is_told_allow_and_deny_of_a_tool(event: str) -> None:
    assert said("claude", event, ALLOW) == {
        "hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}
    }
    assert said("claude", event, DENY) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no pushing",
        }
    }


def test_codex_is_told_deny_and_takes_silence_for_allow() -> None:
    assert answer("codex", "pre-tool-use", ALLOW) == HookAnswer(b"")
    assert said("codex", "pre-tool-use", DENY) == {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": "no pushing",
        }
    }


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_permission_request_is_answered_by_a_behavior(client: str) -> None:
    name = "PermissionRequest"
    assert said(client, "permission-request", ALLOW) == {
        "hookSpecificOutput": {"hookEventName": name, "decision": {"behavior": "allow"}}
    }
    assert said(client, "permission-request", DENY) == {
        "hookSpecificOutput": {"hookEventName": name, "decision": {"behavior": "deny", "message": "no pushing"}}
    }


@pytest.mark.parametrize("event", ["before-tool", "pre-tool-use"])
def test_gemini_cli_is_told_a_decision(event: str) -> None:
    assert said("gemini", event, ALLOW) == {"decision": "allow"}
    assert said("gemini", event, DENY) == {"decision": "deny", "reason": "no pushing"}


@pytest.mark.parametrize(
    ("client", "event", "word"),
    [
        ("claude", "stop", "block"),
        ("claude", "subagent-stop", "block"),
        ("codex", "stop", "block"),
        ("codex", "subagent-stop", "block"),
        ("gemini", "after-agent", "deny"),
        ("gemini", "stop", "deny"),
    ],
)
def test_a_stop_is_blocked_with_the_reason_or_passes_in_silence(client: str, event: str, word: str) -> None:
    assert said(client, event, BLOCK) == {"decision": word, "reason": "commit first"}
    assert answer(client, event, ALLOW) == HookAnswer(b"")


@pytest.mark.parametrize(("client", "event"), [each for each in EVERY if hook_formats.decides(*each)])
def test_a_deny_without_a_reason_gets_one_because_codex_would_run_the_tool(client: str, event: str) -> None:
    assert "denied by Hearth's policy" in json.dumps(said(client, event, HookVerdict("deny", " \n")))


def test_a_long_reason_is_cut() -> None:
    found = said("gemini", "before-tool", HookVerdict("deny", "x" * 100_000))
    assert len(found["reason"]) == REASON_LIMIT_CHARACTERS


@pytest.mark.parametrize(("client", "event"), EVERY)
def test_a_failure_denies_where_the_event_decides_and_is_silent_elsewhere(client: str, event: str) -> None:
    found = failure(client, event, "the daemon hangs")
    if hook_formats.decides(client, event):
        assert b"the daemon hangs" in found.stdout and b"deny" in found.stdout and found.exit_code == 0
    else:
        assert found == HookAnswer(b"")


@pytest.mark.parametrize(("client", "event"), [("cursor", "pre-tool-use"), ("claude", "before-tool"), ("codex", "x")])
def test_an_unknown_client_or_event_is_refused_and_its_failure_is_a_deny_to_every_client(
    client: str, event: str
) -> None:
    with pytest.raises(HookFormatError, match="known: "):
        parse(client, event, b"{}")
    with pytest.raises(HookFormatError):
        answer(client, event, ALLOW)
    assert failure(client, event, "reason") == HookAnswer(b"", 2, b"reason\n")


def test_a_verdict_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HookFormatError, match="'ask'"):
        answer("claude", "pre-tool-use", HookVerdict("ask"))


def test_the_hook_of_one_event_does_not_answer_for_another() -> None:
    with pytest.raises(HookFormatError, match="PreToolUse was called for 'Stop'"):
        parse("claude", "pre-tool-use", payload("claude", "stop"))


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"tool_name": "Bash", "tool_input": {"command": "ls"',
        b'{"tool_name":"Bash","tool_input":{"command":"ls"}} trailing',
        b"[" * 100_000,
        b'{"tool_name": "Bash", "tool_input": {"command": "ls", "timeout": NaN}}',
        b'{"tool_name": "Bash", "tool_input": {"command": "ls", "command": "rm -rf /"}}',
        b'{"tool_name": "Bash", "tool_name": "Read", "tool_input": {}}',
        b'{"tool_name": 7, "tool_input": {}}',
        b'{"tool_name": "Bash", "tool_input": "ls"}',
        b'{"tool_name": "Bash", "tool_input": null}',
        b'{"tool_name": "Bash", "tool_input": {}, "cwd": ["/"]}',
        b'{"tool_input": {"command": "ls"}}',
        b'{"tool_name": "Bash", "tool_input": {"command": "%s"}}' % (b"x" * PAYLOAD_LIMIT_BYTES),
    ],
    ids=lambda given: repr(given[:40]),
)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_input_that_could_mean_something_else_is_refused(client: str, given: bytes) -> None:
    event = "before-tool" if client == "gemini" else "pre-tool-use"
    with pytest.raises(HookFormatError):
        parse(client, event, given)

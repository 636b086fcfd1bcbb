"""The service behind the hooks: one answer for every call, and a deny for whatever goes wrong."""

import asyncio
import json
import logging
from typing import Any

import pytest

from hearth.errors import Refused
from hearth.hub.authorization.hooks import REMEMBERED_LIMIT, REUSE_SECONDS, HookCaller, HookService, HookSettings
from hearth.policy.hook_formats import CLIENTS, HookAnswer, HookCall, HookVerdict
from support.hook_payloads import payload, tool_call

ALLOW = HookVerdict("allow")
PID = 4711


class ScriptedDecider:
    """Decider that answers as the test says, and records what it was asked."""

    def __init__(self) -> None:
        self.verdicts: dict[str, HookVerdict | Exception] = {}
        self.stops: list[HookVerdict] = []
        self.asked: list[tuple[str, Any]] = []
        self.callers: list[HookCaller] = []
        self.events: list[str] = []
        self.hook_settings = HookSettings()
        self.hangs = False

    def settings(self) -> HookSettings:
        return self.hook_settings

    async def reaches_hearth(self, who: HookCaller, server: str, tool: str) -> bool:
        return server == "hearth" and tool == "github__merge"

    async def decide_tool(
        self, who: HookCaller, server: str | None, tool: str, arguments: bytes, workspace: str | None
    ) -> HookVerdict:
        assert server is None and workspace == "/work/project"
        self.callers.append(who)
        self.asked.append((tool, json.loads(arguments)))
        if self.hangs:
            await asyncio.Event().wait()
        found = self.verdicts.get(tool, ALLOW)
        if isinstance(found, Exception):
            raise found
        return found

    async def stop_verdict(self, who: HookCaller, call: HookCall) -> HookVerdict:
        return self.stops.pop(0) if self.stops else ALLOW

    def noticed(self, who: HookCaller, call: HookCall) -> None:
        self.events.append(call.event)


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def decider() -> ScriptedDecider:
    return ScriptedDecider()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(decider: ScriptedDecider, clock: Clock) -> HookService:
    return HookService(decider, clock)


def is_deny(found: HookAnswer) -> bool:
    return b'"deny"' in found.stdout and found.exit_code == 0


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_tool_is_decided_for_the_process_that_called(
    service: HookService, decider: ScriptedDecider, client: str
) -> None:
    event = "before-tool" if client == "gemini" else "pre-tool-use"
    assert not is_deny(await service.answer(client, event, payload(client, event), PID, "tok"))
    decider.verdicts["Bash"] = HookVerdict("deny", "not now")
    found = await service.answer(client, event, payload(client, event), PID, "")
    assert is_deny(found) and b"not now" in found.stdout
    assert decider.asked == [("Bash", {"command": "git status"})] * 2
    assert [(who.client, who.pid, who.token, who.cwd) for who in decider.callers] == [
        (client, PID, "tok", "/work/project"),
        (client, PID, None, "/work/project"),
    ]


async def test_a_tool_that_reaches_hearth_is_left_to_the_hub(service: HookService, decider: ScriptedDecider) -> None:
    given = tool_call("claude", "mcp__hearth__github__merge", {})
    assert await service.answer("claude", "pre-tool-use", given, PID, None) == HookAnswer(b"")
    assert decider.asked == []


async def test_a_server_whose_name_begins_as_hearth_s_is_decided(
    service: HookService, decider: ScriptedDecider
) -> None:
    await service.answer("claude", "pre-tool-use", tool_call("claude", "mcp__hearth__x__run", {}), PID, None)
    assert decider.asked == [("mcp__hearth__x__run", {})]


async def test_a_tool_of_another_mcp_server_is_decided_by_its_name(
    service: HookService, decider: ScriptedDecider
) -> None:
    await service.answer("claude", "pre-tool-use", tool_call("claude", "mcp__other__drop", {"x": 1}), PID, None)
    context = {"server_name": "other", "tool_name": "drop"}
    given = tool_call("gemini", "mcp_other_drop", {"x": 1}, mcp_context=context)
    await service.answer("gemini", "before-tool", given, PID, None)
    assert decider.asked == [("mcp__other__drop", {"x": 1})] * 2


async def test_every_file_of_a_patch_must_be_allowed(service: HookService, decider: ScriptedDecider) -> None:
    decider.verdicts["Edit"] = HookVerdict("deny", "not that file")
    given = tool_call("codex", "apply_patch", {"command": "*** Add File: a\n*** Update File: b\n*** Add File: c"})
    assert is_deny(await service.answer("codex", "pre-tool-use", given, PID, None))
    assert [(tool, values["file_path"]) for tool, values in decider.asked] == [("Write", "a"), ("Edit", "b")]


# --- one decision for one call


@pytest.mark.parametrize("verdict", [ALLOW, HookVerdict("deny", "no")])
async def test_a_permission_request_gets_the_decision_of_its_tool_use_once(
    service: HookService, decider: ScriptedDecider, verdict: HookVerdict
) -> None:
    decider.verdicts["Bash"] = verdict
    await service.answer("codex", "pre-tool-use", payload("codex", "pre-tool-use"), PID, None)
    for _ in range(2):
        found = await service.answer("codex", "permission-request", payload("codex", "permission-request"), PID, None)
        assert is_deny(found) == (verdict.kind == "deny")
    assert len(decider.asked) == 2


async def test_a_second_tool_use_is_decided_again(service: HookService, decider: ScriptedDecider) -> None:
    for _ in range(2):
        await service.answer("claude", "pre-tool-use", payload("claude", "pre-tool-use"), PID, None)
    assert len(decider.asked) == 2


@pytest.mark.parametrize(
    "more", [{"tool_input": {"command": "git status "}}, {"session_id": "other"}, {"agent_id": "a2"}, {"late": True}]
)
async def test_a_decision_serves_no_other_call_session_agent_or_minute(
    service: HookService, decider: ScriptedDecider, clock: Clock, more: dict[str, Any]
) -> None:
    await service.answer("claude", "pre-tool-use", payload("claude", "pre-tool-use"), PID, None)
    if more.pop("late", False):
        clock.time += REUSE_SECONDS
    await service.answer("claude", "permission-request", payload("claude", "permission-request", **more), PID, None)
    assert len(decider.asked) == 2


async def test_decisions_without_an_end_are_not_remembered_without_an_end(service: HookService) -> None:
    for number in range(REMEMBERED_LIMIT + 10):
        given = payload("claude", "pre-tool-use", session_id=str(number))
        await service.answer("claude", "pre-tool-use", given, PID, None)
    assert len(service._decisions._kept) == REMEMBERED_LIMIT


# --- whatever goes wrong


@pytest.mark.parametrize("problem", [Refused("the token has expired"), RuntimeError("broken")])
async def test_a_failed_decision_is_a_deny_that_says_why(
    service: HookService, decider: ScriptedDecider, caplog: pytest.LogCaptureFixture, problem: Exception
) -> None:
    decider.verdicts["Bash"] = problem
    with caplog.at_level(logging.ERROR):
        found = await service.answer("claude", "pre-tool-use", payload("claude", "pre-tool-use"), PID, None)
    assert is_deny(found)
    assert (b"expired" in found.stdout) == isinstance(problem, Refused)
    assert ("broken" in caplog.text) == isinstance(problem, RuntimeError)


async def test_a_decision_that_takes_too_long_is_a_deny(service: HookService, decider: ScriptedDecider) -> None:
    decider.hangs, decider.hook_settings = True, HookSettings(wait=0.01)
    found = await service.answer("gemini", "before-tool", payload("gemini", "before-tool"), PID, None)
    assert is_deny(found) and b"hook_wait" in found.stdout


@pytest.mark.parametrize("given", [b"{", b"[]", b"{}" + b" " * 5_000_000])
async def test_an_unreadable_call_is_a_deny_unless_the_policy_passes_errors(
    service: HookService, decider: ScriptedDecider, given: bytes
) -> None:
    assert is_deny(await service.answer("claude", "pre-tool-use", given, PID, None))
    assert await service.answer("claude", "stop", given, PID, None) == HookAnswer(b"")
    assert (await service.answer("claude", "nonsense", given, PID, None)).exit_code == 2
    decider.hook_settings = HookSettings(on_error="pass")
    assert await service.answer("claude", "pre-tool-use", given, PID, None) == HookAnswer(b"")
    assert await service.answer("claude", "nonsense", given, PID, None) == HookAnswer(b"")


# --- stops and events


async def test_a_blocked_stop_passes_after_the_most_blocks_in_a_row(
    service: HookService, decider: ScriptedDecider
) -> None:
    decider.hook_settings = HookSettings(max_blocks=2)
    decider.stops = [HookVerdict("block", "commit first")] * 6
    found = [await service.answer("claude", "stop", payload("claude", "stop"), PID, None) for _ in range(6)]
    assert [bool(each.stdout) for each in found] == [True, True, False, True, True, False]


async def test_a_stop_that_passes_ends_the_row_and_sessions_are_counted_apart(
    service: HookService, decider: ScriptedDecider
) -> None:
    decider.hook_settings = HookSettings(max_blocks=1)
    block = HookVerdict("block", "commit first")
    decider.stops = [block, ALLOW, block, block]
    sessions = ["one", "one", "one", "two"]
    found = [
        await service.answer("codex", "stop", payload("codex", "stop", session_id=each), PID, None) for each in sessions
    ]
    assert [bool(each.stdout) for each in found] == [True, False, True, True]


async def test_other_events_are_recorded_and_answered_by_silence(
    service: HookService, decider: ScriptedDecider
) -> None:
    for event in ("session-start", "post-tool-use", "worker-exit"):
        assert await service.answer("claude", event, payload("claude", event), PID, None) == HookAnswer(b"")
    assert decider.events == ["session-start", "post-tool-use", "worker-exit"] and decider.asked == []

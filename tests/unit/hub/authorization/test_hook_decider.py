"""The caller of a hook: its role, and the project whose policy it is held to, wherever it has moved."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.hub.agent_directory import ProcessOwner
from hearth.hub.authorization.guard import Guard
from hearth.hub.authorization.hook_decider import HasTool, HookDecider
from hearth.hub.authorization.hooks import HookCaller
from hearth.hub.sessions import Session
from hearth.policy import stop_checks
from hearth.policy.hook_formats import HookCall, HookVerdict
from hearth.policy.loader import parse
from hearth.policy.stop_checks import NoFacts
from hearth.policy.trust import ProjectPolicies, project_file
from unit.hub.authorization.agents_stage import AgentStage

USER = b'default_role = "dev"\n[roles.dev]\notherwise = "allow"\n'
PROJECT = (
    b'[[rules]]\ntool = "Bash"\ndecide = "deny"\nreason = "not here"\n'
    b'[[stop_checks]]\nkind = "committed"\nmessage = "commit first"\n'
)


class Recorded:
    """Recorder that forgets."""

    def call(self, *_: object) -> None:
        pass

    async def approval(self, *_: object) -> None:
        pass

    def event(self, *_: object) -> None:
        pass

    def refused(self, *_: object) -> None:
        pass


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    found = Guard(
        parse("/c/policy.toml", USER), cast(Any, SimpleNamespace(roles=None)), Recorded(), cast(Any, SimpleNamespace())
    )
    folder = str(tmp_path / "shop")
    found.projects = ProjectPolicies({folder: parse(project_file(folder), PROJECT)})
    return found


async def verdict(guard: Guard, tmp_path: Path, began: Path | None, moved: Path) -> str:
    """What is decided about a command of a client that began in one folder and is in another now."""
    session = None
    if began:
        session = cast(Session, SimpleNamespace(id="s", principal="p", cwd=str(began), token_role=None, role=None,
                                                client={}, agent_id=None, proven=(None, None)))  # fmt: skip

    async def owner_of(pid: int | None) -> ProcessOwner:
        return ProcessOwner([session] if session else [])

    decider = HookDecider(guard, Recorded(), owner_of, has_no_tool)
    who = HookCaller("claude", "x", 1, None, str(moved))
    found = await decider.decide_tool(who, None, "Bash", json.dumps({"command": "make"}).encode(), str(moved))
    return found.kind


async def test_an_agent_that_moves_out_of_its_project_stays_under_the_project_s_policy(
    guard: Guard, tmp_path: Path
) -> None:
    shop, other = tmp_path / "shop", tmp_path / "other"
    assert await verdict(guard, tmp_path, shop, other) == "deny"
    assert await verdict(guard, tmp_path, other, other) == "allow"


async def test_without_a_session_the_folder_of_the_hook_counts(guard: Guard, tmp_path: Path) -> None:
    assert await verdict(guard, tmp_path, None, tmp_path / "shop" / "src") == "deny"
    assert await verdict(guard, tmp_path, None, tmp_path) == "allow"


def test_stop_checks_of_a_project_are_added(guard: Guard, tmp_path: Path) -> None:
    assert [check.message for check in guard.policy_for(str(tmp_path / "shop")).stop_checks] == ["commit first"]
    assert guard.policy_for(str(tmp_path)).stop_checks == ()


# --- agents


@pytest.fixture
def stage(tmp_path: Path) -> AgentStage:
    found = AgentStage(
        tmp_path, 'default_role = "dev"\n[roles.dev]\notherwise = "deny"\n[roles.free]\notherwise = "allow"\n'
    )
    (tmp_path / "roles").mkdir(mode=0o700)
    return found


def has_no_tool(session: Session, name: str) -> bool:
    return False


def decider_of(stage: AgentStage, owner: ProcessOwner, has_tool: HasTool = has_no_tool) -> HookDecider:
    async def owner_of(pid: int | None) -> ProcessOwner:
        return owner

    return HookDecider(stage.guard, stage.recorder, owner_of, has_tool)


async def bash(decider: HookDecider, token: str | None = None, claimed: str | None = None) -> HookVerdict:
    who = HookCaller("claude", "x", 1, token, "/work", "", claimed)
    return await decider.decide_tool(who, None, "Bash", b'{"command":"make"}', "/work")


@pytest.mark.parametrize("by", ["token", "process"])
async def test_an_agent_s_hook_has_its_role_by_its_token_or_its_process(stage: AgentStage, by: str) -> None:
    token = stage.agents.add("a1", "free")
    session, _ = stage.session(agent="a1")
    owner = ProcessOwner([session], "a1") if by == "process" else ProcessOwner([])
    decider = decider_of(stage, owner)
    assert (await bash(decider, token if by == "token" else None)).kind == "allow"
    (row,) = stage.recorder.rows
    asker = row.asker
    assert (asker.principal, asker.agent, asker.client) == (session.principal, "a1", "claude")
    assert asker.session == (session.id if by == "process" else "")
    assert (await bash(decider_of(stage, ProcessOwner([])), "hearth-agent-unknown")).kind == "deny"


async def test_the_user_s_own_hooks_with_a_role_token_do_not_change_who_an_agent_is(stage: AgentStage) -> None:
    stage.agents.add("a1", "dev")
    token = stage.guard._tokens.issue("free")
    assert (await bash(decider_of(stage, ProcessOwner([])), token)).kind == "allow"
    assert (await bash(decider_of(stage, ProcessOwner([], "a1")), token)).kind == "deny"


async def test_a_tool_is_hearth_s_only_if_the_session_has_it(stage: AgentStage) -> None:
    session, _ = stage.session()
    who = HookCaller("claude", "x", 1, None, "/work")
    decider = decider_of(stage, ProcessOwner([session]), lambda _, name: name == "github__merge")
    assert await decider.reaches_hearth(who, "hearth", "github__merge")
    # `mcp__hearth__x__run` may be `run` of a server `hearth__x`.
    assert not await decider.reaches_hearth(who, "hearth", "x__run")
    assert not await decider.reaches_hearth(who, "other", "github__merge")
    assert await decider.reaches_hearth(who, "hearth", "ReadMcpResourceTool")


async def test_a_bridge_s_name_counts_as_the_client_writes_it(stage: AgentStage) -> None:
    session, _ = stage.session()
    session.server = "my-files"
    who = HookCaller("codex", "x", 1, None, "/work")
    decider = decider_of(stage, ProcessOwner([session]), lambda _, name: name == "read")
    assert await decider.reaches_hearth(who, "my_files", "read")
    assert not await decider.reaches_hearth(who, "my_file", "read")


@pytest.mark.parametrize("by", ["token", "process", "role token", "session"])
async def test_a_hook_that_claims_another_agent_is_denied(stage: AgentStage, by: str) -> None:
    agent_token = stage.agents.add("a1", "free")
    session, _ = stage.session(agent="a1")
    owners = {"process": ProcessOwner([], "a1"), "session": ProcessOwner([session])}
    tokens = {"token": agent_token, "role token": stage.guard._tokens.issue("free", "a1")}
    decider = decider_of(stage, owners.get(by, ProcessOwner([])))
    assert (await bash(decider, tokens.get(by), "a1")).kind == "allow"
    refused = await bash(decider, tokens.get(by), "a2")
    assert (refused.kind, refused.reason.startswith("NOT_ALLOWED: ")) == ("deny", True)


async def test_the_token_of_one_agent_below_another_is_denied(stage: AgentStage) -> None:
    stage.agents.add("a1", "dev")
    refused = await bash(decider_of(stage, ProcessOwner([], "a1")), stage.agents.add("a2", "free"))
    assert refused.reason.startswith("NOT_ALLOWED: ")


class TaskFacts(NoFacts):
    """Facts of an agent whose task is not done."""

    def is_task_done(self) -> bool | None:
        return False


async def test_the_stop_checks_of_an_agent_ask_what_the_daemon_knows_of_it(tmp_path: Path) -> None:
    check = '[[stop_checks]]\nkind = "task_done"\nmessage = "finish it"\n'
    stage = AgentStage(tmp_path, USER.decode() + check)
    stage.agents.add("a1", "dev")
    stage.agents.facts = TaskFacts()
    call = HookCall("claude", "stop", "x", str(tmp_path), None, None, b"", False)
    who = HookCaller("claude", "x", 1, None, str(tmp_path))
    found = await decider_of(stage, ProcessOwner([], "a1")).stop_verdict(who, call)
    assert (found.kind, found.reason) == ("block", "finish it: the task is not marked as done")
    assert (await decider_of(stage, ProcessOwner([])).stop_verdict(who, call)).kind == "allow"


async def test_the_stop_checks_of_an_agent_look_at_its_own_folder(
    stage: AgentStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    async def run(checks: object, role: str, folder: str, facts: object) -> list[object]:
        looked.append(folder)
        return []

    monkeypatch.setattr(stop_checks, "run", run)
    stage.agents.add("a1", "dev", cwd="/work")
    call = HookCall("claude", "stop", "x", "/elsewhere", None, None, b"", False)
    who = HookCaller("claude", "x", 1, None, "/elsewhere")
    for owner in (ProcessOwner([], "a1"), ProcessOwner([])):
        await decider_of(stage, owner).stop_verdict(who, call)
    assert looked == ["/work", "/elsewhere"]

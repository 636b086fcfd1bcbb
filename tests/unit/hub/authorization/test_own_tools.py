"""Questions about tools that no call carries: permission requests of agents, hooks, and modes that never ask."""

import asyncio
import json
from pathlib import Path

import pytest

from hearth.errors import Refused
from hearth.hub.authorization import own_tools
from hearth.hub.authorization.approvals import Approval
from hearth.hub.authorization.own_tools import JOIN_SECONDS, OwnTools
from hearth.hub.authorization.pending import ITEMS_PER_PRINCIPAL, Approver
from hearth.hub.sessions import agent_principal
from unit.hub.authorization.agents_stage import TEAM, AgentStage, settle

PERSON = Approver("person", "cli")


@pytest.fixture
def stage(tmp_path: Path) -> AgentStage:
    found = AgentStage(tmp_path)
    found.agents.add("a1", "dev")
    return found


async def test_a_request_without_a_time_limit_waits_for_its_approval_s_own_end(tmp_path: Path) -> None:
    stage = AgentStage(tmp_path, "approval_timeout = 1\n" + TEAM)
    stage.agents.add("a1", "dev")
    asked = await stage.ask("a1")
    assert await asked.task == (False, "denied by policy: there was no decision in time")


async def test_a_request_with_a_time_limit_says_what_is_pending(stage: AgentStage) -> None:
    asked = await stage.ask("a1", seconds=0.0)
    allowed, reason = await asked.task
    assert (allowed, reason) == (
        False,
        f"pending approval {asked.approvals[0].id}; try again unchanged once it is approved",
    )


async def test_sessions_hooks_and_requests_of_an_agent_have_one_principal(stage: AgentStage) -> None:
    first, _ = stage.session(agent="a1")
    second, _ = stage.session(agent="a1")
    asker = stage.guard.agent_asker("a1", "claude", "/work")
    assert first.principal == second.principal == asker.principal == agent_principal("a1")
    assert (asker.role, asker.agent, asker.workspace, asker.origin) == ("dev", "a1", "/work", "/")


async def test_a_closed_agent_asks_for_nothing(stage: AgentStage) -> None:
    stage.agents.close("a1")
    with pytest.raises(Refused, match="agent 'a1' is closed"):
        stage.guard.agent_asker("a1")


@pytest.mark.parametrize("ways", [("hook", "permission"), ("permission", "hook")])
async def test_two_ways_of_asking_about_one_call_share_its_approval(stage: AgentStage, ways: tuple[str, str]) -> None:
    first, second = [await stage.ask("a1", way=way) for way in ways]
    assert first.approvals == second.approvals
    await stage.pending.decide(first.approvals[0].id, "approve", PERSON)
    assert await first.task == await second.task == (True, "")
    assert len(stage.pending) == 0


@pytest.mark.parametrize("ways", [("hook", "permission"), ("permission", "hook")])
async def test_the_second_way_of_asking_is_answered_after_the_first_is_over(
    stage: AgentStage, ways: tuple[str, str]
) -> None:
    first = await stage.ask("a1", way=ways[0])
    await stage.pending.decide(first.approvals[0].id, "approve", PERSON)
    await first.task
    second = await stage.ask("a1", way=ways[1])
    assert (await second.task, second.approvals) == ((True, ""), [])
    for way in ways:
        third = await stage.ask("a1", seconds=0.0, way=way)
        assert not (await third.task)[0]
        assert third.approvals


async def test_a_grant_is_good_in_the_repository_that_its_caller_works_in(stage: AgentStage, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name / ".git").mkdir(parents=True)
    asker = stage.guard.agent_asker("a1")

    def asked_in(folder: str, approvals: list[Approval]) -> asyncio.Task[tuple[bool, str]]:
        origin = asker._replace(origin=str(tmp_path / folder))
        return asyncio.ensure_future(
            stage.guard.obtain(origin, None, "Bash", b"{}", None, approvals.append, "permission")
        )

    approvals: list[Approval] = []
    first = asked_in("one", approvals)
    await settle()
    await stage.pending.decide(approvals[0].id, "approve", PERSON, "", "always")
    assert await first == await asked_in("one/src", []) == (True, "")
    other = asked_in("other", approvals)
    await settle()
    assert len(approvals) == 2
    await stage.pending.decide(approvals[1].id, "deny", PERSON)
    assert not (await other)[0]


async def test_the_same_way_again_is_another_call(stage: AgentStage) -> None:
    first = await stage.ask("a1")
    await stage.pending.decide(first.approvals[0].id, "approve", PERSON)
    await first.task
    again = await stage.ask("a1", seconds=0.0)
    assert not (await again.task)[0]


async def test_other_arguments_a_denial_and_a_minute_end_the_sharing(stage: AgentStage) -> None:
    clock = [0.0]
    stage.guard._own_tools = OwnTools(stage.guard, lambda: clock[0])
    first = await stage.ask("a1", way="hook")
    await stage.pending.decide(first.approvals[0].id, "approve", PERSON)
    await first.task
    other = await stage.ask("a1", seconds=0.0, command="make install")
    assert not (await other.task)[0]
    clock[0] = JOIN_SECONDS
    late = await stage.ask("a1")
    await stage.pending.decide(late.approvals[0].id, "deny", PERSON, "no")
    assert await late.task == (False, "denied by person: no")
    after = await stage.ask("a1", seconds=0.0, way="hook")
    assert not (await after.task)[0]


async def test_a_lead_s_approval_is_not_shared_where_a_person_has_to_decide(tmp_path: Path) -> None:
    stage = AgentStage(tmp_path, TEAM)
    stage.agents.add("lead", "tl")
    stage.agents.add("a1", "dev", "lead")
    lead, _ = stage.session(agent="lead")
    first = await stage.ask("a1", way="hook")
    await stage.approvals.decide(first.approvals[0].id, "approve", Approver.at(lead, "tool"))
    await first.task
    from hearth.policy.loader import parse

    rule = '[[rules]]\ntool = "Bash"\nrole = "dev"\ndecide = "ask_human"\n'
    stage.guard.policy = parse("/c/policy.toml", (TEAM + rule).encode())
    second = await stage.ask("a1", seconds=0.0)
    assert not (await second.task)[0]
    assert second.approvals[0].level == "human"


async def test_what_is_remembered_is_bounded(stage: AgentStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_tools, "REMEMBERED_LIMIT", 2)
    for number in range(3):
        asked = await stage.ask("a1", way="hook", command=f"make {number}")
        await stage.pending.decide(asked.approvals[0].id, "approve", PERSON)
        await asked.task
    assert not (await (await stage.ask("a1", seconds=0.0, command="make 0")).task)[0]
    assert (await (await stage.ask("a1", command="make 2")).task)[0]


async def test_a_request_that_is_given_up_withdraws_its_approval_unless_another_waits(stage: AgentStage) -> None:
    first, second = await stage.ask("a1"), await stage.ask("a1", way="hook")
    first.task.cancel()
    await settle()
    assert len(stage.pending) == 1
    second.task.cancel()
    await asyncio.wait([first.task, second.task])
    assert (len(stage.pending), first.approvals[0].outcome and first.approvals[0].outcome.verdict) == (0, "withdrawn")


async def test_an_agent_has_a_bounded_number_of_questions(stage: AgentStage) -> None:
    asked = [await stage.ask("a1", command=f"make {number}") for number in range(ITEMS_PER_PRINCIPAL)]
    refused = await stage.ask("a1", command="make more")
    allowed, reason = await refused.task
    assert (allowed, "20 requests of this client already wait" in reason) == (False, True)
    stage.approvals.drain()
    assert {await each.task for each in asked} == {(False, "not run: the daemon shuts down; call again unchanged")}


# --- modes

MODES = TEAM.replace("[roles.dev]\n", '[roles.dev]\notherwise = "allow"\ngrants = ["agent_mode(bypassPermissions)"]\n')


async def test_a_mode_that_never_asks_needs_a_grant_or_a_person_and_never_a_lead(tmp_path: Path) -> None:
    stage = AgentStage(tmp_path, MODES)
    stage.agents.add("lead", "tl")
    stage.agents.add("a1", "dev", "lead")
    asker = stage.guard.agent_asker("a1")
    assert await stage.guard.obtain_mode(asker, "claude", "bypassPermissions", None) == (True, "")
    approvals = []
    task = asyncio.ensure_future(stage.guard.obtain_mode(asker, "codex", "full-access", None, approvals.append))
    await settle()
    (approval,) = approvals
    assert (approval.level, approval.lead, approval.tool) == ("human", None, "agent_mode")
    assert json.loads(approval.shown) == {"mode": "full-access", "provider": "codex"}
    await stage.pending.decide(approval.id, "approve", PERSON)
    assert await task == (True, "")


async def test_a_session_may_start_agents_of_the_roles_in_its_own(stage: AgentStage) -> None:
    lead, _ = stage.session("tl")
    dev, _ = stage.session()
    gone, _ = stage.session("retired")
    assert [stage.guard.may_start(each, "dev") for each in (lead, dev, gone)] == [True, False, False]
    assert not stage.guard.may_start(lead, "tl")

"""The cascade of agents: the lead above an agent, the lead of its workspace, the person; and who decides nothing."""

from pathlib import Path

import pytest

from hearth.errors import Refused
from hearth.hub.authorization.pending import Approver
from hearth.hub.events import EVENTS, ApprovalRequested
from hearth.policy.loader import parse
from hearth.wire import json
from unit.hub.authorization.agents_stage import TEAM, AgentStage, asked_by_elicitation, settle


@pytest.fixture
def stage(tmp_path: Path) -> AgentStage:
    """A lead agent with a child of the role dev, which has a child of its own."""
    found = AgentStage(tmp_path)
    found.agents.add("lead", "tl")
    found.agents.add("child", "dev", "lead")
    found.agents.add("grandchild", "dev", "child")
    return found


async def test_the_nearest_lead_above_an_agent_is_asked_and_told_once(stage: AgentStage) -> None:
    stage.agents.add("top", "tl")
    stage.agents.parents["lead"] = "top"
    asked = await stage.ask("grandchild")
    (approval,) = asked.approvals
    assert (approval.level, approval.lead) == ("lead", "lead")
    assert stage.agents.told == [("lead", approval)]
    again = await stage.ask("grandchild")
    assert again.approvals == [approval]
    assert len(stage.agents.told) == 1
    shown = approval.describe()
    assert (shown["agent"], shown["lead"], shown["kind"], shown["client"]) == (
        "grandchild",
        "lead",
        "approval",
        "claude",
    )
    event = EVENTS.kept()[-1]
    assert isinstance(event, ApprovalRequested)
    assert (event.id, event.agent, event.lead, event.level) == (approval.id, "grandchild", "lead", "lead")
    stage.approvals.drain()
    await asked.task


async def test_any_session_of_the_lead_agent_decides_also_one_that_came_later(stage: AgentStage) -> None:
    first, _ = stage.session(agent="lead")
    asked = await stage.ask("child")
    (approval,) = asked.approvals
    stage.sessions.remove(first)
    stage.approvals.session_left(first)
    assert approval.lead == "lead"
    later, _ = stage.session(agent="lead")
    assert await stage.approvals.decide(approval.id, "approve", Approver.at(later, "tool"))
    assert await asked.task == (True, "")


async def test_a_lead_that_is_closed_is_passed_over_and_hands_its_questions_on(stage: AgentStage) -> None:
    stage.agents.add("top", "tl")
    stage.agents.parents["lead"] = "top"
    asked = await stage.ask("child")
    stage.agents.close("lead")
    stage.approvals.agent_closed("lead")
    assert (asked.approvals[0].level, asked.approvals[0].lead) == ("human", None)
    other = await stage.ask("grandchild")
    assert other.approvals[0].lead == "top"
    stage.agents.close("child")
    stage.approvals.agent_closed("child")
    assert await asked.task == (False, "not run: the agent was closed")
    stage.approvals.drain()
    await other.task


async def test_a_lead_agent_whose_role_is_no_lead_any_more_hands_its_questions_on(stage: AgentStage) -> None:
    asked = await stage.ask("child")
    stage.guard.policy = parse("/c/policy.toml", TEAM.replace("lead = true", "lead = false").encode())
    stage.approvals.policy_changed()
    assert asked.approvals[0].level == "human"
    stage.approvals.drain()
    await asked.task


async def test_an_agent_without_a_lead_above_asks_the_lead_session_of_its_workspace(
    stage: AgentStage, tmp_path: Path
) -> None:
    stage.agents.add("alone", "dev", cwd=str(tmp_path))
    lead, _ = stage.session("tl", cwd=str(tmp_path))
    stage.session("tl", cwd="/")
    asked = await stage.ask("alone")
    (approval,) = asked.approvals
    assert (approval.level, approval.lead) == ("lead", None)
    assert stage.approvals.is_for(approval, lead)
    stage.sessions.remove(lead)
    stage.approvals.session_left(lead)
    assert approval.level == "human"
    stage.approvals.drain()
    await asked.task


async def test_sessions_of_one_lead_agent_in_the_workspace_are_one_lead(stage: AgentStage) -> None:
    stage.agents.add("alone", "dev")
    stage.session(agent="lead")
    stage.session(agent="lead")
    asked = await stage.ask("alone")
    assert asked.approvals[0].lead == "lead"
    stage.approvals.drain()
    await asked.task


@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_an_agent_decides_neither_its_own_requests_nor_those_of_agents_above(
    stage: AgentStage, action: str
) -> None:
    stage.agents.add("sub", "tl", "child")
    below, _ = stage.session(agent="sub")
    own, _ = stage.session(agent="child")
    asked = await stage.ask("child")
    (approval,) = asked.approvals
    assert approval.lead == "lead"
    with pytest.raises(Refused, match="agents above it"):
        await stage.approvals.decide(approval.id, action, Approver.at(below, "tool"))
    with pytest.raises(Refused, match="its own requests"):
        await stage.approvals.decide(approval.id, action, Approver.at(own, "tool"))
    stage.approvals.drain()
    await asked.task


async def test_a_lead_below_the_asker_is_not_the_lead_of_its_workspace(stage: AgentStage) -> None:
    stage.agents.add("alone", "dev")
    stage.agents.add("sub", "tl", "alone")
    stage.session(agent="sub")
    asked = await stage.ask("alone")
    assert asked.approvals[0].level == "human"
    stage.approvals.drain()
    await asked.task


async def test_another_lead_than_the_one_that_is_asked_decides_nothing(stage: AgentStage) -> None:
    other, _ = stage.session("tl")
    asked = await stage.ask("child")
    with pytest.raises(Refused, match="not this lead's"):
        await stage.approvals.decide(asked.approvals[0].id, "approve", Approver.at(other, "tool"))
    stage.approvals.drain()
    await asked.task


async def test_a_question_is_never_put_to_a_client_below_the_one_that_asks(stage: AgentStage) -> None:
    stage.agents.add("alone", "desk")
    own, _ = stage.session(agent="alone", pid=13)
    _, desk = stage.session("desk", pid=11)
    member, below = stage.session("desk", pid=12)
    other, elsewhere = stage.session("desk", pid=14)
    stage.above = {member.id: [own], other.id: [member]}
    asked = await stage.ask("alone")
    await settle()
    assert [len(asked_by_elicitation(sink)) for sink in (desk, below, elsewhere)] == [1, 0, 1]
    stage.approvals.drain()
    await asked.task


async def test_a_question_is_put_to_a_person_s_client_and_never_below_an_agent(stage: AgentStage) -> None:
    stage.agents.add("alone", "desk")
    _, desk = stage.session("desk", pid=11)
    _, below = stage.session("desk", pid=12)
    _, own = stage.session(agent="alone", pid=13)
    stage.below[12] = "alone"
    asked = await stage.ask("alone")
    await settle()
    assert [len(asked_by_elicitation(sink)) for sink in (desk, below, own)] == [1, 0, 0]
    (question,) = asked_by_elicitation(desk)
    assert "claude (role desk) asks to call Bash" in question["params"]["message"]
    answer = {"action": "accept", "content": {"decision": "Allow once"}}
    member = next(each for each in stage.sessions if each.pid == 11)
    line = {"jsonrpc": "2.0", "id": question["id"], "result": answer}
    stage.questions.receive_answer(member, json.parse(json.dumps(line)))
    assert await asked.task == (True, "")


async def test_a_role_token_with_an_agent_id_is_no_agent_of_this_daemon(stage: AgentStage) -> None:
    worker, _ = stage.session("tl")
    worker.prove("tl", "worker-1", "/")
    stage.agents.add("alone", "dev")
    asked = await stage.ask("alone")
    assert (asked.approvals[0].level, asked.approvals[0].lead) == ("lead", None)
    assert await stage.approvals.decide(asked.approvals[0].id, "deny", Approver.at(worker, "tool"), "no")
    assert await asked.task == (False, "denied by c: no")

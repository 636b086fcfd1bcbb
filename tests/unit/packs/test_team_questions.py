"""Questions of agents to the person, by way of a hub."""

from typing import Any

import pytest

from hearth.errors import Refused
from hearth.hub.authorization.pending import Approver
from hearth.packs.agents.model import AgentRecord
from hearth.packs.team import questions
from hearth.packs.team.questions import HumanQuestion
from unit.conversations import until
from unit.packs.team_stage import TeamStage

PERSON = Approver("person", "cli")


@pytest.fixture
def dev(stage: TeamStage) -> AgentRecord:
    return stage.agent(role="dev", title="Fix the login")


def waiting(stage: TeamStage) -> list[HumanQuestion]:
    return [each for each in stage.hub.pending if isinstance(each, HumanQuestion)]


async def asked(stage: TeamStage, count: int = 1) -> HumanQuestion:
    await until(lambda: len(waiting(stage)) == count and waiting(stage)[-1].is_awaited, "the question waits")
    return waiting(stage)[-1]


async def decide(stage: TeamStage, action: str, reason: str = "", by: Approver = PERSON) -> str:
    return await stage.hub.pending.decide(waiting(stage)[-1].id, action, by, reason)


async def test_a_person_answers(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    id = client.begin_call("ask_human", question="Which\ndatabase?")
    item = await asked(stage)
    shown: dict[str, Any] = item.describe()
    assert (shown["kind"], shown["level"], shown["agent"], shown["role"]) == ("question", "human", dev.id, "dev")
    assert (shown["server"], shown["tool"], shown["client"]) == ("team", "ask_human", "Fix the login")
    assert shown["question"] == "Which\ndatabase?" and '"Which\\ndatabase?"' in shown["arguments"]
    assert await decide(stage, "approve", "The second one") == f"question {item.id} is answered"
    assert await client.result(id) == {
        "status": "answered",
        "questionId": item.id,
        "answer": "The second one",
        "message": None,
    }
    assert waiting(stage) == []


async def test_an_answer_is_one_of_the_options(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    for reason, answer in (("2", "red"), ("blue", "blue")):
        id = client.begin_call("ask_human", question="Colour?", options=["blue", "red"])
        await asked(stage)
        for bad in ("", "green", "3"):
            with pytest.raises(Refused, match="needs an answer, `--reason TEXT`: blue, red"):
                await decide(stage, "approve", bad)
        await decide(stage, "approve", reason)
        assert (await client.result(id))["answer"] == answer


async def test_a_person_may_decline(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    id = client.begin_call("ask_human", question="Why?")
    await asked(stage)
    assert "is declined" in await decide(stage, "deny", "find out yourself")
    found = await client.result(id)
    assert (found["status"], found["answer"], found["message"]) == ("denied", None, "find out yourself")


async def test_only_a_person_answers(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    client.begin_call("ask_human", question="Why?")
    await asked(stage)
    lead = stage.client(stage.agent(role="tl"))
    for by in (Approver.at(lead.session, "tool"), Approver.at(client.session, "elicitation")):
        with pytest.raises(Refused, match="for a person"):
            await decide(stage, "approve", "x", by)
    with pytest.raises(Refused, match="the person's already"):
        await decide(stage, "escalate")
    with pytest.raises(Refused, match="needs an answer"):
        await decide(stage, "approve", "  ")


async def test_a_call_waits_for_a_while_and_the_same_call_waits_on(
    stage: TeamStage, dev: AgentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "WAIT_SECONDS", 0.01)
    client = stage.client(dev)
    first = await client.call("ask_human", question="Why?")
    assert (first["status"], first["answer"]) == ("pending", None)
    again = await client.call("ask_human", question="Why?")
    assert again["questionId"] == first["questionId"] and len(waiting(stage)) == 1
    other = await client.call("ask_human", question="How?")
    assert other["questionId"] != first["questionId"]
    # The answer to a question for which no call waits is kept for the next one, and is used once.
    await stage.hub.pending.decide(first["questionId"], "approve", PERSON, "Because")
    assert (await client.call("ask_human", question="Why?"))["answer"] == "Because"
    assert (await client.call("ask_human", question="Why?"))["status"] == "pending"
    # The answer is the asker's alone.
    assert (await stage.client(stage.agent()).call("ask_human", question="How?"))["status"] == "pending"


async def test_a_cancelled_call_leaves_the_question(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    id = client.begin_call("ask_human", question="Why?")
    item = await asked(stage)
    client.cancel(id)
    await until(lambda: not item.is_awaited, "the call ends")
    await decide(stage, "approve", "Because")
    assert (await client.call("ask_human", question="Why?"))["answer"] == "Because"


async def test_a_question_returns_early_when_something_else_waits_for_the_asker(
    stage: TeamStage, dev: AgentRecord
) -> None:
    client, notices = stage.client(dev), stage.service.delivery.notices
    id = client.begin_call("ask_human", question="Why?")
    item = await asked(stage)
    notices.post("another", "child", "finished", 1, "theirs")
    notices.post(dev.id, "child", "finished", 1, "mine")
    found = await client.result(id)
    assert (found["status"], found["questionId"], found["answer"]) == ("pending", item.id, None)
    assert found["attention"] == [{"agentId": "child", "kind": "finished", "title": "mine"}]
    # The question stays, and nothing is told twice.
    again = client.begin_call("ask_human", question="Why?")
    assert await asked(stage) is item
    await decide(stage, "approve", "Because")
    assert await client.result(again) == {
        "status": "answered",
        "questionId": item.id,
        "answer": "Because",
        "message": None,
    }
    assert notices.parents() == ["another"]


async def test_a_question_that_is_cancelled_leaves_what_waits_for_the_asker(stage: TeamStage, dev: AgentRecord) -> None:
    client, notices = stage.client(dev), stage.service.delivery.notices
    id = client.begin_call("ask_human", question="Why?")
    item = await asked(stage)
    client.cancel(id)
    await until(lambda: not item.is_awaited, "the call ends")
    notices.post(dev.id, "child", "finished", 1, "mine")
    assert [each.kind for each in notices.of(dev.id)] == ["finished"]
    assert (await client.call("ask_human", question="Why?"))["attention"][0]["agentId"] == "child"


async def test_a_question_expires(stage: TeamStage, dev: AgentRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "QUESTION_SECONDS", 0.01)
    found = await stage.client(dev).call("ask_human", question="Why?")
    assert (found["status"], found["message"]) == ("expired", "nobody has answered in time")
    assert waiting(stage) == []


async def test_the_end_of_the_pack_withdraws_questions(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    client.begin_call("ask_human", question="Why?")
    await asked(stage)
    await stage.hub.stop()
    assert waiting(stage) == []


async def test_an_agent_that_asks_too_much_is_refused(
    stage: TeamStage, dev: AgentRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "WAIT_SECONDS", 0.001)
    client = stage.client(dev)
    for number in range(20):
        assert (await client.call("ask_human", question=f"{number}?"))["status"] == "pending"
    assert "already wait for a decision" in await client.refusal("ask_human", question="more?")
    assert "is empty" in await client.refusal("ask_human", question="  ")
    assert "at most 10 items" in await client.refusal("ask_human", question="x", options=["a"] * 11)
    assert (await stage.client().refusal("ask_human", question="x")).startswith("NOT_ALLOWED")

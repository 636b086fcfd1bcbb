"""Tasks of a team, by way of a hub."""

import asyncio
from typing import Any

import pytest

from hearth.packs.agents.model import AgentRecord
from unit.packs.team_stage import TeamStage, ToolCaller


@pytest.fixture
def lead(stage: TeamStage) -> AgentRecord:
    return stage.agent(role="tl", title="Lead")


@pytest.fixture
def dev(stage: TeamStage, lead: AgentRecord) -> AgentRecord:
    return stage.agent(lead, role="dev", title="Fix the login")


async def created(client: ToolCaller, **keys: Any) -> Any:
    return (await client.call("task_create", **{"subject": "Fix it", **keys}))["task"]


async def test_a_task_is_created_listed_taken_and_completed(
    stage: TeamStage, lead: AgentRecord, dev: AgentRecord
) -> None:
    chief, worker = stage.client(lead), stage.client(dev)
    task = await created(chief, subject="Fix the\nlogin", description="All of\nit", active_form="Fixing")
    assert (task["subject"], task["description"], task["activeForm"]) == ("Fix the login", "All of\nit", "Fixing")
    assert (task["status"], task["owner"], task["createdBy"]) == ("pending", None, lead.id)
    [listed] = (await worker.call("task_list"))["tasks"]
    assert listed == {key: value for key, value in task.items() if key != "description"}
    assert (await worker.call("task_get", task_id=task["id"]))["task"] == task
    taken = (await worker.call("task_update", task_id=task["id"], status="in_progress"))["task"]
    assert (taken["owner"], taken["ownerTitle"], taken["status"]) == (dev.id, "Fix the login", "in_progress")
    done = (await worker.call("task_update", task_id=task["id"], status="completed", active_form=""))["task"]
    assert (done["status"], done["activeForm"], done["owner"]) == ("completed", None, dev.id)
    assert (await chief.call("task_list", status_filter="pending"))["tasks"] == []
    assert len((await chief.call("task_list", status_filter="completed"))["tasks"]) == 1


async def test_owners_are_named_as_recipients_are(stage: TeamStage, lead: AgentRecord, dev: AgentRecord) -> None:
    chief, worker = stage.client(lead), stage.client(dev)
    for name in (dev.id, "dev", "fix the login"):
        assert (await created(chief, owner=name))["owner"] == dev.id
    assert (await created(worker, owner="me"))["owner"] == dev.id
    assert (await created(worker, owner="parent"))["owner"] == lead.id
    assert (await created(worker, owner=None))["owner"] is None
    assert "no agent 'x' is in your team" in await chief.refusal("task_create", subject="s", owner="x")


async def test_a_task_with_an_owner_is_changed_by_owner_creator_and_those_above(
    stage: TeamStage, lead: AgentRecord, dev: AgentRecord
) -> None:
    other, helper = stage.agent(lead, role="other"), stage.agent(dev, role="helper")
    mine = await created(stage.client(helper), owner="me")
    refused = await stage.client(other).refusal("task_update", task_id=mine["id"], status="completed")
    assert refused.startswith(f"NOT_ALLOWED: task {mine['id']} is agent {helper.id}'s")
    for record in (helper, dev, lead):
        assert await stage.client(record).call("task_update", task_id=mine["id"], status="in_progress")
    given = await created(stage.client(other), owner=dev.id)
    assert await stage.client(other).call("task_update", task_id=given["id"], active_form="x")
    assert await stage.client(dev).call("task_update", task_id=given["id"], owner=None)
    assert (await stage.client(helper).call("task_update", task_id=given["id"], owner="me"))["task"][
        "owner"
    ] == helper.id
    helper.status = "closed"
    taken = await stage.client(other).call("task_update", task_id=given["id"], owner="me")
    assert taken["task"]["owner"] == other.id


async def test_one_of_two_agents_gets_a_task(stage: TeamStage, lead: AgentRecord, dev: AgentRecord) -> None:
    other = stage.agent(lead, role="other")
    task = await created(stage.client(lead))
    clients = [stage.client(dev), stage.client(other)]
    ids = [client.begin_call("task_update", task_id=task["id"], status="in_progress") for client in clients]
    answers = await asyncio.gather(*(client.answer(id) for client, id in zip(clients, ids, strict=True)))
    assert sorted(bool(each["result"].get("isError")) for each in answers) == [False, True]


async def test_tasks_belong_to_the_folder_of_the_team_or_to_its_tree(
    stage: TeamStage, lead: AgentRecord, dev: AgentRecord
) -> None:
    task = await created(stage.client(lead))
    stranger = stage.client(stage.agent(role="dev"))
    assert (await stranger.call("task_list"))["tasks"] == []
    for tool in ("task_get", "task_update"):
        assert "there is no task" in await stranger.refusal(tool, task_id=task["id"])
    # Two agents that one client has created in one folder are no tree, and share their tasks.
    first, second = stage.agent(workspace="/project"), stage.agent(workspace="/project")
    shared = await created(stage.client(stage.agent(first, workspace="/elsewhere")))
    assert [each["id"] for each in (await stage.client(second).call("task_list"))["tasks"]] == [shared["id"]]


async def test_bad_tasks_are_refused(stage: TeamStage, dev: AgentRecord) -> None:
    client = stage.client(dev)
    assert "must have 'subject'" in await client.refusal("task_create")
    assert "needs a subject" in await client.refusal("task_create", subject=" \n ")
    assert "at most 200" in await client.refusal("task_create", subject="x" * 201)
    assert "there is no task 'x'" in await client.refusal("task_get", task_id="x")
    assert "must be one of" in await client.refusal("task_update", task_id="x", status="done")
    assert (await stage.client().refusal("task_list")).startswith("NOT_ALLOWED")


async def test_texts_of_tasks_are_escaped(stage: TeamStage, lead: AgentRecord, dev: AgentRecord) -> None:
    dev.title = "a\n</b>"
    task = await created(stage.client(dev), subject="x\x1b[2J\u202e", description="y\u202e\nz", owner="me")
    found = (await stage.client(lead).call("task_get", task_id=task["id"]))["task"]
    assert (found["subject"], found["description"]) == ("x\\u001b[2J\\u202e", "y\\u202e\nz")
    assert found["ownerTitle"] == "a &lt;/b&gt;"

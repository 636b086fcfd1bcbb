"""Waits for agents: what ends them, what they say, and that a cancelled call ends the wait and not the agent."""

import signal

import pytest

from support.agents.home import AgentTools, opened, serve
from support.conformance.clients import CANCELLED
from support.daemon import Scratch
from support.kernel import is_gone, until


@pytest.fixture
def tools(scratch: Scratch) -> AgentTools:
    serve(scratch, agents={"wait_timeout": 1.0})
    return opened(scratch)


def test_a_wait_that_times_out_is_a_result_with_the_recent_activity(tools: AgentTools) -> None:
    agent = tools.create("say working\nsleep")["agentId"]
    found = tools.wait(agent)
    assert found["status"] == "running"
    assert found["permission"] is None
    assert found["lastMessage"].startswith("Awaiting the agent timed out after 1s. This does not mean the agent failed")
    assert "Recent activity:\n[User]" in found["lastMessage"]
    assert "working" in found["lastMessage"]


def test_a_wait_reports_progress(scratch: Scratch) -> None:
    serve(scratch, agents={"wait_timeout": 6.0})
    tools = opened(scratch)
    agent = tools.create("sleep", background=True)["agentId"]
    id = tools.client.begin_call("agents__wait_for_agent", None, {"progressToken": "p"}, agentId=agent)
    assert tools.client.next_called("notifications/progress")["params"]["progress"] > 0
    assert tools.end(id)["status"] == "running"


def test_a_finished_agent_is_not_waited_for(tools: AgentTools) -> None:
    agent = tools.create("say done")["agentId"]
    assert tools.wait(agent) == {"agentId": agent, "status": "idle", "permission": None, "lastMessage": "done"}


def test_a_wait_ends_when_the_turn_fails(tools: AgentTools) -> None:
    agent = tools.create("sleep 0.2\nfail the model is overloaded", background=True)["agentId"]
    found = tools.wait(agent)
    assert found["status"] == "error"
    assert "the model is overloaded" in found["lastMessage"]
    # The next prompt tries again.
    assert tools.send(agent, "say better")["lastMessage"] == "better"
    assert tools.status(agent)["lastError"] is None


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("refusal", "the model refused to go on"),
        ("max_tokens", "the model's limit of tokens"),
        ("max_turn_requests", "limit of requests to the model"),
    ],
)
def test_a_turn_that_the_agent_ends_before_it_is_done_is_no_finished_one(
    tools: AgentTools, reason: str, sentence: str
) -> None:
    found = tools.create(f"say half\nstop {reason}")
    assert found["status"] == "error"
    snapshot = tools.status(found["agentId"])
    assert sentence in snapshot["lastError"]
    assert snapshot["attentionReason"] == "error"
    assert tools.send(found["agentId"], "stop cancelled\nsay on")["lastMessage"] == "on"
    assert tools.status(found["agentId"])["status"] == "idle"


def test_a_new_prompt_replaces_the_turn_and_tells_those_that_wait(tools: AgentTools, scratch: Scratch) -> None:
    agent = tools.create("sleep", background=True)["agentId"]
    other = opened(scratch)
    id = other.begin("wait_for_agent", agentId=agent)
    other.status(agent)
    assert tools.send(agent, "say new")["lastMessage"] == "new"
    answer = other.client.answer_to(id)["result"]
    assert answer["isError"] is True
    assert answer["content"][0]["text"] == "Agent run interrupted by new prompt"


def test_a_cancelled_turn_tells_those_that_wait_and_the_agent_stays(tools: AgentTools, scratch: Scratch) -> None:
    agent = tools.create("sleep", background=True)["agentId"]
    other = opened(scratch)
    id = other.begin("wait_for_agent", agentId=agent)
    other.status(agent)
    assert tools.call("cancel_agent", agentId=agent) == {"success": True}
    assert other.client.answer_to(id)["result"]["content"][0]["text"] == "Agent run cancelled"
    assert tools.status(agent)["status"] == "idle"
    assert tools.call("cancel_agent", agentId=agent) == {"success": False}
    assert tools.send(agent, "say on")["lastMessage"] == "on"


def test_a_killed_agent_tells_those_that_wait(tools: AgentTools, scratch: Scratch) -> None:
    agent = tools.create("sleep", background=True)["agentId"]
    other = opened(scratch)
    id = other.begin("wait_for_agent", agentId=agent)
    other.status(agent)
    tools.call("kill_agent", agentId=agent)
    assert other.client.answer_to(id)["result"]["content"][0]["text"] == "Agent terminated"
    assert "is closed (killed by a client)" in tools.fails("send_agent_prompt", agentId=agent, prompt="x")


def test_a_cancelled_call_ends_the_wait_and_not_the_agent(tools: AgentTools) -> None:
    agent = tools.create("sleep 0.4\nsay done", background=True)["agentId"]
    id = tools.begin("wait_for_agent", agentId=agent)
    tools.client.notify(CANCELLED, {"requestId": id})
    assert tools.wait(agent)["lastMessage"] == "done"


def test_a_wait_does_not_hold_the_end_of_the_daemon(scratch: Scratch) -> None:
    daemon = serve(scratch, settings={"drain_timeout": 300.0})
    tools = opened(scratch)
    agent = tools.create("sleep", background=True)["agentId"]
    id = tools.begin("wait_for_agent", agentId=agent)
    tools.status(agent)
    daemon.signal(signal.SIGTERM)
    assert tools.end(id)["lastMessage"].startswith("Awaiting the agent ended, because the daemon shuts down")
    assert daemon.wait() == 0


def test_an_agent_that_ignores_a_cancel_is_given_up_and_resumed(scratch: Scratch) -> None:
    serve(scratch, "--resume", "--no-answer", "session/cancel")
    tools = opened(scratch)
    agent = tools.create("pid")["agentId"]
    pid = tools.pid(agent)
    tools.send(agent, "sleep", background=True)
    assert tools.call("cancel_agent", agentId=agent) == {"success": True}
    assert tools.status(agent)["status"] == "idle"
    until(lambda: is_gone(pid), "the process, which would go on with the work, is gone")
    answer = tools.send(agent, "pid")["lastMessage"]
    assert answer == str(tools.pid(agent)) != str(pid)
    assert f"turn not ended by the agent after a cancel agent={agent}" in scratch.logged()


def test_activity_shows_the_newest_entries(tools: AgentTools) -> None:
    agent = tools.create("think hm\nsay one")["agentId"]
    tools.send(agent, "say two")
    found = tools.call("get_agent_activity", agentId=agent)
    assert found["content"].endswith("two")
    assert "[Thought] hm" in found["content"]
    shown = tools.call("get_agent_activity", agentId=agent, limit=1)
    assert shown["content"] == f"Showing 1 of {found['updateCount']} activities (limited to 1)\n\ntwo"


@pytest.mark.parametrize("option", ["--modes", "--config-modes"])
def test_modes_are_those_that_the_agent_offers(scratch: Scratch, option: str) -> None:
    serve(scratch, option)
    tools = opened(scratch)
    agent = tools.create("say hello", mode="plan")["agentId"]
    assert tools.status(agent)["currentModeId"] == "plan"
    assert tools.call("set_agent_mode", agentId=agent, modeId="acceptEdits") == {
        "success": True,
        "newMode": "acceptEdits",
    }
    assert "its modes: default, acceptEdits" in tools.fails("set_agent_mode", agentId=agent, modeId="wild")
    assert tools.send(agent, "mode", sessionMode="default")["lastMessage"] == "default"
    assert "has no mode 'wild'" in tools.fails("create_agent", cwd=tools.cwd, mode="wild")
    assert len(tools.agents()) == 1
    until(lambda: len(tools.agents(includeArchived=True)) == 1, "nothing is left of the failed one")

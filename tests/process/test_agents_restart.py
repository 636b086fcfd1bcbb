"""Agents across the end of their daemon: sessions are resumed, lost turns are told, notices arrive once."""

import os
import signal
from collections.abc import Callable

import pytest

from process.test_agents_family import activity, child_of, notices, told
from support.agents.home import config, opened, serve
from support.daemon import Scratch
from support.kernel import is_gone, until


def ended(scratch: Scratch, number: signal.Signals) -> None:
    pid = int(scratch.status()["pid"])
    os.kill(pid, number)
    until(lambda: is_gone(pid), "the daemon is gone")


def killed(scratch: Scratch) -> None:
    """Kill the daemon; the next one is started by the test."""
    ended(scratch, signal.SIGKILL)


def stopped(scratch: Scratch) -> None:
    """Ask the daemon to end."""
    ended(scratch, signal.SIGTERM)


def test_an_idle_agent_is_resumed_by_the_next_prompt_in_a_new_daemon(scratch: Scratch) -> None:
    daemon = serve(scratch, "--modes")
    tools = opened(scratch)
    agent = tools.create("say one", mode="plan", title="mine")["agentId"]
    pid = tools.pid(agent)
    daemon.stop()
    assert is_gone(pid)
    scratch.start()
    tools = opened(scratch)
    found = tools.status(agent)
    assert (found["status"], found["title"], found["pid"], found["turn"]) == ("idle", "mine", None, 1)
    assert tools.send(agent, "mode")["lastMessage"] == "plan"
    text = activity(tools, agent)
    assert text.index("one") < text.index("plan")


@pytest.mark.parametrize("end", [killed, stopped])
def test_a_turn_that_ran_is_lost_and_its_agent_is_resumed(scratch: Scratch, end: Callable[[Scratch], None]) -> None:
    serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say one\nsleep", background=True)["agentId"]
    until(lambda: "one" in activity(tools, agent), "it works")
    pid = tools.pid(agent)
    end(scratch)
    until(lambda: is_gone(pid), "its process is gone")
    scratch.start()
    tools = opened(scratch)
    found = tools.status(agent)
    assert found["status"] == "error"
    assert "the daemon ended during the turn" in found["lastError"]
    assert tools.send(agent, "say two")["lastMessage"] == "two"


def test_an_agent_that_cannot_be_resumed_is_closed_with_the_reason(scratch: Scratch) -> None:
    daemon = serve(scratch, "--no-load")
    tools = opened(scratch)
    agent = tools.create("say one")["agentId"]
    daemon.stop()
    scratch.start()
    tools = opened(scratch)
    found = tools.status(agent)
    assert found["status"] == "closed"
    assert "no other one can continue its session" in found["closedReason"]


def test_a_notice_survives_the_daemon_and_arrives_once(scratch: Scratch) -> None:
    daemon = serve(scratch)
    tools = opened(scratch)
    lead = tools.create("say lead")["agentId"]
    child = child_of(tools, lead, "sleep 0.2\nsay done")
    tools.send(lead, "sleep", background=True)
    assert tools.wait(child)["lastMessage"] == "done"
    daemon.stop()
    scratch.start()
    tools = opened(scratch)
    told(tools, lead, child)
    stopped(scratch)
    scratch.start()
    tools = opened(scratch)
    assert tools.send(lead, "say next")["lastMessage"] == "next"
    assert notices(tools, lead, child, "finished") == 1


def test_a_parent_is_told_without_a_client_that_a_child_has_lost_its_turn(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    lead = tools.create("say lead")["agentId"]
    child = child_of(tools, lead, "sleep")
    killed(scratch)
    scratch.start()
    tools = opened(scratch)
    told(tools, lead, child, "errored")
    assert notices(tools, lead, child, "errored") == 1


@pytest.mark.parametrize("end", [killed, stopped])
def test_a_notice_whose_turn_was_lost_is_told_again_and_one_that_was_read_is_not(
    scratch: Scratch, end: Callable[[Scratch], None]
) -> None:
    hold = scratch.home / "hold"
    hold.touch()
    serve(scratch, "--hold", str(hold))
    tools = opened(scratch)
    lead = tools.create()["agentId"]
    child = child_of(tools, lead, "sleep 0.2\nsay done")
    until(lambda: notices(tools, lead, child, "finished"), "a turn tells the lead")
    end(scratch)
    hold.unlink()
    scratch.start()
    tools = opened(scratch)
    until(lambda: said_back(activity(tools, lead)) == 1, "the lead has read it")
    # A state that a wait has returned is on disk.
    assert tools.wait(lead)["status"] == "idle"
    killed(scratch)
    scratch.start()
    tools = opened(scratch)
    assert tools.send(lead, "say next")["lastMessage"] == "next"
    assert said_back(activity(tools, lead)) == 1


def said_back(activity: str) -> int:
    return activity.count("echo: <hearth-system>")


def test_a_request_that_ended_with_the_daemon_is_not_told_by_the_next_one(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    lead = tools.create("say lead")["agentId"]
    child = child_of(tools, lead, "sleep 0.2\nask execute")
    tools.send(lead, "sleep", background=True)
    assert tools.wait(child)["permission"]
    killed(scratch)
    scratch.start()
    tools = opened(scratch)
    told(tools, lead, child, "errored")
    assert notices(tools, lead, child, "errored") == 1
    assert notices(tools, lead, child, "needs permission") == 0


def test_token_files_of_a_former_daemon_are_removed(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say one")["agentId"]
    path = scratch.folder / "agents" / f"{agent}.token"
    assert path.stat().st_mode & 0o777 == 0o600
    killed(scratch)
    assert path.exists()
    scratch.start()
    until(lambda: not path.exists(), "the file is removed")


def test_an_idle_agent_gives_its_process_back_and_is_resumed(scratch: Scratch) -> None:
    serve(scratch, agents={"idle_close": 0.2})
    tools = opened(scratch)
    agent = tools.create("say one")["agentId"]
    until(lambda: tools.status(agent)["pid"] is None, "the process is given back")
    assert tools.status(agent)["status"] == "idle"
    assert not list((scratch.folder / "agents").iterdir())
    assert tools.send(agent, "say two")["lastMessage"] == "two"


def test_the_idle_exit_waits_for_a_running_turn(scratch: Scratch) -> None:
    daemon = serve(scratch, settings={"idle_timeout": 0.2})
    tools = opened(scratch)
    agent = tools.create("sleep 1\nsay done", background=True)["agentId"]
    tools.client.close()
    assert daemon.wait() == 0
    serve(scratch)
    tools = opened(scratch)
    assert "done" in activity(tools, agent)
    assert tools.status(agent)["lastError"] is None


@pytest.mark.parametrize(
    ("prompt", "sessions"), [("pid", 1), ("mcp agents__list_agents {}", 2)], ids=["no bridge", "its own bridge"]
)
def test_the_idle_exit_waits_for_an_agent_that_cannot_be_resumed(scratch: Scratch, prompt: str, sessions: int) -> None:
    held = {"idle_timeout": 0.1}
    daemon = serve(scratch, "--no-load", settings=held, agents={"idle_close": 600.0})
    tools = opened(scratch)
    agent = tools.create(prompt)["agentId"]
    pid = tools.pid(agent)
    assert len(scratch.status()["sessions"]) == sessions
    # A second daemon, whose agent can be resumed and whose client leaves later, shows that the idle timeout is over.
    with Scratch() as other:
        example = serve(other, settings=held, agents={"idle_close": 600.0})
        client = opened(other)
        client.create(prompt)
        tools.client.close()
        client.client.close()
        assert example.wait() == 0
    tools = opened(scratch)
    assert tools.send(agent, "pid")["lastMessage"] == str(pid)
    scratch.write_config(config(scratch, "--no-load", settings=held, agents={"idle_close": 0.1}))
    scratch.reload()
    tools.send(agent, "say last")
    tools.client.close()
    assert daemon.wait() == 0
    assert is_gone(pid)


def test_a_closed_agent_is_forgotten_with_its_record(scratch: Scratch) -> None:
    daemon = serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say one")["agentId"]
    tools.call("kill_agent", agentId=agent)
    daemon.stop()
    scratch.start()
    found = opened(scratch).agents(includeArchived=True)
    assert [(each["id"], each["status"]) for each in found] == [(agent, "closed")]

"""Agents of a real daemon: created, prompted, watched, cancelled and killed over a real wire."""

from support.agents.home import opened, serve
from support.daemon import Scratch
from support.kernel import is_gone


def test_an_agent_is_created_prompted_and_killed(scratch: Scratch) -> None:
    serve(scratch, "--modes")
    tools = opened(scratch)
    created = tools.create("hello\nthere")
    assert created["status"] == "idle"
    assert created["lastMessage"] == "echo: hello\nthere"
    assert created["currentModeId"] == "default"
    assert [each["id"] for each in created["availableModes"]] == ["default", "acceptEdits", "plan", "bypassPermissions"]
    agent = created["agentId"]
    assert tools.status(agent)["title"] == "hello"
    pid = tools.pid(agent)
    assert tools.send(agent, "again")["lastMessage"] == "echo: again"
    assert [each["id"] for each in tools.agents()] == [agent]
    assert tools.wait(agent)["lastMessage"] == "echo: again"
    assert tools.call("kill_agent", agentId=agent) == {"success": True}
    assert is_gone(pid)
    assert tools.agents() == []
    assert [each["status"] for each in tools.agents(includeArchived=True)] == ["closed"]
    assert not list((scratch.folder / "agents").iterdir())

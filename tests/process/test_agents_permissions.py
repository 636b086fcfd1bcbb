"""Permission requests of agents without a policy: each waits for an authorized decision, and ends with the turn."""

import pytest

from support.agents.home import AgentTools, opened, serve
from support.clients import Message
from support.daemon import Scratch
from support.kernel import until


@pytest.fixture
def tools(scratch: Scratch) -> AgentTools:
    serve(scratch)
    return opened(scratch)


def asked(tools: AgentTools, prompt: str = "ask execute") -> tuple[str, Message]:
    """An agent that has asked, and its request."""
    created = tools.create(prompt)
    assert created["status"] == "running"
    return created["agentId"], created["permission"]


def respond(tools: AgentTools, agent: str, request: str, **response: object) -> Message:
    return tools.call("respond_to_permission", agentId=agent, requestId=request, response=response)


def test_a_call_that_waits_returns_with_the_request(tools: AgentTools) -> None:
    agent, request = asked(tools)
    assert (request["name"], request["kind"], request["provider"]) == ("Bash", "tool", "echo")
    assert request["input"] == {"command": "git push origin main"}
    assert [each["behavior"] for each in request["actions"]] == ["allow", "deny"]
    assert tools.wait(agent)["permission"] == request
    pending = tools.call("list_pending_permissions")["permissions"]
    assert pending == [{"agentId": agent, "status": "running", "request": request}]
    assert tools.status(agent)["attentionReason"] == "permission"


@pytest.mark.quick
def test_allow_picks_the_option_that_allows_once(tools: AgentTools) -> None:
    agent, request = asked(tools)
    assert respond(tools, agent, request["id"], behavior="allow") == {"success": True}
    assert tools.wait(agent)["lastMessage"] == "selected allow"
    assert "has no open permission request" in tools.fails(
        "respond_to_permission", agentId=agent, requestId=request["id"], response={"behavior": "allow"}
    )


@pytest.mark.quick
def test_deny_picks_the_option_that_rejects_and_may_cancel_the_turn(tools: AgentTools) -> None:
    agent, request = asked(tools)
    respond(tools, agent, request["id"], behavior="deny", message="not now")
    assert tools.wait(agent)["lastMessage"] == "selected reject"
    agent, request = asked(tools, "ask execute\nsleep")
    respond(tools, agent, request["id"], behavior="deny", interrupt=True)
    assert tools.status(agent)["status"] == "idle"


def test_an_agent_that_offers_only_to_allow_always_is_denied(tools: AgentTools) -> None:
    agent, request = asked(tools, "ask-always execute")
    respond(tools, agent, request["id"], behavior="allow")
    assert tools.wait(agent)["lastMessage"] == "cancelled"
    assert "no option that allows this once" in tools.call("get_agent_activity", agentId=agent)["content"]


@pytest.mark.parametrize("key", ["updatedInput", "updatedPermissions"])
def test_changes_of_the_request_are_refused(tools: AgentTools, key: str) -> None:
    agent, request = asked(tools)
    value = {} if key == "updatedInput" else []
    response = {"behavior": "allow", key: value}
    problem = tools.fails("respond_to_permission", agentId=agent, requestId=request["id"], response=response)
    assert f"{key} is not supported" in problem
    assert tools.wait(agent)["permission"] == request


def test_an_action_must_be_offered_and_mean_the_same(tools: AgentTools) -> None:
    agent, request = asked(tools)
    for chosen in ("allow_always", "reject", "none"):
        response = {"behavior": "allow", "selectedActionId": chosen}
        problem = tools.fails("respond_to_permission", agentId=agent, requestId=request["id"], response=response)
        assert f"has no action '{chosen}'" in problem
    respond(tools, agent, request["id"], behavior="allow", selectedActionId="allow")
    assert tools.wait(agent)["lastMessage"] == "selected allow"


@pytest.mark.parametrize("way", ["prompt", "cancel", "kill"])
def test_a_request_ends_with_its_turn(tools: AgentTools, way: str) -> None:
    agent, _ = asked(tools)
    if way == "prompt":
        assert tools.send(agent, "say new")["lastMessage"] == "new"
    else:
        tools.call(f"{way}_agent", agentId=agent)
    assert tools.call("list_pending_permissions")["permissions"] == []


def test_a_thousand_requests_are_bounded_and_delay_no_other_agent(tools: AgentTools) -> None:
    agent, _ = asked(tools, "ask-many 1000")

    def pending() -> list[str]:
        return [each["request"]["id"] for each in tools.call("list_pending_permissions")["permissions"]]

    until(lambda: len(pending()) == 20, "the bound is reached")
    assert tools.create("say other")["lastMessage"] == "other"
    # Those beyond the bound were cancelled at once, so that 20 answers end the turn; some may still be on their way.
    while tools.status(agent)["status"] == "running":
        for request in pending():
            respond(tools, agent, request, behavior="deny")
    assert "20 are open already" in tools.call("get_agent_activity", agentId=agent)["content"]


def test_a_person_decides_at_the_command_line(tools: AgentTools, scratch: Scratch) -> None:
    agent, request = asked(tools)
    done = scratch.hearth("approve", request["id"])
    assert done.returncode == 0, done.stderr
    assert tools.wait(agent)["lastMessage"] == "selected allow"


def test_the_agent_may_withdraw_its_request(tools: AgentTools) -> None:
    # In the background: a call that waits may see the request before it is withdrawn.
    agent = tools.create("ask-withdrawn execute", background=True)["agentId"]
    until(lambda: tools.status(agent)["lastMessage"] == "error -32800", "the agent is told that it withdrew it")
    assert tools.call("list_pending_permissions")["permissions"] == []

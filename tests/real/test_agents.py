"""Real claude-agent-acp, codex-acp, gemini and opencode as agents of Hearth, with a fake model, through the bridge."""

from collections.abc import Iterator

import pytest

from support.real.acp_agents import AGENTS
from support.real.agent_home import AgentHome
from support.real.model_server import Step

pytestmark = pytest.mark.real

# A command that ends only when it is killed.
ENDLESS = "tail -f /dev/null"


@pytest.fixture(scope="module", params=AGENTS, ids=lambda kind: kind.name)
def home(request: pytest.FixtureRequest) -> Iterator[AgentHome]:
    """A daemon with one kind of agent, for all tests here."""
    with AgentHome(request.param) as found:
        yield found


@pytest.fixture(scope="module")
def agent(home: AgentHome) -> str:
    """An agent that has finished its first turn."""
    created = home.create(Step(text="one two three"), initialPrompt="count\nto three", title="counter")
    assert (created["status"], created["type"]) == ("idle", home.agent.name)
    assert created["lastMessage"].endswith("one two three")
    assert created["cwd"] == str(home.folder)
    agent: str = created["agentId"]
    return agent


def run_endless(home: AgentHome, agent: str) -> set[int]:
    """Have the agent run a command that does not end; returns its processes."""
    before = home.agent_pids()
    home.send(agent, "run it", home.agent.question(ENDLESS), background=True)
    home.respond(agent, home.wait(agent)["permission"], behavior="allow")
    return home.until(lambda: home.agent_pids() - before, "the command runs")


def test_a_created_agent_is_shown_with_its_modes_and_what_it_has_done(home: AgentHome, agent: str) -> None:
    found = home.status(agent)
    assert (found["status"], found["provider"], found["title"]) == ("idle", home.agent.name, "counter")
    assert set(home.agent.modes) <= {each["id"] for each in found["availableModes"]}
    assert found["currentModeId"] == home.agent.asking_mode
    assert found["capabilities"]["supportsSessionPersistence"] is True
    assert set(found["lastUsage"]) == home.agent.usage
    content = home.activity(agent)
    assert "[User] count\nto three" in content and "one two three" in content
    assert [each["id"] for each in home.call("list_agents")["agents"]] == [agent]
    installed = {each["name"]: each["installed"] for each in home.call("list_providers")["providers"]}
    assert all(installed[kind.name] for kind in AGENTS)


def test_a_model_that_is_named_is_used_and_another_one_refused(home: AgentHome, agent: str) -> None:
    named = f"{home.agent.name}/{home.agent.other_model}"
    other = home.call("create_agent", cwd=str(home.folder), provider=named)["agentId"]
    found = home.status(other)
    assert (found["provider"], found["model"]) == (home.agent.name, home.agent.other_model)
    assert found["model"] != home.status(agent)["model"]
    home.call("kill_agent", agentId=other)
    answer = home.client.answer_to(home.begin("create_agent", cwd=str(home.folder), provider=f"{home.agent.name}/wild"))
    said = answer["result"]["content"][0]["text"]
    assert "has no model 'wild'; its models: " in said and home.agent.other_model in said


def test_a_command_runs_once_its_permission_is_given(home: AgentHome, agent: str) -> None:
    steps = (home.agent.question("touch allowed"), Step(text="it is done"))
    assert home.send(agent, "make it", *steps, background=True)["success"] is True
    waited = home.wait(agent)
    request = waited["permission"]
    assert (waited["status"], request["kind"], request["provider"]) == ("running", "tool", home.agent.name)
    pending = home.call("list_pending_permissions")["permissions"]
    assert [(each["agentId"], each["request"]["id"]) for each in pending] == [(agent, request["id"])]
    assert not (home.folder / "allowed").exists()
    home.respond(agent, request, behavior="allow")
    waited = home.wait(agent)
    assert waited["status"] == "idle" and waited["lastMessage"].endswith("it is done")
    assert (home.folder / "allowed").exists()
    assert "touch allowed" in home.activity(agent)


def test_a_command_does_not_run_when_its_permission_is_denied(home: AgentHome, agent: str) -> None:
    home.send(agent, "make it", home.agent.question("touch denied"), background=True)
    home.respond(agent, home.wait(agent)["permission"], behavior="deny", message="not that one")
    assert home.wait(agent)["status"] == "idle"
    assert not (home.folder / "denied").exists()


def test_a_tool_of_hearth_needs_no_permission(home: AgentHome, agent: str) -> None:
    sent = home.send(agent, "name yourself", Step(call=("set_title", {"title": "namer"})), Step(text="named"))
    assert (sent["status"], sent["permission"]) == ("idle", None)
    assert sent["lastMessage"].endswith("named")
    assert home.status(agent)["title"] == "namer"


def test_the_tools_that_only_read_need_no_permission(home: AgentHome, agent: str) -> None:
    # In this mode Codex asks nobody.
    mode = "agent-full-access" if home.agent.name == "codex" else home.agent.asking_mode
    reads = [Step(call=(tool, {})) for tool in ("list_pending_permissions", "list_agents")]
    status = Step(call=("get_agent_status", {"agentId": agent}))
    home.call("set_agent_mode", agentId=agent, modeId=mode)
    try:
        sent = home.send(agent, "look around", *reads, status, Step(text="looked"))
    finally:
        home.call("set_agent_mode", agentId=agent, modeId=home.agent.asking_mode)
    assert (sent["status"], sent["permission"]) == ("idle", None)
    assert sent["lastMessage"].endswith("looked")
    seen = home.model.seen()
    assert "requires approval" not in seen
    # The answers of the tools: an agent has no authority over itself.
    assert '"permissions":[]' in seen.replace("\\", "") and '"agents":[]' in seen.replace("\\", "")
    assert f"Agent {agent} is not a descendant" in seen


def test_a_turn_is_cancelled_while_the_model_speaks(home: AgentHome, agent: str) -> None:
    home.send(agent, "speak", Step(text="first second", stalls=True), background=True)
    assert home.model.stalled.wait(20)
    assert home.call("cancel_agent", agentId=agent) == {"success": True}
    assert home.status(agent)["status"] == "idle"
    assert home.model.abandoned.wait(20)
    assert home.call("cancel_agent", agentId=agent) == {"success": False}
    assert home.send(agent, "again", Step(text="third", prompt="again"))["lastMessage"].endswith("third")


def test_a_turn_is_cancelled_while_a_command_runs(home: AgentHome, agent: str) -> None:
    begun = run_endless(home, agent)
    assert home.call("cancel_agent", agentId=agent) == {"success": True}
    assert home.status(agent)["status"] == "idle"
    if home.agent.cancel_ends_command:
        home.until_gone(begun)


def test_a_prompt_replaces_the_turn_that_asks_for_permission(home: AgentHome, agent: str) -> None:
    home.send(agent, "make it", home.agent.question("touch replaced"), background=True)
    assert home.wait(agent)["permission"]
    assert home.send(agent, "leave it", Step(text="left", prompt="leave it"))["lastMessage"].endswith("left")
    assert home.call("list_pending_permissions")["permissions"] == []
    assert not (home.folder / "replaced").exists()


def test_a_failure_of_the_model_is_an_error_of_the_turn(home: AgentHome, agent: str) -> None:
    home.send(agent, "try", Step(status=400))
    found = home.status(agent)
    assert found["status"] == "error"
    assert "the model fails with 400" in found["lastError"]
    assert home.send(agent, "try again", Step(text="better"))["status"] == "idle"


def test_the_mode_is_switched_and_kept(home: AgentHome, agent: str) -> None:
    mode = next(mode for mode in home.agent.modes if mode != home.agent.asking_mode)
    assert home.call("set_agent_mode", agentId=agent, modeId=mode) == {"success": True, "newMode": mode}
    assert home.status(agent)["currentModeId"] == mode
    home.call("set_agent_mode", agentId=agent, modeId=home.agent.asking_mode)
    assert home.status(agent)["currentModeId"] == home.agent.asking_mode


def test_a_session_goes_on_after_the_daemon_was_killed_in_the_middle_of_a_turn(home: AgentHome, agent: str) -> None:
    home.send(agent, "what is the word?", Step(text="the word is pumpkin"))
    run_endless(home, agent)
    former = home.agent_pids()
    home.kill_daemon()
    home.until_gone(former)
    home.agent.age_session()
    found = home.status(agent)
    assert found["status"] == "error" and "daemon" in found["lastError"]
    sent = home.send(agent, "and now?", Step(text="it is known"))
    assert (sent["status"], sent["lastMessage"].endswith("it is known")) == ("idle", True)
    assert "pumpkin" in home.model.seen()
    content = home.activity(agent)
    assert content.count("the word is pumpkin") == 1 and "it is known" in content
    assert home.status(agent)["currentModeId"] == home.agent.asking_mode


def test_a_killed_agent_leaves_no_process(home: AgentHome, agent: str) -> None:
    run_endless(home, agent)
    running = home.agent_pids()
    assert home.call("kill_agent", agentId=agent) == {"success": True}
    assert not running & home.pids()
    assert home.agent_pids() == set()
    assert home.status(agent)["status"] == "closed"
    assert home.call("list_agents")["agents"] == []

"""Agents of a real daemon: created, prompted, watched, cancelled and killed over a real wire."""

import json

import pytest

from support.agents.home import AgentTools, config, new_repository, opened, serve
from support.conformance.clients import CANCELLED
from support.daemon import Scratch
from support.kernel import is_gone, until


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


def test_usage_is_shown_during_the_turn_and_kept_after_the_daemon(scratch: Scratch) -> None:
    daemon = serve(scratch)
    tools = opened(scratch)
    agent = tools.create("usage\nsleep", background=True)["agentId"]
    session = {"contextWindowUsedTokens": 53000, "contextWindowMaxTokens": 200000, "totalCostUsd": 0.045}
    assert until(lambda: tools.status(agent)["lastUsage"], "the agent has told its usage") == session
    tools.send(agent, "say hi")
    usage = {**session, "inputTokens": 10, "outputTokens": 5}
    assert tools.status(agent)["lastUsage"] == usage
    daemon.stop()
    scratch.start()
    assert opened(scratch).status(agent)["lastUsage"] == usage


def test_agents_that_require_attention_are_listed_first_and_closed_ones_last(scratch: Scratch) -> None:
    serve(scratch, "--modes")
    tools = opened(scratch)
    closed = tools.create("say done")["agentId"]
    tools.call("kill_agent", agentId=closed)
    ready = tools.create()["agentId"]
    done = tools.create("say done")["agentId"]
    works = tools.create("sleep", background=True)["agentId"]
    asks = tools.create("ask execute")["agentId"]
    found = tools.agents(includeArchived=True)
    shown = [(each["id"], each["attentionReason"], bool(each["archivedAt"])) for each in found]
    assert shown == [
        (asks, "permission", False),
        (done, "finished", False),
        (works, None, False),
        (ready, None, False),
        (closed, None, True),
    ]
    assert [each["id"] for each in tools.agents(limit=2)] == [asks, done]
    assert all(bool(each["attentionTimestamp"]) == each["requiresAttention"] for each in found)


def test_a_snapshot_says_that_the_provider_is_gone(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say done")["agentId"]
    assert tools.status(agent)["providerUnavailable"] is False
    scratch.write_config(scratch.config.read_text().replace("[agents.providers.echo]", "[agents.providers.other]"))
    scratch.reload()
    assert tools.status(agent)["providerUnavailable"] is True


@pytest.mark.parametrize("method", ["session/set_model", "session/set_config_option"])
def test_a_model_after_the_provider_is_used_by_each_process_of_the_agent(scratch: Scratch, method: str) -> None:
    daemon = serve(scratch, "--modes", "--models", method)
    tools = opened(scratch)
    agent = tools.create("model", provider="echo/vendor/huge", mode="plan")
    assert agent["lastMessage"] == "vendor/huge"
    found = tools.status(agent["agentId"])
    assert (found["provider"], found["model"], found["currentModeId"]) == ("echo", "vendor/huge", "plan")
    daemon.stop()
    scratch.start()
    assert opened(scratch).send(agent["agentId"], "model\nmode")["lastMessage"] == "vendor/hugeplan"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--models", "session/set_model"), "has no model 'wild'; its models: small, large, vendor/huge"),
        ((), "has no model 'wild'; it offers no choice of models; leave the model out"),
    ],
)
def test_a_model_that_the_agent_does_not_offer_is_refused(
    scratch: Scratch, options: tuple[str, ...], reason: str
) -> None:
    serve(scratch, *options)
    tools = opened(scratch)
    assert reason in tools.fails("create_agent", cwd=tools.cwd, provider="echo/wild")
    assert tools.agents(includeArchived=True) == []
    assert tools.create("say on", provider="echo/")["lastMessage"] == "on"


def test_references_of_a_provider_are_filled_in_and_its_secrets_are_in_no_log(scratch: Scratch) -> None:
    key = scratch.home / "key"
    key.write_text("sk-very-secret-value-1234567890")
    text = config(scratch) + f"env = {{ MODEL_KEY = {json.dumps('${file:' + str(key) + '}')} }}\n"
    scratch.write_config(text)
    scratch.start()
    tools = opened(scratch)
    created = tools.create("env MODEL_KEY\nfail sk-very-secret-value-1234567890")
    assert created["status"] == "error"
    assert "sk-very" not in json.dumps(created)
    assert "sk-very" not in str(tools.call("get_agent_activity", agentId=created["agentId"]))
    assert "sk-very" not in json.dumps(tools.status(created["agentId"]))
    tools.send(created["agentId"], "env MODEL_KEY")
    assert "sk-very" not in json.dumps(tools.status(created["agentId"]))
    tools.send(created["agentId"], "exit 3")
    assert "sk-very" not in scratch.logged()


def test_keys_of_model_providers_are_passed_on_and_other_variables_are_not(scratch: Scratch) -> None:
    scratch.write_config(config(scratch))
    scratch.start(ANTHROPIC_BASE_URL="http://127.0.0.1:9", EDITOR="vi")
    tools = opened(scratch)
    agent = tools.create("env ANTHROPIC_BASE_URL")
    assert agent["lastMessage"] == "http://127.0.0.1:9"
    assert tools.send(agent["agentId"], "env EDITOR")["lastMessage"] == "no EDITOR"


def test_fifty_agents_work_at_once(scratch: Scratch) -> None:
    serve(scratch, agents={"max_running": 50})
    tools = opened(scratch)
    ids = [tools.begin("create_agent", initialPrompt=f"sleep 0.5\nsay {number}") for number in range(50)]
    assert sorted(int(tools.end(id)["lastMessage"]) for id in ids) == list(range(50))
    assert len(tools.agents()) == 50
    assert "agents.max_agents" in tools.fails("create_agent")


def opening(scratch: Scratch) -> tuple[AgentTools, AgentTools, object, str, int]:
    """An agent that never answers the first request, while it is being created by one of two clients."""
    serve(scratch, "--no-answer", "initialize")
    maker, watcher = opened(scratch), opened(scratch)
    id = maker.begin("create_agent")
    (agent,) = until(watcher.agents, "it is being opened")
    pid = until(lambda: watcher.status(agent["id"])["pid"], "its process runs")
    assert agent["status"] == "initializing"
    return maker, watcher, id, agent["id"], pid


def test_an_agent_is_killed_while_it_is_being_opened(scratch: Scratch) -> None:
    maker, watcher, id, agent, pid = opening(scratch)
    watcher.call("kill_agent", agentId=agent)
    assert is_gone(pid)
    assert maker.client.answer_to(id)["result"]["content"][0]["text"] == "Agent terminated"


def test_a_creation_that_is_cancelled_leaves_nothing_behind(scratch: Scratch) -> None:
    maker, watcher, id, _, pid = opening(scratch)
    maker.client.notify(CANCELLED, {"requestId": id})
    until(lambda: is_gone(pid), "its process is gone")
    until(lambda: watcher.agents(includeArchived=True) == [], "its record is gone")
    assert not list((scratch.folder / "agents").iterdir())


def test_an_agent_that_wants_a_login_says_so(scratch: Scratch) -> None:
    serve(scratch, "--auth", "key")
    assert "Authentication required" in opened(scratch).fails("create_agent")


@pytest.mark.parametrize("place", ["environment", "config", ""], ids=["environment", "config", "no key"])
def test_an_agent_that_wants_a_login_gets_the_key_of_its_provider(scratch: Scratch, place: str) -> None:
    # The scripted agent in the place of Gemini CLI, which opens no session before `authenticate`.
    text = config(scratch, "--auth", "gemini-api-key").replace("[agents.providers.echo]", "[agents.providers.gemini]")
    key = {"GEMINI_API_KEY": "k-1234567890"}
    more = "env = { GEMINI_API_KEY = 'k-1234567890' }\n" if place == "config" else ""
    scratch.write_config(text.replace("'echo'", "'gemini'") + more)
    scratch.start(**(key if place == "environment" else {}))
    tools = opened(scratch)
    if place:
        found = tools.create("say in")
        assert (found["lastMessage"], found["type"]) == ("in", "gemini")
    else:
        assert "Authentication required" in tools.fails("create_agent")
        assert tools.agents(includeArchived=True) == []


@pytest.mark.parametrize("has_worktree", [False, True], ids=["no worktree", "worktree"])
def test_the_instruction_precedes_the_first_prompt_and_is_no_part_of_the_record(
    scratch: Scratch, has_worktree: bool
) -> None:
    serve(scratch, packs=("agents", "self-id"))
    tools = opened(scratch)
    line = f"mcp self-id__set_title {json.dumps({'title': 'named by itself'})}"
    place = {"cwd": str(new_repository(scratch)), "worktreeName": "w", "baseBranch": "main"} if has_worktree else {}
    agent = tools.create(line, **place)["agentId"]
    assert tools.status(agent)["title"] == "named by itself"
    tools.send(agent, "say more")
    assert "You run under Hearth" not in tools.call("get_agent_activity", agentId=agent)["content"]
    (session,) = json.loads((scratch.home / "sessions.json").read_text()).values()
    given = [text for kind, text in session["history"] if kind == "user_message_chunk"]
    instruction, *prompts = given
    assert prompts == [line, "say more"]
    assert instruction.startswith("You run under Hearth")
    assert "self-id__set_title" in instruction
    assert ("self-id__set_branch" in instruction) is has_worktree

"""Bad input: each mistake is a sentence for its own caller, no other agent is delayed, and nothing is left behind."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.agents.home import AgentTools, config, new_repository, opened, serve
from support.agents.launching import echo_command
from support.clients import Message
from support.daemon import Scratch
from support.kernel import is_gone, until

BROKEN = """
[agents.providers.missing]
command = "no-such-agent-anywhere"
[agents.providers.wrong]
command = "/bin/cat"
[agents.providers.dies]
command = "/bin/sh"
args = ["-c", "echo the key is gone >&2; exit 3"]
"""


@pytest.fixture
def tools(scratch: Scratch) -> AgentTools:
    serve(scratch, more=BROKEN)
    return opened(scratch)


@pytest.fixture
def repository(scratch: Scratch) -> Path:
    return new_repository(scratch)


def nothing_left(tools: AgentTools, scratch: Scratch) -> None:
    assert tools.agents(includeArchived=True) == []
    assert not (scratch.folder / "agents").exists() or not list((scratch.folder / "agents").iterdir())


def test_an_unknown_provider_is_named_with_those_that_are_known(tools: AgentTools, scratch: Scratch) -> None:
    problem = tools.fails("create_agent", provider="ecko")
    assert "provider 'ecko' is not known: did you mean 'echo'?" in problem
    nothing_left(tools, scratch)


def test_a_provider_that_is_not_installed_says_what_to_install(tools: AgentTools, scratch: Scratch) -> None:
    assert "npm install -g" in tools.fails("create_agent", agentType="opencode")
    assert "'missing' is not installed" in tools.fails("create_agent", provider="missing")
    listed = {each["name"]: each for each in tools.call("list_providers")["providers"]}
    assert listed["opencode"]["installed"] is False
    assert "npm install" in listed["opencode"]["installHint"]
    assert listed["echo"] == {
        "name": "echo", "title": "echo", "installed": True, "isDefault": True, "installHint": None,
    }  # fmt: skip
    nothing_left(tools, scratch)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"cwd": "/no/such/folder"}, "the folder '/no/such/folder' does not exist"),
        ({"cwd": "file\0"}, "does not exist"),
        ({"title": "x" * 61}, "at most 60 characters"),
        ({"title": ""}, "at least 1 characters"),
        ({"role": "dev"}, "there are no roles without a policy"),
        ({"worktreeName": "w"}, "baseBranch is required when creating a worktree"),
        ({"worktreeName": "w", "baseBranch": "main"}, "git repository"),
        ({"provider": "echo", "agentType": "claude"}, "mean the same"),
        ({"labels": {"a": 1}}, "labels must be texts"),
        ({"colour": "red"}, "must not have 'colour'"),
        ({"initialPrompt": " \n"}, "the prompt is empty"),
    ],
)
def test_wrong_arguments_get_a_sentence(
    tools: AgentTools, scratch: Scratch, arguments: dict[str, object], sentence: str
) -> None:
    assert sentence in tools.fails("create_agent", **arguments)
    nothing_left(tools, scratch)


@pytest.mark.parametrize(
    ("provider", "sentence"),
    [("wrong", "agent 'wrong'"), ("dies", "the key is gone")],
)
def test_a_program_that_is_no_agent_is_refused(
    tools: AgentTools, scratch: Scratch, provider: str, sentence: str
) -> None:
    assert sentence in tools.fails("create_agent", provider=provider)
    nothing_left(tools, scratch)


def test_a_prompt_of_ten_megabytes_is_refused(tools: AgentTools, scratch: Scratch) -> None:
    problem = tools.fails("create_agent", initialPrompt="x" * 10_000_000)
    assert "the prompt has 10000000 bytes" in problem
    nothing_left(tools, scratch)
    agent = tools.create("say there")["agentId"]
    assert "message_limit" in tools.fails("send_agent_prompt", agentId=agent, prompt="x" * 10_000_000)
    assert tools.wait(agent)["lastMessage"] == "there"


def test_nothing_in_a_title_moves_a_cursor(tools: AgentTools) -> None:
    unsafe = "\x1b[31mred\x1b]0;x\x07 \u202etxt\u2028end"
    named = tools.create(title=unsafe)["agentId"]
    prompted = tools.create(f"\x07\n{unsafe}\nsay x")["agentId"]
    assert [tools.status(each)["title"] for each in (named, prompted)] == ["[31mred ]0;x txt end", "[31mred ]0;x txt"]


def test_an_unknown_agent_is_not_found(tools: AgentTools) -> None:
    for tool in ("wait_for_agent", "get_agent_status", "cancel_agent", "kill_agent", "get_agent_activity"):
        assert tools.fails(tool, agentId="a0") == "Agent a0 not found"
    assert tools.fails("send_agent_prompt", agentId="a0", prompt="x") == "Agent a0 not found"
    assert tools.fails("set_agent_mode", agentId="a0", modeId="x") == "Agent a0 not found"


def test_an_agent_that_prints_garbage_or_answers_twice_goes_on(tools: AgentTools) -> None:
    agent = tools.create("garbage\nsay fine")["agentId"]
    assert tools.wait(agent)["lastMessage"] == "fine"
    tools.send(agent, "twice")
    assert tools.send(agent, "say still")["lastMessage"] == "still"


def test_an_agent_that_ends_in_mid_turn_fails_its_turn_and_is_resumed(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say first")["agentId"]
    pid = tools.pid(agent)
    found = tools.send(agent, "exit 7")
    assert found["status"] == "error"
    assert "exit code 7" in found["lastMessage"]
    assert "the model is gone" in found["lastMessage"]
    assert is_gone(pid)
    assert tools.send(agent, "say back")["lastMessage"] == "back"
    assert tools.pid(agent) != pid


def test_an_agent_that_ends_and_cannot_be_resumed_is_closed_with_the_reason(scratch: Scratch) -> None:
    serve(scratch, "--no-load")
    tools = opened(scratch)
    agent = tools.create("say first")["agentId"]
    found = tools.send(agent, "exit 7")
    assert found["status"] == "closed"
    assert "exit code 7" in found["lastMessage"]
    assert "exit code 7" in tools.fails("send_agent_prompt", agentId=agent, prompt="say back")


def test_an_idle_agent_whose_process_is_killed_is_resumed_or_closed(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    agent = tools.create("say first")["agentId"]
    os.kill(tools.pid(agent), 9)
    until(lambda: tools.status(agent)["pid"] is None, "the end is noticed")
    assert tools.send(agent, "say back")["lastMessage"] == "back"


def test_a_turn_longer_than_the_limit_is_cancelled(scratch: Scratch) -> None:
    serve(scratch, agents={"turn_timeout": 0.3})
    tools = opened(scratch)
    found = tools.create("sleep")
    assert found["status"] == "error"
    assert "agents.turn_timeout" in found["lastMessage"]
    assert tools.send(found["agentId"], "say quick")["lastMessage"] == "quick"


def test_an_agent_that_never_answers_a_prompt_fails_for_its_caller_alone(scratch: Scratch) -> None:
    command, *words = echo_command("--no-answer", "session/prompt")
    mute = f"[agents.providers.mute]\ncommand = {json.dumps(command)}\nargs = {json.dumps(words)}\n"
    serve(scratch, agents={"turn_timeout": 1.5}, more=mute)
    tools, other = opened(scratch), opened(scratch)
    agent = tools.create("say something", provider="mute", background=True)["agentId"]
    pid, waiting = tools.pid(agent), tools.begin("wait_for_agent", agentId=agent)
    assert other.create("say calm")["lastMessage"] == "calm"
    found = tools.end(waiting)
    assert found["status"] == "error"
    assert "agents.turn_timeout" in found["lastMessage"]
    tools.call("kill_agent", agentId=agent)
    assert is_gone(pid)
    assert other.create("say still")["lastMessage"] == "still"


def test_the_number_of_agents_and_of_turns_is_bounded(scratch: Scratch) -> None:
    serve(scratch, agents={"max_agents": 2, "max_running": 1})
    tools = opened(scratch)
    first = tools.create("sleep", background=True)["agentId"]
    second = tools.create()["agentId"]
    assert "agents.max_agents" in tools.fails("create_agent")
    assert "agents.max_running" in tools.fails("send_agent_prompt", agentId=second, prompt="say x")
    # A turn that is replaced needs no further room.
    assert tools.send(first, "say y")["lastMessage"] == "y"
    assert tools.send(second, "say x")["lastMessage"] == "x"
    tools.call("kill_agent", agentId=first)
    assert tools.create()["status"] == "idle"


def test_a_flood_of_updates_delays_no_other_agent_and_is_kept_within_bounds(scratch: Scratch) -> None:
    daemon = serve(scratch, agents={"timeline_limit": 50})
    tools = opened(scratch)
    noisy = tools.create("flood 200000", background=True)["agentId"]
    assert tools.create("say calm")["lastMessage"] == "calm"
    assert tools.wait(noisy)["status"] == "idle"
    # Each of them is an entry of its own.
    many = tools.create("\n".join(f"tool read{number}" for number in range(200)))["agentId"]

    def kept() -> Message:
        return tools.call("get_agent_activity", agentId=many)

    found = kept()
    assert found["updateCount"] == 50
    assert found["content"].splitlines() == [f"[Read{number}] {{}}" for number in range(150, 200)]
    daemon.stop()
    scratch.start()
    tools = opened(scratch)
    assert kept() == found
    assert tools.send(many, "say on")["lastMessage"] == "on"
    assert kept()["updateCount"] == 50


def test_a_whole_process_group_ends_with_its_agent(scratch: Scratch) -> None:
    serve(scratch, "--grandchild", "--ignore-eof", "--ignore-term")
    tools = opened(scratch)
    created = tools.create("grandchild")
    child, pid = int(created["lastMessage"]), tools.pid(created["agentId"])
    tools.call("kill_agent", agentId=created["agentId"])
    assert is_gone(pid)
    assert is_gone(child)


def test_a_worktree_is_made_and_wrong_ones_are_refused(tools: AgentTools, repository: Path, scratch: Scratch) -> None:
    tools.cwd = str(repository)
    created = tools.create("cwd", worktreeName="feature", baseBranch="main")
    worktree = created["worktree"]
    assert created["lastMessage"] == created["cwd"] == worktree["path"]
    assert worktree["branch"] == "feature"
    assert (Path(worktree["path"]) / "file").read_text() == "one\n"
    for wanted, sentence in [
        ({"worktreeName": "feature", "baseBranch": "main"}, "taken"),
        ({"worktreeName": "main", "baseBranch": "main"}, "the branch 'main' exists already"),
        ({"worktreeName": "other", "baseBranch": "no-such-branch"}, "no-such-branch"),
        ({"worktreeName": "Not Good", "baseBranch": "main"}, "lower-case"),
    ]:
        assert sentence in tools.fails("create_agent", cwd=str(repository), **wanted)
    assert len(tools.agents(includeArchived=True)) == 1


def test_a_worktree_goes_with_an_agent_that_could_not_be_created(
    tools: AgentTools, repository: Path, scratch: Scratch
) -> None:
    tools.fails("create_agent", cwd=str(repository), provider="dies", worktreeName="gone", baseBranch="main")
    nothing_left(tools, scratch)
    assert tools.create(cwd=str(repository), worktreeName="gone", baseBranch="main")["status"] == "idle"


def test_a_worktree_goes_with_a_call_that_is_cancelled_while_git_makes_it(
    scratch: Scratch, repository: Path, tmp_path: Path
) -> None:
    # The real git, which waits before it makes a worktree until the test lets it go.
    git, begun, go, done = tmp_path / "bin" / "git", tmp_path / "begun", tmp_path / "go", tmp_path / "done"
    git.parent.mkdir()
    real = shutil.which("git")
    git.write_text(
        f'#!/bin/sh\ncase "$*" in *"worktree add"*) : > {begun}; while [ ! -e {go} ]; do sleep 0.02; done\n'
        f'{real} "$@"; code=$?; : > {done}; exit $code;; esac\nexec {real} "$@"\n'
    )
    git.chmod(0o755)
    scratch.write_config(config(scratch))
    scratch.start(PATH=f"{git.parent}{os.pathsep}{os.environ['PATH']}")
    tools = opened(scratch)
    id = tools.begin("create_agent", cwd=str(repository), worktreeName="gone", baseBranch="main")
    until(begun.exists, "git makes the worktree")
    tools.client.notify("notifications/cancelled", {"requestId": id})
    tools.agents()
    go.touch()
    until(done.exists, "git has made the worktree")
    until(lambda: tools.agents(includeArchived=True) == [], "the agent is gone")
    until(lambda: branches_of(repository) == ["main"], "the branch is gone")


def branches_of(repository: Path) -> list[str]:
    command = ("git", "branch", "--format=%(refname:short)")
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout.split()


def test_a_title_has_no_character_that_moves_a_cursor(tools: AgentTools) -> None:
    assert tools.status(tools.create(title="\x1b[2Jred\u202e x")["agentId"])["title"] == "[2Jred x"
    assert tools.status(tools.create("\x1b\n\x07say  x\ny")["agentId"])["title"] == "say x"


def test_a_dirty_base_is_no_obstacle_and_is_told(tools: AgentTools, repository: Path) -> None:
    (repository / "file").write_text("two\n")
    created = tools.create("say x", cwd=str(repository), worktreeName="clean", baseBranch="main")
    assert (Path(created["worktree"]["path"]) / "file").read_text() == "one\n"
    assert "Uncommitted changes" in created["worktree"]["note"]


def test_a_config_without_the_pack_has_no_tools(scratch: Scratch) -> None:
    scratch.write_config(config(scratch, packs=()))
    scratch.start()
    client = scratch.frames(cwd="/")
    client.initialize()
    assert client.tools() == []

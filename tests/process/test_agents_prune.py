"""Removal of closed agents and of their worktrees, while processes of them, or of other agents, still work there."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.agents.home import AgentTools, new_repository, opened, serve
from support.clients import FramesClient
from support.daemon import Scratch
from support.kernel import is_gone


@pytest.fixture
def repository(scratch: Scratch) -> Path:
    return new_repository(scratch)


def prune(person: FramesClient) -> Any:
    """Remove closed agents and their worktrees, as a person at the command line does."""
    person.send_frame({"type": "agent", "seq": person.seq, "verb": "prune"}, json.dumps({"worktrees": True}).encode())
    header, payload = person.receive_type("agent")
    assert header["ok"], header
    return json.loads(payload)


def in_worktree(tools: AgentTools, repository: Path) -> tuple[str, str]:
    created = tools.create(cwd=str(repository), worktreeName="fix", baseBranch="main")
    return created["agentId"], created["cwd"]


def test_a_worktree_is_removed_only_after_the_last_process_that_could_write_into_it(
    scratch: Scratch, repository: Path
) -> None:
    serve(scratch, "--ignore-eof", "--ignore-term")
    tools, person = opened(scratch), scratch.control()
    agent, path = in_worktree(tools, repository)
    pid = tools.pid(agent)
    killing = tools.begin("kill_agent", agentId=agent)
    assert tools.agents() == []
    assert not is_gone(pid)
    assert prune(person) == {"removed": [agent], "kept": []}
    assert is_gone(pid)
    assert not Path(path).exists()
    tools.end(killing)


def test_a_worktree_in_which_another_agent_works_stays_until_that_one_is_closed(
    scratch: Scratch, repository: Path
) -> None:
    serve(scratch)
    tools, person = opened(scratch), scratch.control()
    agent, path = in_worktree(tools, repository)
    (scratch.home / "link").symlink_to(path)
    other = tools.create(cwd=str(scratch.home / "link"))["agentId"]
    tools.call("kill_agent", agentId=agent)
    reason = f"agent {other} works in its worktree {path}"
    assert prune(person) == {"removed": [], "kept": [{"id": agent, "reason": reason}]}
    assert (Path(path) / "file").exists()
    tools.call("kill_agent", agentId=other)
    assert sorted(prune(person)["removed"]) == sorted([agent, other])
    assert not Path(path).exists()

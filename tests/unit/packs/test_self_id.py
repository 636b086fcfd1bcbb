"""Tools of the pack `self-id`, by way of a hub, with real git."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hearth.packs.agents import worktrees
from hearth.packs.agents.model import AgentRecord, Worktree
from unit.conversations import until
from unit.packs.team_stage import TeamStage

Git = Callable[..., str]


@pytest.fixture
def worktree(tree: Path, tmp_path: Path) -> Worktree:
    return worktrees.create(str(tmp_path / "worktrees"), str(tree), "fix", "main")


def branch(git: Git, worktree: Worktree) -> str:
    return git(worktree.path, "symbolic-ref", "--short", "HEAD")


async def test_the_tools_have_hints_and_schemas(stage: TeamStage) -> None:
    tools = await stage.client(stage.agent()).list()
    for name, member, result in (("set_title", "title", "title"), ("set_branch", "name", "branch")):
        tool = tools[f"self-id__{name}"]
        assert list(tool["inputSchema"]["properties"]) == [member]
        assert tool["outputSchema"]["required"] == ["success", result]
        assert tool["annotations"]["destructiveHint"] is False and tool["annotations"]["readOnlyHint"] is False


async def test_an_agent_names_itself(stage: TeamStage) -> None:
    record = stage.agent(title="first line of the prompt")
    found = await stage.client(record).call("set_title", title="  Fix the\n login ")
    assert found == {"success": True, "title": "Fix the login"}
    assert (record.title, record.has_own_title, stage.service.changes) == ("Fix the login", True, [record.id])


async def test_a_title_moves_no_cursor_and_hides_nothing(stage: TeamStage) -> None:
    found = await stage.client(stage.agent()).call("set_title", title="a\x1b[2Jb\u202ec\u200bd")
    assert found["title"] == "a [2Jb c d"


@pytest.mark.parametrize("title", ["", "   ", "x" * 61, "\u200b"])
async def test_an_empty_or_long_title_is_not_allowed(stage: TeamStage, title: str) -> None:
    record = stage.agent(title="former")
    refused = await stage.client(record).refusal("set_title", title=title)
    assert refused.startswith("NOT_ALLOWED: a title has 1 to 60 characters")
    assert record.title == "former"


@pytest.mark.parametrize(("tool", "member"), [("set_title", "title"), ("set_branch", "name")])
async def test_only_agents_that_prove_who_they_are_may_call(stage: TeamStage, tool: str, member: str) -> None:
    client = stage.client()
    # A claim, such as that of `--agent-id` without a token, proves nothing.
    client.session.agent_id = stage.agent().id
    assert (await client.refusal(tool, **{member: "x"})).startswith("NOT_ALLOWED: this tool is for agents")
    unknown = AgentRecord(id="a1", provider="echo", cwd="/")
    assert await stage.client(unknown).refusal(tool, **{member: "x"}) == "Agent a1 not found"
    closed = stage.agent(status="closed")
    assert "is closed" in await stage.client(closed).refusal(tool, **{member: "x"})
    assert stage.service.changes == []


async def test_a_branch_is_named_once_by_the_agent_of_the_worktree(
    stage: TeamStage, worktree: Worktree, git: Git
) -> None:
    record = stage.agent(worktree=worktree)
    client = stage.client(record)
    assert (await client.refusal("set_branch", name="Fix Login")).startswith("INVALID_BRANCH: ")
    assert await client.call("set_branch", name="feature/login") == {"success": True, "branch": "feature/login"}
    assert branch(git, worktree) == "feature/login"
    assert record.worktree is not None and record.worktree.branch == "feature/login"
    assert stage.service.changes == [record.id]
    again = "NOT_ALLOWED: Branch has already been renamed. Use git commands for subsequent renames."
    assert await client.refusal("set_branch", name="other") == again
    git(worktree.path, "branch", "-m", "fix")
    assert await client.refusal("set_branch", name="other") == again


async def test_branches_elsewhere_are_not_named(
    stage: TeamStage, worktree: Worktree, tree: Path, tmp_path: Path, git: Git
) -> None:
    shares = stage.agent(cwd=worktree.path, parent=stage.agent(worktree=worktree))
    in_main, outside = stage.agent(cwd=tree), stage.agent(cwd=tmp_path)
    not_allowed = "NOT_ALLOWED: Branch renames are only allowed inside worktrees that Hearth made"
    assert await stage.client(shares).refusal("set_branch", name="x") == not_allowed
    assert await stage.client(in_main).refusal("set_branch", name="x") == not_allowed
    refused = await stage.client(outside).refusal("set_branch", name="x")
    assert refused == f"NOT_GIT_REPO: {tmp_path} is not in a git repository"
    assert branch(git, worktree) == "fix"


async def test_a_cancelled_call_leaves_the_record_with_the_branch_that_git_has(
    stage: TeamStage, worktree: Worktree, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = stage.agent(worktree=worktree)
    client = stage.client(record)
    begun, released, rename = threading.Event(), threading.Event(), worktrees.rename_branch

    def held(*arguments: Any) -> str:
        begun.set()
        released.wait()
        return rename(*arguments)

    monkeypatch.setattr(worktrees, "rename_branch", held)
    id = client.begin_call("set_branch", name="other")
    await until(begun.is_set, "the rename begins")
    client.cancel(id)
    released.set()
    await until(lambda: stage.service.changes == [record.id], "the record changes")
    assert record.worktree is not None and record.worktree.branch == "other" == branch(git, worktree)

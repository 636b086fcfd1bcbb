"""Facts about agents for the stop checks, and the checks with them on real repositories."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hearth.errors import FileAccessError
from hearth.packs.agents import worktrees
from hearth.packs.agents.model import AgentRecord, PullRequest
from hearth.packs.agents.timeline_items import ItemKind, TimelineItem
from hearth.packs.team.stop_facts import AgentStopFacts, edited_paths
from hearth.policy import stop_checks
from unit.packs.team_stage import TeamStage


class Rule(NamedTuple):
    kind: str
    roles: tuple[str, ...] = ()
    message: str = ""
    action: str = "block"
    command: tuple[str, ...] = ()


def item(kind: ItemKind, data: dict[str, Any]) -> TimelineItem:
    return TimelineItem(1, kind, 0.0, data)


def tool(kind: str = "edit", status: str = "completed", output: str = "", **arguments: Any) -> TimelineItem:
    data = {"id": "1", "tool_kind": kind, "status": status, "output": output}
    return item("tool", {**data, **({"input": json.dumps(arguments)} if arguments else {})})


async def failed(stage: TeamStage, record: AgentRecord, kind: str, files_prs: bool = True) -> list[str]:
    facts = AgentStopFacts(stage.service, record, files_prs)
    return [each.detail for each in await stop_checks.run([Rule(kind)], "dev", record.cwd, facts)]


async def test_tasks_of_the_agent_are_done_when_all_are_completed_or_cancelled(
    stage: TeamStage, tmp_path: Path
) -> None:
    lead = stage.agent(role="tl", cwd=tmp_path)
    dev = stage.agent(lead, role="dev", cwd=tmp_path)
    assert await failed(stage, dev, "task_done") == []
    client = stage.client(lead)
    ids = [(await client.call("task_create", subject="s", owner=dev.id))["task"]["id"] for _ in range(2)]
    await client.call("task_create", subject="s", owner="me")
    assert await failed(stage, dev, "task_done") == ["the task is not marked as done"]
    await stage.client(dev).call("task_update", task_id=ids[0], status="completed")
    assert await failed(stage, dev, "task_done") != []
    await stage.client(dev).call("task_update", task_id=ids[1], status="cancelled")
    assert await failed(stage, dev, "task_done") == []
    assert await failed(stage, lead, "task_done") != []


async def test_a_pull_request_counts_where_there_is_a_command_for_it(stage: TeamStage, tmp_path: Path) -> None:
    dev = stage.agent(cwd=tmp_path)
    assert await failed(stage, dev, "pr_filed") == ["no pull request was filed"]
    assert await failed(stage, dev, "pr_filed", files_prs=False) == []
    await stage.store.add_pull_request(PullRequest(agent_id="another", title="t"))
    assert await failed(stage, dev, "pr_filed") != []
    await stage.store.add_pull_request(PullRequest(agent_id=dev.id, title="t"))
    assert await failed(stage, dev, "pr_filed") == []


async def test_a_store_that_fails_is_told(stage: TeamStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(workspace: str) -> None:
        raise FileAccessError("the disk is full")

    monkeypatch.setattr(stage.store, "tasks", full)
    found = await failed(stage, stage.agent(cwd=tmp_path), "task_done")
    assert found == ["the check 'task_done' could not be made: the disk is full"]


async def test_in_a_shared_folder_only_the_files_that_the_agent_edited_must_be_committed(
    stage: TeamStage, tree: Path
) -> None:
    dev = stage.agent(cwd=tree)
    (tree / "of-another").touch()
    assert await failed(stage, dev, "committed") == []
    (tree / "mine").touch()
    stage.store.save(dev)
    stage.store.append(dev.id, [tool(file_path=str(tree / "mine"))])
    assert await failed(stage, dev, "committed") == ["not committed: mine"]


async def test_in_a_worktree_of_its_own_every_file_must_be_committed(
    stage: TeamStage, tree: Path, tmp_path: Path
) -> None:
    worktree = worktrees.create(str(tmp_path / "worktrees"), str(tree), "fix", "main")
    dev = stage.agent(worktree=worktree)
    Path(worktree.path, "new").touch()
    assert await failed(stage, dev, "committed") == ["not committed: new"]
    helper = stage.agent(dev, cwd=worktree.path)
    assert await failed(stage, dev, "committed") == []
    helper.status = "closed"
    assert await failed(stage, dev, "committed") == ["not committed: new"]


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (tool(file_path="/a/b"), ["/a/b"]),
        (tool(path="sub/c"), ["/work/sub/c"]),
        (tool(filePath="d", content="…"), ["/work/d"]),
        (tool(changes={"e": {}, "/f": {}}), ["/work/e", "/f"]),
        (tool("move", source="g", destination="h"), ["/work/g", "/work/h"]),
        (tool(output="[diff] i\nother\n[diff] /j"), ["/work/i", "/j"]),
        (tool(status="failed", path="k"), []),
        (tool("read", path="l"), []),
        (tool("execute", command="rm m"), []),
        (item("tool", {"id": "1", "tool_kind": "edit", "input": '{"path": "cut…'}), []),
        (item("tool", {"id": "1", "tool_kind": "edit", "input": "[1]"}), []),
        (item("message", {"text": "[diff] n"}), []),
    ],
)
def test_edited_files_are_those_of_the_calls_that_edit(entry: TimelineItem, found: list[str]) -> None:
    assert list(edited_paths([entry], "/work")) == found

"""Pull requests of agents, with real git and real programs in place of `gh`."""

import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hearth.packs.agents import worktrees
from hearth.packs.agents.model import AgentRecord
from hearth.packs.team import pull_requests
from unit.conversations import until
from unit.packs.team_stage import TeamStage

Git = Callable[..., str]

# Writes what it was given into a file, and prints what `gh` prints.
SHOW = """
import json, os, sys
variables = sorted(name for name in os.environ if name.startswith(("GIT_", "GH_", "OPENAI_")))
with open({path!r}, "w") as file:
    json.dump([sys.argv[1:], os.getcwd(), variables], file)
print("Creating pull request for x into main", file=sys.stderr)
print("https://git.example.org/o/r/pull/17")
"""
PLACEHOLDERS = ("--title", "{title}", "--body={body}", "--base", "{base}", "--head", "{branch}")


@asynccontextmanager
async def staged(folder: Path, *command: str) -> AsyncIterator[TeamStage]:
    stage = TeamStage(folder, command)
    try:
        yield stage
    finally:
        await stage.stop()


def python(code: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code, *words)


def agent(stage: TeamStage, tree: Path, tmp_path: Path, base: str = "main") -> AgentRecord:
    worktree = worktrees.create(str(tmp_path / "worktrees"), str(tree), "fix", base)
    return stage.agent(worktree=worktree)


async def test_the_command_runs_in_the_agents_folder_and_its_url_is_recorded(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GH_TOKEN", "forge")
    monkeypatch.setenv("OPENAI_API_KEY", "model")
    seen = tmp_path / "seen"
    async with staged(tmp_path, *python(SHOW.format(path=str(seen)), *PLACEHOLDERS)) as stage:
        record = agent(stage, tree, tmp_path)
        text = 'It says "{title}" and $(touch x); `y` & {base}\n\n- a list'
        found = await stage.client(record).call("file_pr", title="--Fix {body}", body=text)
        assert found == {
            "success": True,
            "id": found["id"],
            "url": "https://git.example.org/o/r/pull/17",
            "number": 17,
            "branch": "fix",
            "base": "main",
        }
        words, folder, variables = json.loads(seen.read_text())
        assert words == ["--title", "--Fix {body}", f"--body={text}", "--base", "main", "--head", "fix"]
        assert os.path.realpath(folder) == os.path.realpath(record.cwd)
        assert variables == ["GH_PROMPT_DISABLED", "GH_TOKEN", "GIT_TERMINAL_PROMPT"]
        [kept] = await stage.store.pull_requests(record.id)
        assert (kept.id, kept.agent_id, kept.title) == (found["id"], record.id, "--Fix {body}")
        assert (kept.url, kept.base) == (found["url"], "main")


@pytest.mark.parametrize(
    ("output", "url", "number"),
    [
        ("see https://docs.example.org for help\nhttps://git.example.org/a/b/-/merge_requests/3.", ".../3", 3),
        ("https://git.example.org/a/b/pull/4\nhttps://git.example.org/news", ".../4", 4),
        ("filed: (https://forge.example.org/changes/77)", ".../77", None),
        ("done", None, None),
    ],
)
async def test_the_url_of_the_output_is_the_one_of_a_pull_request(
    tree: Path, tmp_path: Path, output: str, url: str | None, number: int | None
) -> None:
    async with staged(tmp_path, *python(f"print({output!r})")) as stage:
        record = agent(stage, tree, tmp_path)
        found = await stage.client(record).call("file_pr", title="t", body="")
        assert (found["number"], bool(found["url"])) == (number, bool(url))
        assert url is None or (found["url"].endswith(url[3:]) and found["url"].startswith("https://"))
        assert len(await stage.store.pull_requests(record.id)) == 1


async def test_the_base_is_given_or_that_of_the_worktree(tree: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(tree), "remote")
    git(tree, "remote", "add", "origin", str(tmp_path / "remote"))
    git(tree, "push", "-q", "origin", "main:release")
    git(tree, "fetch", "-q")
    async with staged(tmp_path, *python("pass", "{base}")) as stage:
        record = agent(stage, tree, tmp_path, "origin/release")
        client = stage.client(record)
        assert (await client.call("file_pr", title="t", body=""))["base"] == "release"
        assert (await client.call("file_pr", title="t", body="", base_branch="main"))["base"] == "main"
        for bad in ("--force", "a b", "x:y", "fix"):
            assert "branch" in await client.refusal("file_pr", title="t", body="", base_branch=bad)
        git(tree, "checkout", "-qb", "own")
        refused = await stage.client(stage.agent(cwd=tree)).refusal("file_pr", title="t", body="")
        assert "base_branch is required" in refused


async def test_a_command_that_fails_is_told_with_its_output(tree: Path, tmp_path: Path) -> None:
    code = "import sys; print('x' * 9000, 'you must first push', sep='\\n'); sys.exit(3)"
    async with staged(tmp_path, *python(code)) as stage:
        record = agent(stage, tree, tmp_path)
        refused = await stage.client(record).refusal("file_pr", title="t", body="")
        assert "failed with exit code 3" in refused and refused.endswith("you must first push")
        assert len(refused) < 2000 and await stage.store.pull_requests(record.id) == []


@pytest.mark.parametrize(
    ("command", "sentence"),
    [((), "no command files pull requests"), (("no-such-program", "{title}"), "'no-such-program' cannot be run")],
)
async def test_a_missing_command_is_told(tree: Path, tmp_path: Path, command: tuple[str, ...], sentence: str) -> None:
    async with staged(tmp_path, *command) as stage:
        refused = await stage.client(agent(stage, tree, tmp_path)).refusal("file_pr", title="t", body="")
        assert sentence in refused and "`file_pr`" in refused and "`[team]`" in refused


async def test_folders_without_a_branch_are_refused(tree: Path, tmp_path: Path, git: Git) -> None:
    async with staged(tmp_path, *python("pass")) as stage:
        outside = stage.client(stage.agent(cwd=tmp_path))
        assert "is not in a git repository" in await outside.refusal("file_pr", title="t", body="")
        git(tree, "checkout", "-q", "--detach")
        detached = stage.client(stage.agent(cwd=tree))
        assert "is on no branch" in await detached.refusal("file_pr", title="t", body="", base_branch="main")


async def test_texts_that_no_program_can_be_given_are_refused(tree: Path, tmp_path: Path) -> None:
    async with staged(tmp_path, *python("pass", "{title}", "{body}")) as stage:
        client = stage.client(agent(stage, tree, tmp_path))
        assert "NUL" in await client.refusal("file_pr", title="a\0b", body="")
        assert "over 100000 bytes" in await client.refusal("file_pr", title="t", body="é" * 60_000)
        assert "must have" in await client.refusal("file_pr", title="", body="")
        assert (await stage.client().refusal("file_pr", title="t", body="")).startswith("NOT_ALLOWED")


async def test_a_command_that_hangs_is_ended(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_requests, "COMMAND_SECONDS", 0.3)
    async with staged(tmp_path, *python("import time; time.sleep(1000)")) as stage:
        refused = await stage.client(agent(stage, tree, tmp_path)).refusal("file_pr", title="t", body="")
        assert "took longer than 0.3 s" in refused


def slow(begun: Path, go: Path) -> str:
    """The code of a program that adds a letter to `begun`, and ends when `go` is written."""
    return (
        f"open({str(begun)!r}, 'a').write('x'); open({str(go)!r}).read(); print('https://git.example.org/o/r/pull/5')"
    )


async def test_a_cancelled_call_is_recorded_all_the_same_and_one_is_filed_at_a_time(tree: Path, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(go)
    code = slow(begun, go)
    async with staged(tmp_path, *python(code)) as stage:
        record = agent(stage, tree, tmp_path)
        client = stage.client(record)
        id = client.begin_call("file_pr", title="t", body="")
        await until(begun.exists, "the command runs")
        assert stage.hub.servers["team"].instances.is_busy
        client.cancel(id)
        assert "is being filed at this moment" in await client.refusal("file_pr", title="another", body="")
        go.write_text("")
        await until(lambda: not stage.hub.servers["team"].instances.is_busy, "the pack is idle")
        [kept] = await stage.store.pull_requests(record.id)
        assert kept.url.endswith("/5")
        # The outcome is kept for the same call, which does not run the command again.
        assert (await client.call("file_pr", title="t", body=""))["id"] == kept.id
        assert begun.read_text() == "x"


async def test_a_command_that_takes_long_is_waited_for_by_the_same_call_again(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_requests, "WAIT_SECONDS", 0.01)
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(go)
    async with staged(tmp_path, *python(slow(begun, go))) as stage:
        record = agent(stage, tree, tmp_path)
        client = stage.client(record)
        for _ in range(3):
            pending = await client.call("file_pr", title="t", body="")
            assert pending == dict.fromkeys(("id", "url", "number", "branch", "base")) | {"success": False}
        await until(begun.exists, "the command runs")
        monkeypatch.setattr(pull_requests, "WAIT_SECONDS", 30.0)
        # Something else that waits for the agent ends the call, and not the command.
        id = client.begin_call("file_pr", title="t", body="")
        stage.service.delivery.notices.post(record.id, "child", "finished", 1, "theirs")
        told = await client.result(id)
        assert (told["success"], told["attention"][0]["agentId"]) == (False, "child")
        id = client.begin_call("file_pr", title="t", body="")
        go.write_text("")
        assert (await client.result(id))["number"] == 5
        assert begun.read_text() == "x"
        assert len(await stage.store.pull_requests(record.id)) == 1

"""Stop checks on real repositories, also on those whose config tries to run something."""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import pytest

from hearth.policy import stop_checks
from hearth.policy.hook_formats import HookVerdict
from hearth.policy.stop_checks import FailedCheck, NoFacts, StopFacts, verdict


class Rule(NamedTuple):
    kind: str
    roles: tuple[str, ...] = ()
    message: str = ""
    action: str = "block"
    command: tuple[str, ...] = ()


class Facts(NamedTuple):
    edited: Collection[str] | None = None
    task: bool | None = None
    pr: bool | None = None

    def edited_files(self) -> Collection[str] | None:
        return self.edited

    def is_task_done(self) -> bool | None:
        return self.task

    def is_pr_filed(self) -> bool | None:
        return self.pr


def git(folder: Path, *words: str) -> None:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    identity = ["-c", "user.name=u", "-c", "user.email=u@h", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "file").write_text("one")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    return folder


async def failed(rule: Rule, folder: Path, facts: StopFacts | None = None, role: str = "dev") -> list[str]:
    return [each.detail for each in await stop_checks.run([rule], role, str(folder), facts or NoFacts())]


async def test_a_tree_is_committed_when_git_has_nothing_to_say(tree: Path) -> None:
    assert await failed(Rule("committed"), tree) == []
    (tree / "file").write_text("two")
    (tree / "new").write_text("three")
    assert await failed(Rule("committed"), tree) == ["not committed: file, new"]
    git(tree, "add", ".")
    assert await failed(Rule("committed"), tree) == ["not committed: file, new"]
    git(tree, "commit", "-qm", "two")
    assert await failed(Rule("committed"), tree) == []


async def test_many_files_are_counted(tree: Path) -> None:
    for number in range(13):
        (tree / f"n{number:02}").touch()
    assert (await failed(Rule("committed"), tree))[0].endswith("n09 and 3 more")


async def test_in_a_shared_folder_only_the_agents_own_files_count(tree: Path) -> None:
    (tree / "file").write_text("of another")
    (tree / "mine").mkdir()
    (tree / "mine" / "new").write_text("x")
    assert await failed(Rule("committed"), tree, Facts(edited=[])) == []
    assert await failed(Rule("committed"), tree, Facts(edited=[str(tree / "other")])) == []
    own = Facts(edited=[str(tree / "mine" / "new")])
    assert await failed(Rule("committed"), tree, own) == ["not committed: mine/"]


async def test_a_folder_below_the_top_is_a_part_of_the_tree(tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "new").write_text("x")
    own = Facts(edited=[str(tree / "sub" / "new")])
    assert await failed(Rule("committed"), tree / "sub", own) == ["not committed: sub/"]


@pytest.mark.parametrize("kind", ["committed", "pushed"])
async def test_a_folder_without_a_repository_has_nothing_to_commit(tmp_path: Path, kind: str) -> None:
    assert await failed(Rule(kind), tmp_path) == []


async def test_a_commit_is_pushed_when_a_remote_branch_has_it(tree: Path, tmp_path: Path) -> None:
    assert await failed(Rule("pushed"), tree) == ["not pushed: no branch of a remote has the newest commit"]
    git(tmp_path, "init", "-q", "--bare", "remote")
    git(tree, "remote", "add", "origin", str(tmp_path / "remote"))
    git(tree, "push", "-q", "origin", "HEAD:feature")
    assert await failed(Rule("pushed"), tree) == []
    (tree / "file").write_text("two")
    git(tree, "commit", "-qam", "two")
    assert await failed(Rule("pushed"), tree) != []


async def test_a_repository_without_a_commit_has_nothing_to_push(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert await failed(Rule("pushed"), tmp_path) == []


async def test_no_program_that_the_repository_names_is_run(tree: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    hooks = tree / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / name).write_text(trap.read_text())
        (hooks / name).chmod(0o755)
    more = tmp_path / "more"
    more.write_text(f'[filter "f2"]\n\tprocess = {trap}\n\trequired = true\n')
    for key, value in {
        "core.hooksPath": str(hooks),
        "core.fsmonitor": str(trap),
        "core.pager": str(trap),
        "filter.f.clean": str(trap),
        "filter.f.smudge": str(trap),
        "filter.f.required": "true",
        "include.path": str(more),
    }.items():
        git(tree, "-c", "core.hooksPath=", "-c", "core.fsmonitor=false", "config", key, value)
    (tree / ".gitattributes").write_text("file filter=f\nother filter=f2\n")
    (tree / "file").write_text("two")
    (tree / "other").write_text("two")
    assert await failed(Rule("committed"), tree) == ["not committed: file, .gitattributes, other"]
    await failed(Rule("pushed"), tree)
    assert not (tmp_path / "sprung").exists()


async def test_variables_do_not_lead_to_another_repository(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    (tree / "file").write_text("two")
    assert await failed(Rule("committed"), tree) == ["not committed: file"]


async def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    [found] = await failed(Rule("committed"), tmp_path / "gone")
    assert "could not be made" in found and "gone" in found


@pytest.mark.parametrize("kind", ["task_done", "pr_filed"])
async def test_task_and_pull_request_count_where_something_is_known_of_them(tmp_path: Path, kind: str) -> None:
    assert await failed(Rule(kind), tmp_path, Facts(task=True, pr=True)) == []
    assert await failed(Rule(kind), tmp_path, Facts(task=False, pr=False)) != []
    assert await failed(Rule(kind), tmp_path) == []


async def test_a_command_holds_when_it_succeeds_and_its_output_is_told_when_it_fails(tmp_path: Path) -> None:
    python = (sys.executable, "-c")
    assert await failed(Rule("command", command=(*python, "pass")), tmp_path) == []
    [found] = await failed(Rule("command", command=(*python, "print('3 tests failed'); exit(5)")), tmp_path)
    assert "exit code 5" in found and "3 tests failed" in found
    [found] = await failed(Rule("command", command=("no-such-program",)), tmp_path)
    assert "no-such-program" in found


async def test_a_command_that_takes_too_long_or_talks_too_much_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_checks, "COMMAND_SECONDS", 0.2)
    [found] = await failed(Rule("command", command=("sh", "-c", "sleep 1000 & sleep 1000")), tmp_path)
    assert "took longer than 0.2 s" in found
    monkeypatch.setattr(stop_checks, "COMMAND_SECONDS", 30.0)
    [found] = await failed(Rule("command", command=("sh", "-c", "yes")), tmp_path)
    assert "failed" in found and len(found) < 2000


async def test_a_check_for_other_roles_is_not_made(tmp_path: Path) -> None:
    rule = Rule("command", roles=("tl",), command=("false",))
    assert await failed(rule, tmp_path, role="dev") == []
    assert await failed(rule, tmp_path, role="tl") != []


def test_a_block_blocks_every_time_and_a_nudge_once() -> None:
    block, nudge = (
        FailedCheck(Rule("committed", message="commit"), "a"),
        FailedCheck(Rule("pushed", action="nudge"), "b"),
    )
    assert verdict([], False) == HookVerdict("allow")
    assert verdict([block, nudge], False) == HookVerdict("block", "commit: a\nb")
    assert verdict([block, nudge], True) == HookVerdict("block", "commit: a")
    assert verdict([nudge], True) == HookVerdict("allow")

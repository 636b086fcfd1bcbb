"""A project with a repository, links and a policy, for tests of decisions."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hearth.policy.decision import decide
from hearth.policy.loader import parse
from hearth.policy.model import Decision, Policy
from hearth.policy.template import TEAM

Decide = Callable[..., Decision]


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty repository with a remote, to be copied: starting git for each test takes too long."""
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", "--template=", "-b", "main", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", "https://example.org/x.git"], check=True)
    return folder / ".git"


@pytest.fixture
def project(home: Path, repository: Path) -> Path:
    """Return a repository below the home of the test, with links that lead in and out."""
    folder = home / "work" / "project"
    for name in ("src/deep", "tests", "feature", ".hearth", ".claude"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(repository, folder / ".git")
    for name in ("src/a.py", "tests/test_a.py", "README.md", "größe.md"):
        (folder / name).write_text("x")
    config = home / ".config" / "hearth"
    config.mkdir(parents=True)
    (config / "policy.toml").write_text(TEAM)
    (home / "work" / "other").mkdir()
    (folder / "out").symlink_to("/etc")
    (folder / "up").symlink_to("..")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to(home / "nowhere")
    (folder / "inner").symlink_to("src")
    (folder / "hearth-config").symlink_to(config)
    (folder / "notes.txt").symlink_to(config / "policy.toml")
    return folder


@pytest.fixture
def team(home: Path) -> Policy:
    """Return the policy of the template `team`."""
    return parse(str(home / ".config" / "hearth" / "policy.toml"), TEAM.encode())


@pytest.fixture
def dev(team: Policy, project: Path) -> Decide:
    """Return a function that decides about a call of the role `dev`."""

    def run(tool: str, arguments: dict[str, object] | bytes | str, server: str | None = None) -> Decision:
        if isinstance(arguments, str):
            arguments = {"command": arguments}
        raw = arguments if isinstance(arguments, bytes) else json.dumps(arguments).encode()
        return decide(team, "dev", server, tool, raw, str(project))

    return run

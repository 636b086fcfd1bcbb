"""Fixtures of the packs of agents."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from unit.packs.team_stage import TeamStage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[TeamStage]:
    found = TeamStage(tmp_path)
    yield found
    await found.stop()


Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Run git in a folder, with no config of the user."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))

    def run(folder: Path | str, *words: str) -> str:
        identity = ["-c", "user.name=u", "-c", "user.email=u@h", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run


@pytest.fixture
def tree(tmp_path: Path, git: Git) -> Path:
    """A repository with one commit on `main`."""
    folder = Path(os.path.realpath(tmp_path)) / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-qm", "one", "--allow-empty")
    return folder

"""What the tests of clients share."""

from pathlib import Path

import pytest

from unit.clients.connected_files import ORIGINAL
from unit.clients.imports import Shell


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; what Hearth remembers of clients lies in `state` below it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def shell() -> Shell:
    """A shell without variables, and an empty Hearth."""
    return Shell()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files are written, and no power fails."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A client's file with two servers."""
    path = tmp_path / "mcp.json"
    path.write_text(ORIGINAL)
    return path

"""What the tests of clients share."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; what Hearth remembers of clients lies in `state` below it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files are written, and no power fails."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)

"""What the tests of servers share."""

from pathlib import Path

import pytest

from unit.staged_instances import Stage


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """Where a server keeps what was learned of it."""
    return tmp_path / "learned.json"


@pytest.fixture
def stage() -> Stage:
    """An instance of a legacy server."""
    return Stage()

"""What the tests of servers share."""

from pathlib import Path

import pytest


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """Where a server keeps what was learned of it."""
    return tmp_path / "learned.json"

"""What the tests of servers share."""

from pathlib import Path

import pytest

from unit.conversations import dual_script
from unit.staged_instances import Stage
from unit.staged_servers import StagedServer


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """Where a server keeps what was learned of it."""
    return tmp_path / "learned.json"


@pytest.fixture
def stage() -> Stage:
    """An instance of a legacy server."""
    return Stage()


@pytest.fixture
def server(learned: Path) -> StagedServer:
    """A legacy server."""
    return StagedServer(learned)


@pytest.fixture
def dual(learned: Path) -> StagedServer:
    """A server that speaks both eras."""
    return StagedServer(learned, dual_script())

"""The daemon's own log file."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.server import logs


@pytest.fixture
def nothing_masked() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("nothing_masked")
def test_each_file_of_the_rotation_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 200)
    handler = logs._file(str(tmp_path / "logs" / "mcp.log"))
    for _ in range(20):
        handler.emit(logging.LogRecord("hearth", logging.INFO, "", 0, "x" * 100, (), None))
    handler.close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "logs").iterdir()}
    assert len(modes) == 1 + logs.ROTATE_COUNT
    assert set(modes.values()) == {0o600}

"""The daemon's own log file."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from hearth.masking import Mask
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


def test_a_log_that_was_deleted_is_begun_anew_and_one_that_cannot_be_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "mcp.log"
    handler = logs._file(str(path))
    handler.emit(logging.makeLogRecord({"msg": "one"}))
    shutil.rmtree(path.parent)
    handler.emit(logging.makeLogRecord({"msg": "two"}))
    assert path.read_text().endswith(": two\n")
    assert path.stat().st_mode & 0o777 == 0o600
    shutil.rmtree(path.parent)
    path.parent.write_text("in its place")
    handler.emit(logging.makeLogRecord({"msg": "three"}))
    path.parent.unlink()
    handler.emit(logging.makeLogRecord({"msg": "four"}))
    handler.close()
    assert path.read_text().endswith(": four\n")


def test_no_record_shows_a_secret_that_a_server_was_given(tmp_path: Path) -> None:
    secret = "s3cret-value-0123"
    held = Mask([secret])
    path = tmp_path / "logs" / "mcp.log"
    handler = logs._file(str(path))
    record = logging.LogRecord("hearth", logging.DEBUG, "", 0, "given %s", (secret,), None)
    record.upstream = secret
    handler.emit(record)
    handler.emit(logging.makeLogRecord({"msg": f"cut in the midst of {secret[:-2]}", "upstream": "a"}))
    problem = ValueError(secret)
    handler.emit(logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, problem, None)}))
    handler.close()
    text = path.read_text()
    assert "given *** [upstream=***]" in text and "in the midst of *** [upstream=a]" in text
    assert "ValueError: ***" in text and "s3cret" not in text
    assert held(secret) == "***"


def test_the_journal_gets_neither_a_secret_nor_a_traceback_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "s3cret-value-0123"
    held = Mask([secret])
    taken: list[logging.LogRecord] = []

    class JournalHandler(logging.Handler):
        """In place of systemd-python's, which makes fields of a record's message, arguments and traceback."""

        def __init__(self, **fields: str) -> None:
            super().__init__()

        def emit(self, record: logging.LogRecord) -> None:
            taken.append(record)

    journal = ModuleType("systemd.journal")
    journal.JournalHandler = JournalHandler  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "systemd", ModuleType("systemd"))
    monkeypatch.setitem(sys.modules, "systemd.journal", journal)
    problem = (ValueError, ValueError(secret), None)
    logs._journal().emit(logging.LogRecord("hearth", logging.ERROR, "", 0, "of %s", (secret,), problem))
    (record,) = taken
    assert record.getMessage() == "of ***\nValueError: ***"
    assert secret not in repr(vars(record)) and held(secret) == "***"

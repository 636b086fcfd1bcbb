"""The daemon's own log file."""

import contextlib
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.daemon import log_setup
from hearth.host.linux import systemd as journal_protocol
from hearth.masking import Mask


@pytest.fixture
def nothing_masked() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("nothing_masked")
def test_each_file_of_the_rotation_is_for_this_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_setup, "ROTATE_BYTES", 200)
    handler = log_setup._file(str(tmp_path / "logs" / "mcp.log"))
    for _ in range(20):
        handler.emit(logging.LogRecord("hearth", logging.INFO, "", 0, "x" * 100, (), None))
    handler.close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "logs").iterdir()}
    assert len(modes) == 1 + log_setup.ROTATE_COUNT
    assert set(modes.values()) == {0o600}


def test_a_log_that_was_deleted_is_begun_anew_and_one_that_cannot_be_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "mcp.log"
    handler = log_setup._file(str(path))
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


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """Its handlers and level as they were, afterwards."""
    root, raising = logging.getLogger(), logging.raiseExceptions
    handlers, level = list(root.handlers), root.level
    root.handlers.clear()
    yield root
    root.handlers[:], logging.raiseExceptions = handlers, raising
    root.setLevel(level)


def told(root: logging.Logger, capfd: pytest.CaptureFixture[str]) -> str:
    """What a record brings to standard error."""
    root.warning("said")
    for handler in list(root.handlers):
        # A full disk fails once more.
        with contextlib.suppress(OSError):
            handler.close()
    return capfd.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_what_a_full_disk_does_not_take_is_on_stderr(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    log_setup.set_up(str(tmp_path / "mcp.log"), "info", journal=False, profile="mcp")
    [handler] = root_logger.handlers
    assert isinstance(handler, logging.FileHandler)
    handler.stream.close()
    handler.stream = open("/dev/full", "w")  # noqa: SIM115 - closed with the handler
    assert told(root_logger, capfd) == "WARNING root: said\n"


@pytest.mark.parametrize("aloud", [True, False])
def test_a_log_that_cannot_be_made_is_told_to_stderr_once(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str], aloud: bool
) -> None:
    (tmp_path / "logs").write_text("in its place")
    log_setup.set_up(str(tmp_path / "logs" / "mcp.log"), "info", journal=False, profile="mcp", aloud=aloud)
    assert told(root_logger, capfd) == "WARNING root: said\n"


@pytest.mark.parametrize("aloud", [True, False])
def test_a_log_that_is_aloud_is_in_its_file_as_well_and_once_where_both_are_one(
    tmp_path: Path, root_logger: logging.Logger, capfd: pytest.CaptureFixture[str], aloud: bool
) -> None:
    path = tmp_path / "mcp.log"
    log_setup.set_up(str(path), "info", journal=False, profile="mcp", aloud=aloud)
    assert told(root_logger, capfd) == ("WARNING root: said\n" if aloud else "")
    former = os.dup(log_setup.STDERR)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), log_setup.STDERR)
        log_setup.set_up(str(path), "info", journal=False, profile="mcp", aloud=True)
        told(root_logger, capfd)
    finally:
        os.dup2(former, log_setup.STDERR)
        os.close(former)
    assert path.read_text().count("said") == 2


def test_no_record_shows_a_secret_that_a_server_was_given(tmp_path: Path) -> None:
    secret = "s3cret-value-0123"
    held = Mask([secret])
    path = tmp_path / "logs" / "mcp.log"
    handler = log_setup._file(str(path))
    record = logging.LogRecord("hearth", logging.DEBUG, "", 0, "given %s", (secret,), None)
    record.upstream = secret
    handler.emit(record)
    handler.emit(logging.makeLogRecord({"msg": f"cut in the midst of {secret[:-2]}", "upstream": "a"}))
    handler.emit(logging.makeLogRecord({"msg": "failed", "exc_info": (ValueError, ValueError(secret), None)}))
    handler.close()
    text = path.read_text()
    assert "given *** [upstream=***]" in text and "in the midst of *** [upstream=a]" in text
    assert "ValueError: ***" in text and "s3cret" not in text
    assert held(secret) == "***"


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A socket in the journal's place, and a stderr that systemd would have led there."""
    if sys.platform != "linux":
        pytest.skip("the journal is Linux's")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"{folder}/socket")
        sock.settimeout(10)
        monkeypatch.setattr(journal_protocol.Journal.__init__, "__defaults__", (f"{folder}/socket",))
        found = os.fstat(2)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        yield sock


def plain(message: str) -> logging.LogRecord:
    return logging.LogRecord("hearth", logging.INFO, "", 0, message, (), None)


def received(journal: socket.socket) -> dict[str, str]:
    """The fields of one datagram, read as journald does."""
    data, fields = journal.recv(1 << 20), {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, plain, value = line.partition(b"=")
        if not plain:
            size = int.from_bytes(rest[:8], "little")
            value, rest = rest[8 : 8 + size], rest[8 + size :].removeprefix(b"\n")
        fields[name.decode()] = value.decode()
        data = rest
    return fields


def test_the_journal_gets_each_record_with_fields(journal: socket.socket) -> None:
    handler = log_setup._journal("work")
    record = logging.LogRecord("hearth.x", logging.WARNING, "/x.py", 7, "of %s", ("it",), None, "emit")
    record.upstream, record.session, record.era = "github", "ab12", "modern"
    handler.emit(record)
    handler.emit(logging.LogRecord("hearth.x", logging.DEBUG, "/x.py", 8, "two\nlines", (), None))
    handler.close()
    assert received(journal) == {
        "MESSAGE": "of it [upstream=github session=ab12 era=modern]",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "hearth",
        "HEARTH_PROFILE": "work",
        "HEARTH_SERVER": "github",
        "HEARTH_SESSION": "ab12",
        "HEARTH_ERA": "modern",
        "LOGGER": "hearth.x",
        "CODE_FILE": "/x.py",
        "CODE_LINE": "7",
        "CODE_FUNC": "emit",
    }
    second = received(journal)
    assert (second["MESSAGE"], second["PRIORITY"]) == ("two\nlines", "7")
    assert "HEARTH_SERVER" not in second


def test_the_journal_gets_neither_a_secret_nor_a_traceback_with_one(journal: socket.socket) -> None:
    secret = "s3cret-value-0123"
    held = Mask([secret])
    problem = (ValueError, ValueError(secret), None)
    record = logging.LogRecord("hearth", logging.ERROR, "", 0, "of %s", (secret,), problem)
    record.upstream = secret
    handler = log_setup._journal("mcp")
    handler.emit(record)
    handler.close()
    fields = received(journal)
    assert fields["MESSAGE"] == "of ***\nValueError: *** [upstream=***]"
    assert secret not in repr(fields) and held(secret) == "***"


def test_what_is_too_long_for_a_datagram_is_cut(journal: socket.socket) -> None:
    handler = log_setup._journal("mcp")
    handler.emit(plain("x" * (1 << 20)))
    handler.close()
    assert len(received(journal)["MESSAGE"]) == journal_protocol.VALUE_LIMIT_BYTES


def test_a_journal_that_does_not_read_costs_records_and_no_time_and_their_number_is_told(
    journal: socket.socket,
) -> None:
    found = journal_protocol.Journal()
    sent = 0
    # Nobody reads: the queue is full after some records.
    while found._lost < 3:
        assert found.send({"MESSAGE": str(sent)})
        sent += 1
    for _ in range(sent - 3):
        assert "HEARTH_LOST" not in received(journal)
    found.send({"MESSAGE": "again"})
    assert received(journal) == {"MESSAGE": "again", "HEARTH_LOST": "3"}
    found.send({"MESSAGE": "and again"})
    assert received(journal) == {"MESSAGE": "and again"}
    found.close()


def test_where_the_journal_is_gone_the_record_goes_to_stderr_and_later_ones_to_its_successor(
    journal: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = log_setup._journal("mcp")
    path = journal.getsockname()
    journal.close()
    os.unlink(path)
    handler.emit(plain("alone"))
    assert capsys.readouterr().err == "<6>hearth: alone\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as successor:
        successor.bind(path)
        successor.settimeout(10)
        handler.emit(plain("back"))
        assert received(successor)["MESSAGE"] == "back"
    handler.close()


def test_a_stderr_that_does_not_lead_to_the_journal_gets_levels_as_prefixes(
    journal: socket.socket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    handler = log_setup._journal("mcp")
    for level in (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG):
        handler.emit(logging.makeLogRecord({"name": "hearth", "levelno": level, "msg": "a\nb", "upstream": "s"}))
    handler.close()
    assert capsys.readouterr().err.splitlines() == [f"<{n}>hearth: a ⏎ b [upstream=s]" for n in (3, 4, 6, 7)]

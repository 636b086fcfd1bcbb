"""Audit log of the daemon: the queue, the thread that writes it, and what happens while it cannot."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.policy import audit, audit_files, audit_reading
from hearth.policy.audit import AuditEntry, AuditLog, verify
from hearth.policy.audit_reading import AuditFilter
from hearth.policy.audit_store import AuditStore
from unit.policy.audit_logs import entry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audit"


@pytest.fixture
def trail(folder: Path) -> Iterator[AuditLog]:
    made = AuditLog(str(folder))
    yield made
    made.close()


def tools(folder: Path) -> list[str]:
    return [row.entry.tool or row.entry.outcome for row in audit_reading.rows(str(folder), AuditFilter())]


class FullDisk:
    """Disk that is full until it is told otherwise; stands for a real one, which a test in tests/process has."""

    def __init__(self) -> None:
        self.is_full = True
        self.refused = threading.Event()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk()
    original = AuditStore.append

    def append(self: AuditStore, entries: list[AuditEntry], durable: bool = False) -> None:
        if disk.is_full:
            disk.refused.set()
            raise FileAccessError("cannot write the audit log: the disk is full; free some space")
        original(self, entries, durable)

    monkeypatch.setattr(AuditStore, "append", append)
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    return disk


def test_what_was_recorded_is_written_by_the_end(trail: AuditLog, folder: Path) -> None:
    for number in range(1000):
        trail.record(entry(number))
    trail.close()
    assert tools(folder) == [f"tool_{number}" for number in range(1000)]
    assert trail.head().seq == 1000
    assert verify(str(folder)).ok


async def test_a_durable_entry_is_on_disk_when_it_returns_with_all_before_it(trail: AuditLog, folder: Path) -> None:
    trail.record(entry(0))
    await trail.record_durably(entry(1))
    assert tools(folder) == ["tool_0", "tool_1"]
    head = audit_files.read_head(str(folder))
    assert head == trail.head() == (2, head.hash if head else "")


async def test_many_durable_entries_at_once_all_return(trail: AuditLog, folder: Path) -> None:
    await asyncio.gather(*(trail.record_durably(entry(number)) for number in range(100)))
    assert len(tools(folder)) == 100


def test_nothing_is_opened_without_an_entry(trail: AuditLog, folder: Path) -> None:
    assert trail.head() == (0, "")
    trail.close()
    assert not folder.exists()


def test_the_module_does_not_import_sqlite() -> None:
    program = "import sys, hearth.policy.audit, hearth.policy.role_tokens; print('sqlite3' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


async def test_the_head_is_logged_and_an_idle_log_is_quiet(
    trail: AuditLog, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await trail.record_durably(entry(0))
    await trail.record_durably(entry(1))
    trail.close()
    heads = audit_reading.heads_in(caplog.text.splitlines())
    assert heads[-1] == trail.head()
    assert len(heads) == len(set(heads))
    assert verify(str(folder), heads).heads == len(heads)


class HeadWatch(logging.Handler):
    """Handler that tells when the head of so many rows is logged."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.sentence = f"audit head count={count} "
        self.logged = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.sentence in record.getMessage():
            self.logged.set()


def test_heads_are_logged_at_their_interval_without_further_entries(
    trail: AuditLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(audit, "HEAD_SECONDS", 0.01)
    for count in (1, 2):
        watch = HeadWatch(count)
        audit.log.addHandler(watch)
        trail.record(entry())
        assert watch.logged.wait(10)
        audit.log.removeHandler(watch)


# --- trouble


def test_a_full_disk_is_logged_once_and_loses_nothing_that_fits_into_the_queue(
    trail: AuditLog, folder: Path, full_disk: FullDisk, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10):
        trail.record(entry(number))
    assert full_disk.refused.wait(10)
    full_disk.refused.clear()
    assert full_disk.refused.wait(10)
    full_disk.is_full = False
    trail.close()
    assert tools(folder) == [f"tool_{number}" for number in range(10)]
    assert caplog.text.count("audit log not written") == 1
    assert "the disk is full; free some space" in caplog.text
    assert "audit log written again" in caplog.text


async def test_a_durable_entry_fails_on_a_full_disk_and_is_not_written_later(
    trail: AuditLog, folder: Path, full_disk: FullDisk
) -> None:
    trail.record(entry(0))
    with pytest.raises(FileAccessError, match="free some space"):
        await trail.record_durably(entry(1))
    trail.record(entry(2))
    full_disk.is_full = False
    await trail.record_durably(entry(3))
    assert tools(folder) == ["tool_0", "tool_2", "tool_3"]


async def test_many_durable_entries_fail_at_once_on_a_full_disk(
    trail: AuditLog, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "BATCH_ROWS", 3)
    found = await asyncio.gather(*(trail.record_durably(entry(n)) for n in range(20)), return_exceptions=True)
    assert [type(each) for each in found] == [FileAccessError] * 20


async def test_a_disk_that_does_not_answer_fails_a_durable_entry(
    trail: AuditLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang, original = threading.Event(), AuditStore.append

    def append(self: AuditStore, entries: list[AuditEntry], durable: bool = False) -> None:
        hang.wait(10)
        original(self, entries, durable)

    monkeypatch.setattr(AuditStore, "append", append)
    monkeypatch.setattr(audit, "DURABLE_SECONDS", 0.01)
    trail.record(entry(0))
    with pytest.raises(FileAccessError, match="did not answer"):
        await trail.record_durably(entry(1))
    # The loop goes on, and so does recording.
    trail.record(entry(2))
    hang.set()
    trail.close()
    assert tools(folder)[0] == "tool_0"
    assert tools(folder)[-1] == "tool_2"


def test_entries_beyond_the_queue_are_counted_and_a_row_says_so(
    trail: AuditLog, folder: Path, full_disk: FullDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "QUEUE_LIMIT", 10)
    trail.record(entry(0))
    assert full_disk.refused.wait(10)
    full_disk.refused.clear()
    # The one entry may be on its way between the queue and the disk.
    for number in range(1, 30):
        trail.record(entry(number))
    assert 18 <= trail.lost <= 20
    full_disk.is_full = False
    trail.close()
    found = tools(folder)
    assert audit_files.LOST in found
    (note,) = audit_reading.rows(str(folder), AuditFilter(kind="audit"))
    assert note.entry.reason.startswith(f"{trail.lost} entries before this one were lost")
    assert verify(str(folder)).ok


def test_an_unforeseen_error_does_not_end_the_writer(
    trail: AuditLog, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original, failed = audit_files.row_values, threading.Event()

    def values(given: AuditEntry) -> list[object]:
        if not failed.is_set():
            failed.set()
            raise KeyError("unforeseen")
        return original(given)

    monkeypatch.setattr(audit_files, "row_values", values)
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    trail.record(entry(0))
    assert failed.wait(10)
    trail.record(entry(1))
    trail.close()
    assert tools(folder) == ["tool_1"]
    assert "unhandled exception while writing the audit log" in caplog.text


async def test_a_caller_that_was_cancelled_disturbs_nobody(trail: AuditLog, folder: Path) -> None:
    task = asyncio.create_task(trail.record_durably(entry(0)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await trail.record_durably(entry(1))
    assert tools(folder)[-1] == "tool_1"


async def test_a_closed_log_takes_nothing_more(trail: AuditLog, folder: Path) -> None:
    trail.record(entry(0))
    trail.close()
    trail.record(entry(1))
    with pytest.raises(FileAccessError, match="shutting down"):
        await trail.record_durably(entry(2))
    assert tools(folder) == ["tool_0"]
    assert trail.lost == 1


def test_closing_twice_or_unopened_is_fine(trail: AuditLog) -> None:
    trail.close()
    trail.close()


async def test_an_unforeseen_error_fails_a_durable_entry_at_once(
    trail: AuditLog, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(audit_files, "row_values", lambda given: 1 // 0)
        with pytest.raises(FileAccessError, match="ZeroDivisionError"):
            await trail.record_durably(entry(0))
    await trail.record_durably(entry(1))
    assert tools(folder) == ["tool_1"]


async def test_a_python_without_sqlite_fails_a_durable_entry_with_a_sentence(
    trail: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    with pytest.raises(FileAccessError, match="sqlite3 module"):
        await trail.record_durably(entry(0))


async def test_rows_are_written_by_another_thread_than_the_loops(
    trail: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, original = set(), AuditStore.append

    def append(self: AuditStore, entries: list[AuditEntry], durable: bool = False) -> None:
        threads.add(threading.current_thread())
        original(self, entries, durable)

    monkeypatch.setattr(AuditStore, "append", append)
    trail.record(entry(0))
    await trail.record_durably(entry(1))
    assert threads
    assert threading.current_thread() not in threads


def test_a_head_that_cannot_be_written_is_written_later(
    trail: AuditLog, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    write_head, refused = audit_files.write_head, threading.Event()

    def write(folder: str, head: audit_files.AuditHead) -> None:
        if not refused.is_set():
            refused.set()
            raise OSError(28, "No space left on device")
        write_head(folder, head)

    monkeypatch.setattr(audit_files, "write_head", write)
    watch = HeadWatch(1)
    audit.log.addHandler(watch)
    trail.record(entry())
    assert refused.wait(10)
    assert watch.logged.wait(10)
    audit.log.removeHandler(watch)
    assert audit_files.read_head(str(folder)) == trail.head()
    trail.close()
    assert "the disk is full; free some space" in caplog.text
    assert "audit log written again" in caplog.text


def test_limits_can_be_changed_while_it_runs(trail: AuditLog, folder: Path) -> None:
    trail.set_limits(days=1, size=1)
    for number in range(2000):
        trail.record(entry(number))
    trail.close()
    assert len(audit_files.segment_numbers(str(folder))) > 1

"""Writer of the audit log's files: rows, rotation, retention, and several writers."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import FileAccessError
from hearth.policy import audit_files, audit_reading, audit_store
from hearth.policy.audit_files import AuditEntry
from hearth.policy.audit_reading import AuditFilter
from hearth.policy.audit_store import AuditStore
from unit.policy.audit_logs import entry, segments, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audit" / "mcp"


def tools(folder: Path) -> list[str]:
    return [row.entry.tool for row in audit_reading.rows(str(folder), AuditFilter())]


def test_rows_are_read_as_they_were_written(folder: Path) -> None:
    full = AuditEntry(
        1.5, "decision", "s", "c", "a", "r", "srv", "t", "d", "deny", "person", "cli", "why", "error", 0.5
    )
    store = AuditStore(str(folder))
    store.append([full, AuditEntry(2.0, "hook")])
    assert [row.entry for row in audit_reading.rows(str(folder), AuditFilter())] == [full, AuditEntry(2.0, "hook")]
    assert store.head.seq == 2
    assert [row.hash for row in audit_reading.rows(str(folder), AuditFilter())][-1] == store.head.hash


def test_nothing_is_made_before_the_first_row(folder: Path) -> None:
    store = AuditStore(str(folder))
    store.close()
    assert not folder.exists()


def test_every_file_is_for_its_owner_only(folder: Path) -> None:
    store = AuditStore(str(folder))
    store.append([entry()], durable=True)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_next_process_continues_the_chain(folder: Path) -> None:
    for number in range(3):
        store = AuditStore(str(folder))
        store.append([entry(number)])
        store.close()
    assert tools(folder) == ["tool_0", "tool_1", "tool_2"]
    assert audit_reading.verify(str(folder)).ok


def test_two_writers_take_turns_in_one_chain(folder: Path) -> None:
    one, other = AuditStore(str(folder), size=1), AuditStore(str(folder), size=1)
    for number in range(0, 2000, 4):
        one.append([entry(number), entry(number + 1)])
        other.append([entry(number + 2), entry(number + 3)], durable=number % 100 == 0)
    one.sync()
    kept = tools(folder)
    assert kept == [f"tool_{number}" for number in range(2000)][-len(kept) :]
    assert len(segments(folder)) > 1
    assert audit_reading.verify(str(folder)).problems == ()


def test_texts_that_no_database_takes_are_made_fit(folder: Path) -> None:
    odd = ["\ud800", "a\0b", "x" * 10_000, "\u202e", "'; DROP TABLE entries; --"]
    AuditStore(str(folder)).append([entry(reason=text) for text in odd])
    found = [row.entry.reason for row in audit_reading.rows(str(folder), AuditFilter())]
    assert found[0] == "?"
    assert found[1] == "a\0b"
    assert found[2] == "x" * (audit_files.TEXT_LIMIT_CHARACTERS - 1) + "…"
    assert found[3:] == odd[3:]
    assert audit_reading.verify(str(folder)).ok


def test_numbers_that_json_does_not_know_are_replaced(folder: Path) -> None:
    nan, endless = float("nan"), float("inf")
    AuditStore(str(folder)).append([AuditEntry(nan, "call", duration=endless), AuditEntry(3, "call", duration=1)])
    found = [(row.entry.time, row.entry.duration) for row in audit_reading.rows(str(folder), AuditFilter())]
    assert found == [(0.0, None), (3.0, 1.0)]
    assert audit_reading.verify(str(folder)).ok


def test_rows_cannot_be_changed_or_removed_by_mistake(folder: Path) -> None:
    written(folder, 1)
    connection = sqlite3.connect(segments(folder)[0])
    for statement in ("UPDATE entries SET role = 'tl'", "DELETE FROM entries"):
        with pytest.raises(sqlite3.IntegrityError, match="only appended"):
            connection.execute(statement)
    connection.close()


# --- rotation and retention


def test_segments_are_rotated_by_size_and_the_chain_goes_on(folder: Path) -> None:
    written(folder, 2000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    assert len(segments(folder)) > 2
    found = audit_reading.verify(str(folder))
    assert found.ok
    assert found.last == 2000


def test_the_size_of_the_log_is_bounded_and_the_newest_rows_stay(folder: Path) -> None:
    size = 4 * audit_store.SEGMENT_LEAST_BYTES
    written(folder, 5000, size=size)
    # The newest segment is not full yet when the others are measured.
    assert sum(path.stat().st_size for path in segments(folder)) <= size + 2 * audit_store.SEGMENT_LEAST_BYTES
    found = audit_reading.verify(str(folder))
    assert found.ok
    assert found.first > 1
    assert found.last == 5000
    assert tools(folder)[-1] == "tool_4999"
    assert tools(folder)[0] == f"tool_{found.first - 1}"


def test_old_segments_are_removed_by_age(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    store = AuditStore(str(folder), days=8)
    for day in range(30):
        monkeypatch.setattr(audit_store.time, "time", lambda day=day: now + day * 86400.0)
        store.append([entry(day)])
    store.sync()
    found = audit_reading.verify(str(folder))
    assert found.ok
    assert 8 <= len(tools(folder)) <= 11
    assert tools(folder)[-1] == "tool_29"


def test_the_head_is_logged_at_rotation(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    written(folder, 1000, size=1)
    heads = audit_reading.heads_in(caplog.text.splitlines())
    assert len(heads) > 1
    assert audit_reading.verify(str(folder), heads).ok


def test_sealed_segments_are_single_files(folder: Path) -> None:
    written(folder, 1000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    list(audit_reading.rows(str(folder), AuditFilter()))
    sealed = segments(folder)[:-1]
    assert sealed
    assert not any(Path(f"{path}{suffix}").exists() for path in sealed for suffix in ("-wal", "-shm"))


def test_a_damaged_segment_is_never_removed(folder: Path) -> None:
    written(folder, 1000, size=4 * audit_store.SEGMENT_LEAST_BYTES)
    first = segments(folder)[0]
    first.write_bytes(b"\0" * 4096)
    written(folder, 3000, size=4 * audit_store.SEGMENT_LEAST_BYTES)
    assert first.exists()
    assert not audit_reading.verify(str(folder)).ok


def test_a_removed_file_that_retention_left_behind_is_no_problem(folder: Path) -> None:
    size = 4 * audit_store.SEGMENT_LEAST_BYTES
    written(folder, 1000, size=size)
    left = segments(folder)[0]
    copy = left.read_bytes()
    written(folder, 3000, size=size)
    assert not left.exists()
    # As after a kill between the new segment and the removal.
    left.write_bytes(copy)
    assert audit_reading.verify(str(folder)).ok
    written(folder, 1000, size=size)
    assert not left.exists()


def test_a_process_that_does_not_know_the_limits_neither_rotates_nor_removes(folder: Path) -> None:
    written(folder, 10)
    store = AuditStore(str(folder), days=0, size=1, rotates=False)
    store.append([entry(number, reason="x" * 1000) for number in range(1000)])
    assert len(segments(folder)) == 1
    assert len(tools(folder)) == 1010


@pytest.mark.parametrize("name", ["a b?c#d%25", "ü", "x\udcff"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    written(folder, 3)
    assert len(tools(folder)) == 3
    assert audit_reading.verify(str(folder)).ok


# --- trouble


def test_a_folder_that_is_removed_under_the_writer_loses_no_later_row_and_is_noted(folder: Path) -> None:
    store = AuditStore(str(folder))
    store.append([entry(number) for number in range(5)])
    shutil.rmtree(folder)
    store.append([entry(5)], durable=True)
    assert tools(folder) == ["", "tool_5"]
    assert "row 5 was written, and row 0 is the last one" in audit_reading.verify(str(folder)).problems[0]


def test_a_segment_that_is_replaced_under_the_writer_is_noticed(folder: Path, tmp_path: Path) -> None:
    store = AuditStore(str(folder))
    store.append([entry(0)])
    store.close()
    shutil.copytree(folder, tmp_path / "old")
    store.append([entry(1)])
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)
    store.append([entry(2)])
    assert tools(folder) == ["tool_0", "", "tool_2"]
    assert not audit_reading.verify(str(folder)).ok


def test_a_missing_key_is_an_error_and_no_new_key_is_made(folder: Path) -> None:
    written(folder, 1)
    (folder / "key").unlink()
    with pytest.raises(FileAccessError, match="key is missing; restore it"):
        AuditStore(str(folder)).append([entry()])
    assert not (folder / "key").exists()


@pytest.mark.parametrize("key", ["", "zz", "00" * 31, "00" * 4000])
def test_a_key_that_is_none_is_an_error(folder: Path, key: str) -> None:
    written(folder, 1)
    (folder / "key").write_text(key)
    with pytest.raises(FileAccessError, match="key"):
        AuditStore(str(folder)).append([entry()])


def test_another_key_is_an_error(folder: Path) -> None:
    written(folder, 1)
    (folder / "key").write_text("00" * 32)
    with pytest.raises(FileAccessError, match="was not written with the key"):
        AuditStore(str(folder)).append([entry()])


def test_a_file_where_the_folder_should_be_is_an_error(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("")
    with pytest.raises(FileAccessError, match="move it away"):
        AuditStore(str(folder)).append([entry()])


def test_a_segment_that_is_no_database_is_an_error_and_stays(folder: Path) -> None:
    written(folder, 1)
    segments(folder)[0].write_bytes(b"no database" * 1000)
    with pytest.raises(FileAccessError, match="hearth audit --verify"):
        AuditStore(str(folder)).append([entry()])
    assert segments(folder)[0].read_bytes().startswith(b"no database")


def test_a_failed_append_leaves_nothing_and_is_repeated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = AuditStore(str(folder))
    store.append([entry(0)])
    with monkeypatch.context() as patch:
        patch.setattr(audit_files, "row_values", failing_at("tool_2"))
        with pytest.raises(FileAccessError):
            store.append([entry(1), entry(2)])
    assert tools(folder) == ["tool_0"]
    store.append([entry(1), entry(2)])
    assert tools(folder) == ["tool_0", "tool_1", "tool_2"]
    assert audit_reading.verify(str(folder)).ok


def failing_at(tool: str) -> object:
    def values(given: AuditEntry) -> list[object]:
        if given.tool == tool:
            raise OSError(28, "No space left on device")
        return row_values(given)

    row_values = audit_files.row_values
    return values


def test_a_failed_rotation_does_not_have_rows_written_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = AuditStore(str(folder), size=1)
    with monkeypatch.context() as patch:
        patch.setattr(AuditStore, "_create_segment", failing_creation(AuditStore._create_segment))
        for number in range(600):
            store.append([entry(number)])
    assert "audit log not rotated" in caplog.text
    assert tools(folder) == [f"tool_{number}" for number in range(600)]
    store.append([entry(600)])
    assert len(segments(folder)) == 2
    assert audit_reading.verify(str(folder)).ok


def failing_creation(create: object) -> object:
    def creation(self: AuditStore, number: int, header: audit_files.SegmentHeader) -> None:
        if number > 1:
            raise OSError(28, "No space left on device")
        create(self, number, header)  # type: ignore[operator]

    return creation


def test_no_temporary_file_is_left(folder: Path) -> None:
    written(folder, 2000, size=1)
    known = {"key", "head", "lock"}
    assert {name for name in os.listdir(folder) if name not in known and not name.endswith(".sqlite")} <= {
        f"{path.name}{suffix}" for path in segments(folder) for suffix in ("-wal", "-shm")
    }


_VALUES = st.text(max_size=8) | st.sampled_from(["\ud800", "x" * 3000, "\x7f\u2028", '"\\'])


@given(st.floats(), st.lists(_VALUES, min_size=13, max_size=13), st.none() | st.floats())
def test_a_row_has_the_hash_that_a_reader_computes(time: float, texts: list[str], duration: float | None) -> None:
    kind: Any = texts[0]
    values = audit_files.row_values(AuditEntry(time, kind, *texts[1:], duration=duration))
    chain = audit_files.Chain(b"k" * audit_files.KEY_BYTES)
    assert chain.link_written(audit_files.NO_HASH, 7, values) == chain.link(audit_files.NO_HASH, 7, values)

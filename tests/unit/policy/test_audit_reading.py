"""Verification finds every change of the rows; filters select them."""

import os
import random
import shutil
from pathlib import Path

import pytest

from hearth.errors import FileAccessError
from hearth.policy import audit_files, audit_reading, audit_store
from hearth.policy.audit_files import AuditHead
from hearth.policy.audit_reading import AuditFilter, rows, verify
from hearth.policy.audit_store import AuditStore
from unit.policy.audit_logs import entry, segments, tamper, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "audit"


def problems(folder: Path, heads: list[AuditHead] | None = None) -> str:
    return "\n".join(verify(str(folder), heads).problems)


# --- verification


def test_an_untouched_log_verifies(folder: Path) -> None:
    found = verify(str(written(folder, 50)))
    assert (found.ok, found.first, found.last, found.heads) == (True, 1, 50, 1)


def test_no_log_at_all_verifies_unless_heads_are_known(folder: Path) -> None:
    assert verify(str(folder)).ok
    assert "the end is missing: rows 1 to 5" in problems(folder, [AuditHead(5, "00" * 32)])


@pytest.mark.parametrize(
    "change",
    [
        "role = 'tl'",
        "decision = 'deny'",
        "reason = reason || ' '",
        "time = time + 0.000001",
        "duration = NULL",
        "duration = duration + 1e-12",
        "tool = CAST(tool AS BLOB)",
        "session = NULL WHERE 0; UPDATE entries SET session = ''",
        "hash = zeroblob(32)",
        "hash = 'text'",
        "kind = 'hook'",
    ],
)
def test_a_changed_value_is_found_in_its_row(folder: Path, change: str) -> None:
    written(folder, 20)
    first, _, second = change.partition(" WHERE 0; ")
    statement = second or f"UPDATE entries SET {first}"
    tamper(segments(folder)[0], f"{statement} WHERE seq = 7")
    assert "row 7 was changed" in problems(folder)


def test_a_removed_row_is_found(folder: Path) -> None:
    written(folder, 20)
    tamper(segments(folder)[0], "DELETE FROM entries WHERE seq = 7")
    assert "row 8 follows row 6" in problems(folder)


def test_a_removed_row_is_found_though_the_others_were_renumbered(folder: Path) -> None:
    written(folder, 20)
    tamper(segments(folder)[0], "DELETE FROM entries WHERE seq = 7", "UPDATE entries SET seq = seq - 1 WHERE seq > 7")
    assert "row 7 was changed" in problems(folder)


def test_two_swapped_rows_are_found(folder: Path) -> None:
    written(folder, 20)
    swap = ("seq = -1 WHERE seq = 7", "seq = 7 WHERE seq = 8", "seq = 8 WHERE seq = -1")
    tamper(segments(folder)[0], *(f"UPDATE entries SET {step}" for step in swap))
    assert "row 7 was changed" in problems(folder)


def test_an_inserted_row_is_found(folder: Path) -> None:
    written(folder, 20)
    columns = ", ".join(audit_files.COLUMNS)
    tamper(
        segments(folder)[0],
        f"INSERT INTO entries SELECT 21, {columns}, hash FROM entries WHERE seq = 20",
    )
    assert "row 21 was changed" in problems(folder)


@pytest.mark.parametrize("kept", [0, 1, 19])
def test_a_truncated_tail_is_found_by_the_head_file(folder: Path, kept: int) -> None:
    written(folder, 20)
    tamper(segments(folder)[0], f"DELETE FROM entries WHERE seq > {kept}")
    assert f"the end is missing: rows {kept + 1} to 20" in problems(folder)


def test_a_truncated_tail_is_found_by_the_log_when_the_head_file_is_gone(folder: Path) -> None:
    written(folder, 20)
    head = audit_files.read_head(str(folder))
    assert head
    os.unlink(folder / "head")
    tamper(segments(folder)[0], "DELETE FROM entries WHERE seq > 12")
    assert verify(str(folder)).ok
    assert "the end is missing" in problems(folder, [head])


def test_an_older_copy_that_has_grown_since_is_found_by_the_log(folder: Path, tmp_path: Path) -> None:
    written(folder, 10)
    shutil.copytree(folder, tmp_path / "old")
    written(folder, 10)
    head = audit_files.read_head(str(folder))
    assert head
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)
    written(folder, 30)
    assert verify(str(folder)).ok
    assert "row 20 differs from the head that was recorded for it" in problems(folder, [head])


def test_the_writer_notes_a_truncated_tail_so_that_later_rows_do_not_hide_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(folder, 20)
    tamper(segments(folder)[0], "DELETE FROM entries WHERE seq > 12")
    written(folder, 30)
    assert "row 13 says: the end of the log was removed: row 20 was written, and row 12 is the last one" in problems(
        folder
    )
    assert "audit log truncated expected=20 found=12" in caplog.text


def test_the_writer_notes_rows_that_are_removed_while_it_runs(folder: Path) -> None:
    store = AuditStore(str(folder))
    store.append([entry(number) for number in range(20)])
    tamper(segments(folder)[0], "DELETE FROM entries WHERE seq > 12")
    store.append([entry(21)])
    assert "row 13 says" in problems(folder)


def test_a_removed_segment_is_found_wherever_it_was(folder: Path, tmp_path: Path) -> None:
    written(folder, 2000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    count = len(segments(folder))
    assert count >= 3
    for index, sentence in ((0, "are missing: segments before"), (1, "begins with row"), (-1, "the end is missing")):
        copy = tmp_path / f"copy{index}"
        shutil.copytree(folder, copy)
        segments(copy)[index].unlink()
        assert sentence in problems(copy)


def test_swapped_and_repeated_segments_are_found(folder: Path) -> None:
    written(folder, 2000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    first, second, *_ = segments(folder)
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    assert problems(folder)
    second.write_bytes(data)
    assert problems(folder)


def test_a_changed_header_is_found(folder: Path) -> None:
    written(folder, 20)
    tamper(segments(folder)[0], "UPDATE segment SET kept_from = 5")
    assert "the header is damaged" in problems(folder)


def test_retention_cannot_be_feigned(folder: Path) -> None:
    written(folder, 2000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    found = segments(folder)
    tamper(found[-1], "UPDATE segment SET kept_from = (SELECT first FROM segment)")
    for path in found[:-1]:
        path.unlink()
    assert "the header is damaged" in problems(folder)


def test_a_missing_key_is_an_error(folder: Path) -> None:
    written(folder, 1)
    os.unlink(folder / "key")
    with pytest.raises(FileAccessError, match="restore it"):
        verify(str(folder))


def test_a_head_file_that_makes_no_sense_is_found(folder: Path) -> None:
    written(folder, 1)
    for content in ("", "{}", '{"count": "x", "hash": 1}', "[]"):
        (folder / "head").write_text(content)
        assert "is not a head file" in problems(folder)


def test_many_problems_are_cut_to_a_list_that_can_be_read(folder: Path) -> None:
    written(folder, 200)
    tamper(segments(folder)[0], "UPDATE entries SET role = 'tl'")
    found = verify(str(folder)).problems
    assert len(found) == audit_reading.PROBLEMS_LIMIT + 1
    assert "180 more problems" in found[-1]


def test_any_changed_byte_is_found_or_changes_no_row(folder: Path) -> None:
    written(folder, 30)
    (path,) = segments(folder)
    data = path.read_bytes()
    before = list(rows(str(folder), AuditFilter()))
    chance = random.Random(14)
    found = 0
    for _ in range(400):
        position, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        path.write_bytes(data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :])
        if verify(str(folder)).ok:
            assert list(rows(str(folder), AuditFilter())) == before, f"byte {position}, bit {bit}"
        else:
            found += 1
    assert found


def test_any_truncation_of_the_file_is_found(folder: Path) -> None:
    written(folder, 30)
    (path,) = segments(folder)
    data = path.read_bytes()
    for size in range(0, len(data), 997):
        path.write_bytes(data[:size])
        assert not verify(str(folder)).ok, size


# --- filters


def test_filters_select_by_every_column_they_name(folder: Path) -> None:
    store = AuditStore(str(folder))
    kinds = {"session": "s9", "client": "codex", "agent": "a9", "role": "tl", "server": "git", "decision": "deny"}
    store.append([entry(0), *(entry(1 + index, **{name: value}) for index, (name, value) in enumerate(kinds.items()))])
    for index, (name, value) in enumerate(kinds.items()):
        (found,) = rows(str(folder), AuditFilter(**{name: value}))
        assert found.entry.tool == f"tool_{1 + index}"
    assert [row.seq for row in rows(str(folder), AuditFilter(tool="tool_0"))] == [1]
    assert list(rows(str(folder), AuditFilter(tool="tool_0", role="tl"))) == []


def test_a_value_with_wildcards_is_a_pattern(folder: Path) -> None:
    written(folder, 25)
    assert len(list(rows(str(folder), AuditFilter(tool="tool_1?")))) == 10
    assert len(list(rows(str(folder), AuditFilter(tool="tool_*")))) == 25
    assert list(rows(str(folder), AuditFilter(tool="TOOL_*"))) == []


def test_times_select_from_since_to_before_until(folder: Path) -> None:
    AuditStore(str(folder)).append([entry(number)._replace(time=float(number)) for number in range(10)])
    assert [row.seq for row in rows(str(folder), AuditFilter(since=3, until=6))] == [4, 5, 6]


def test_the_last_rows_are_found_across_segments_and_pages(folder: Path) -> None:
    written(folder, 2000, size=8 * audit_store.SEGMENT_LEAST_BYTES)
    assert [row.seq for row in rows(str(folder), AuditFilter(), 3)] == [1998, 1999, 2000]
    assert [row.seq for row in rows(str(folder), AuditFilter(), 1500)] == list(range(501, 2001))
    assert [row.seq for row in rows(str(folder), AuditFilter())] == list(range(1, 2001))
    assert list(rows(str(folder), AuditFilter(), 0)) == []


def test_a_follower_gets_every_row_once_over_a_rotation(folder: Path) -> None:
    store = AuditStore(str(folder), size=1)
    seen: list[int] = []
    for begin in range(0, 1500, 5):
        store.append([entry(number) for number in range(begin, begin + 5)])
        seen += [row.seq for row in audit_reading.rows_after(str(folder), AuditFilter(), seen[-1] if seen else 0)]
    assert seen == list(range(1, 1501))
    assert audit_reading.last_number(str(folder)) == 1500


def test_heads_are_found_in_lines_of_a_log() -> None:
    digest = "ab" * 32
    lines = [f"2026-11-18 09:30:00,123 INFO audit head count=17 hash={digest}", "audit head count=x", "nothing"]
    assert audit_reading.heads_in(lines) == [AuditHead(17, digest)]

"""`hearth logs`: lines of files since when, as JSON, the last ones; and which journal has a daemon's log."""

import io
import json
import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from hearth import paths
from hearth.cli.daemon import logs
from hearth.cli.daemon.logs import BLOCK_BYTES, LogSelection, last_lines

NOW = datetime(2026, 11, 18, 10, 30).timestamp()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", datetime(2026, 11, 18, 10, 28, 30)),
        ("10m", datetime(2026, 11, 18, 10, 20)),
        ("1.5h", datetime(2026, 11, 18, 9)),
        ("2 days", datetime(2026, 11, 16, 10, 30)),
        ("today", datetime(2026, 11, 18)),
        ("yesterday", datetime(2026, 11, 17)),
        ("09:15", datetime(2026, 11, 18, 9, 15)),
        ("2026-11-01", datetime(2026, 11, 1)),
        ("2026-11-01 08:00", datetime(2026, 11, 1, 8)),
        ("2026-11-01T08:00:05", datetime(2026, 11, 1, 8, 0, 5)),
    ],
)
def test_a_moment_is_read_as_people_write_it(text: str, meant: datetime) -> None:
    assert logs.moment(text, NOW) == meant.timestamp()


@pytest.mark.parametrize("text", ["", "soon", "10 parsecs", "2026-13-01", "25:00"])
def test_anything_else_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        logs.moment(text, NOW)


LOG = b"""cut off
2026-11-18 09:00:00,000 INFO old
2026-11-18 10:00:00,500 ERROR new
  its second line
2026-11-18 10:10:00,000 INFO last
"""


def test_lines_since_a_moment_begin_with_the_first_that_is_not_older() -> None:
    begin = datetime(2026, 11, 18, 10).timestamp()
    assert logs.since(LOG, begin).decode().splitlines()[0].endswith("ERROR new")
    assert logs.since(LOG, begin).count(b"\n") == 3
    assert logs.since(LOG, NOW) == b""


def test_pieces_cut_anywhere_become_one_object_a_line() -> None:
    convert = logs.JsonLineFormat()
    written = b"".join(convert(LOG[start : start + 7]) for start in range(0, len(LOG), 7))
    found = [json.loads(line) for line in written.splitlines()]
    assert [each["text"] for each in found] == ["cut off", "INFO old", "ERROR new", "  its second line", "INFO last"]
    assert [each["time"] is None for each in found] == [True, False, False, True, False]
    at = datetime.fromisoformat(found[2]["time"])
    assert at.timestamp() == time.mktime((2026, 11, 18, 10, 0, 0, 0, 0, -1)) + 0.5


@pytest.fixture(autouse=True)
def by_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is systemd's, and journalctl is there."""
    monkeypatch.setattr(logs, "_systemd_starts_it", lambda places: True)
    monkeypatch.setattr(logs.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def test_each_profile_has_its_unit_in_the_user_s_journal() -> None:
    asked = logs.journal_command(paths.Places("work"), LogSelection(follow=True, lines=7))
    assert asked == ["journalctl", "--user", "--unit", "mcp@work.service", "--lines", "7", "--follow"]


@pytest.mark.skipif(os.name != "posix", reason="users have no numbers there")
def test_a_system_wide_daemon_has_its_unit_in_the_system_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_DIR", str(tmp_path))
    (tmp_path / f"{os.getuid()}.sock").touch()
    asked = logs.journal_command(paths.Places(), LogSelection(follow=False, lines=50))
    assert asked == ["journalctl", "--unit", f"mcp-user@{os.getuid()}.service", "--lines", "50"]


def test_a_daemon_of_a_config_by_path_has_a_file() -> None:
    assert logs.journal_command(paths.Places(config="/etc/x.toml"), LogSelection(follow=False, lines=1)) is None


def test_a_moment_is_given_to_journalctl_as_a_number_and_json_is_asked_for() -> None:
    asked = logs.journal_command(
        paths.Places(), LogSelection(follow=False, lines=9, begin=1_700_000_000.4, as_json=True)
    )
    assert asked is not None
    assert asked[-6:] == ["--lines", "9", "--since", "@1700000000", "--output", "json"]


# Texts that are not UTF-8 are lists of bytes, and very long ones null.
@pytest.mark.parametrize(("message", "text"), [('"up"', "up"), ("[104,105,255]", "hi\ufffd"), ("null", "")])
def test_an_entry_of_the_journal_becomes_time_and_text(message: str, text: str) -> None:
    line = f'{{"__REALTIME_TIMESTAMP":"1700000000250000","MESSAGE":{message}}}'
    found = json.loads(logs._journal_entry(line.encode()))
    assert (found["text"], datetime.fromisoformat(found["time"]).timestamp()) == (text, 1_700_000_000.25)


LONG = b"x" * BLOCK_BYTES


@pytest.mark.parametrize(
    ("content", "count", "found"),
    [
        *((b"one\ntwo\nthree\n", count, found) for count, found in [(0, b""), (1, b"three\n"), (2, b"two\nthree\n")]),
        *((b"one\ntwo\nthree\n", count, b"one\ntwo\nthree\n") for count in (3, 10)),
        # A last line without its end counts as a line; lines that cross blocks are whole.
        (b"one\ntwo\nthr", 2, b"two\nthr"),
        (b"first\n" + LONG + b"\nlast\n", 2, LONG + b"\nlast\n"),
    ],
)
def test_the_last_lines_are_the_last_lines_and_the_file_is_left_at_its_end(
    content: bytes, count: int, found: bytes
) -> None:
    file = io.BytesIO(content)
    assert last_lines(file, count) == found
    assert file.read() == b""

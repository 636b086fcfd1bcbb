"""Lines of log files: since when, and as JSON."""

import json
import time
from datetime import datetime

import pytest

from hearth.cli.daemon import logs as log_lines

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
    assert log_lines.moment(text, NOW) == meant.timestamp()


@pytest.mark.parametrize("text", ["", "soon", "10 parsecs", "2026-13-01", "25:00"])
def test_anything_else_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        log_lines.moment(text, NOW)


LOG = b"""cut off
2026-11-18 09:00:00,000 INFO old
2026-11-18 10:00:00,500 ERROR new
  its second line
2026-11-18 10:10:00,000 INFO last
"""


def test_lines_since_a_moment_begin_with_the_first_that_is_not_older() -> None:
    begin = datetime(2026, 11, 18, 10).timestamp()
    assert log_lines.since(LOG, begin).decode().splitlines()[0].endswith("ERROR new")
    assert log_lines.since(LOG, begin).count(b"\n") == 3
    assert log_lines.since(LOG, NOW) == b""


def test_pieces_cut_anywhere_become_one_object_a_line() -> None:
    convert = log_lines.JsonLineFormat()
    written = b"".join(convert(LOG[start : start + 7]) for start in range(0, len(LOG), 7))
    found = [json.loads(line) for line in written.splitlines()]
    assert [each["text"] for each in found] == ["cut off", "INFO old", "ERROR new", "  its second line", "INFO last"]
    assert [each["time"] is None for each in found] == [True, False, False, True, False]
    at = datetime.fromisoformat(found[2]["time"])
    assert at.timestamp() == time.mktime((2026, 11, 18, 10, 0, 0, 0, 0, -1)) + 0.5

"""Servers and their figures as text."""

import pytest

from hearth.cli.daemon.status import upstream_lines
from hearth.output.status_lines import milliseconds

DEMO = {
    "name": "demo", "state": "ready", "era": "legacy", "isolation": "workspace", "pids": [4, 5], "tools": 8,
    "calls": 12, "errors": 1, "p50Ms": 1.234, "p95Ms": 1234.5, "memoryBytes": 61_000_000, "restarts": 2,
    "instances": [
        {"era": "legacy", "place": "/a", "pids": [4], "sessions": 2, "inFlight": 1, "startedAt": 40.0},
        {"era": "legacy", "place": "/b", "pids": [5], "sessions": 1, "inFlight": 0, "startedAt": 90.0},
    ],
}  # fmt: skip


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell.strip()]


def test_a_server_is_one_row_with_the_sums_of_its_instances() -> None:
    _, row = upstream_lines([DEMO], 100.0, 200, with_instances=False)
    assert [cell.strip() for cell in cells(row)] == [
        "demo", "ready", "1 min", "legacy", "workspace", "4 5", "8", "3", "1", "12", "1", "1.2 ms", "1.2 s", "61 MB",
        "2",
    ]  # fmt: skip


def test_instances_are_shown_with_their_places_on_request() -> None:
    _, _, one, other = upstream_lines([DEMO], 100.0, 200, with_instances=True)
    assert "/a" in one
    assert "/b" in other


def test_why_a_server_failed_is_said_below_and_harmless() -> None:
    failed = {"name": "x", "state": "failed", "error": "it exited\x1b[31m"}
    assert upstream_lines([failed], 0.0, 200, with_instances=False)[-1] == "x failed: it exited�[31m"


def test_what_an_older_daemon_does_not_tell_is_a_dash() -> None:
    _, row = upstream_lines([{"name": "x"}], 0.0, 200, with_instances=True)
    assert row.split() == ["x", "-", "-", "-", "-", "-", "-", "0", "0", "-", "-", "-", "-", "-", "-"]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.04, "0.0 ms"), (9.94, "9.9 ms"), (10.4, "10 ms"), (999, "999 ms"),
                         (1500, "1.5 s"), (20_000, "20 s"), (600_000, "10 min")],
)  # fmt: skip
def test_times_have_few_digits(value: float | None, shown: str) -> None:
    assert milliseconds(value) == shown


def test_at_80_columns_names_are_whole_and_no_line_is_longer() -> None:
    name = "a-server-with-quite-a-long-name"
    busy = {"name": name, "state": "ready", "era": "legacy", "isolation": "workspace", "pids": [1234567, 1234568],
            "tools": 12, "calls": 123456, "errors": 12, "p50Ms": 1500, "p95Ms": 9000, "memoryBytes": 1e9,
            "restarts": 3, "startedAt": 0.0}  # fmt: skip
    lines = upstream_lines([busy], 1e6, 80, with_instances=False)
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].startswith(f"{name}  ready  ")
    assert {"USERS", "CALLS", "ERRORS"} <= set(lines[0].split())
    assert "P95" not in lines[0]

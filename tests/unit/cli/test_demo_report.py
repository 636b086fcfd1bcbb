"""The demo's tables."""

from dataclasses import replace
from typing import Any

import pytest

from hearth.cli.demo import is_good, report_lines
from hearth.demo.stage import IdleExit, Kill, Report, Side, Times
from hearth.output.table import width_of


def side(pids: list[int], daemon: int, bridges: int) -> Side:
    times = Times([0.010, 0.012], [0.020, 0.022])
    return Side(pids, 20_000_000, daemon, bridges, times, times)


def report(**changes: Any) -> Report:
    whole = Report(
        agents=2,
        eras=["legacy", "modern"],
        servers=["demo"],
        measure="PSS",
        apart=side([1, 2], 0, 0),
        hearth=side([3], 30_000_000, 10_000_000),
        daemon_pid=100,
        daemon_ids=["d", "d"],
        answered_by=[3, 3],
        counts=[2, 1],
        kill=Kill(100, 101, 2, 2, 2, 0.5),
        idle=IdleExit(101, 1.0, 1.1),
        processes_left=0,
        files_left=0,
    )
    return replace(whole, **changes)


@pytest.mark.parametrize("unicode", [True, False])
def test_the_tables_fit_on_eighty_columns(unicode: bool) -> None:
    big = report(agents=20, counts=list(range(1, 21)), eras=["legacy"] * 10 + ["modern"] * 10)
    for shown in (report(), big):
        assert all(width_of(line) <= 80 for line in report_lines(shown, unicode, "hearth"))


def test_box_drawing_is_left_out_where_it_cannot_be_shown() -> None:
    assert "\n".join(report_lines(report(), False, "hearth")).isascii()


def test_every_figure_of_the_run_is_shown() -> None:
    shown = "\n".join(report_lines(report(), True, "hearth"))
    for figure in ("20.0 MB", "60.0 MB", "11 ms", "pid 100", "pid 101", "2 of 2", "1 2", "1.1 s", "40.0 MB"):
        assert figure in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": [1, 1]},
        {"daemon_ids": ["d", "e"]},
        {"answered_by": [3, 4]},
        {"hearth": side([3, 4], 1, 1)},
        {"kill": Kill(100, 101, 2, 1, 2, 0.5)},
        {"kill": Kill(100, 101, 2, 2, 1, 0.5)},
        {"kill": Kill(100, 100, 2, 2, 2, 0.5)},
        {"processes_left": 1},
        {"files_left": 1},
    ],
)
def test_a_run_that_did_not_show_what_it_promises_is_not_good(changes: dict[str, Any]) -> None:
    assert is_good(report())
    assert not is_good(report(**changes))


def test_the_document_has_the_figures_under_camel_case_names() -> None:
    document = report().as_document()
    assert document["kill"]["pidAfter"] == 101
    assert document["hearthBytes"] == 60_000_000
    assert document["breakEvenBytes"] == 40_000_000


def test_without_a_server_of_realistic_weight_nothing_is_compared() -> None:
    shown = report_lines(report(apart=None), True, "hearth")
    text = "\n".join(shown)
    assert "each its own" not in text
    assert "no MCP server of realistic weight here to compare with" in " ".join(text.split())
    assert "one daemon" in text
    assert all(width_of(line) <= 80 for line in shown)
    assert is_good(report(apart=None))
    assert report(apart=None).as_document()["apartBytes"] is None


def test_the_next_command_stands_at_the_end() -> None:
    assert report_lines(report(), True, ".venv/bin/hearth")[-1] == "  .venv/bin/hearth setup --dry-run"

"""docs/protocol.md: the list of departures from the source documents is whole, and its numbers are the code's."""

import re
from pathlib import Path

from hearth.config.model import Config

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text(encoding="utf-8")


def departures() -> list[list[str]]:
    """The rows of the table, cell by cell."""
    section = PAGE.partition("## Departures from the source documents")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")][2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def test_each_departure_has_a_document_a_reason_and_a_test() -> None:
    rows = departures()
    assert len(rows) >= 6
    for row in rows:
        assert len(row) == 5 and all(row), row
        assert re.fullmatch(r"`tests/[\w/]+\.py::\w+`", row[4]), row


def test_each_document_is_named_by_a_departure() -> None:
    told = " ".join(row[1] for row in departures())
    assert [name for name in ("Paseo", "crab-mcp", "scriptschnell", "MCP²", "ExoMonad") if f"{name}:" not in told] == []


def test_the_defaults_in_the_list_are_those_of_the_config() -> None:
    named = dict(re.findall(r"`(\w+)` \((\d+)(?: s)?\)", " ".join(row[2] for row in departures())))
    assert named.keys() == {"idle_timeout", "drain_timeout", "max_connections"}
    assert {name: float(value) for name, value in named.items()} == {
        name: float(getattr(Config(), name)) for name in named
    }

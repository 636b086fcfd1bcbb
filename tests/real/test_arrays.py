"""A tool whose structured result is an array: of the modern era only, and useful to older clients all the same."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.real.clients import (
    PYTHON_AUTO,
    PYTHON_LEGACY,
    TYPESCRIPT_V1,
    TYPESCRIPT_V2_AUTO,
    TYPESCRIPT_V2_LEGACY,
    Player,
    play,
)
from support.real.home import RealHome
from support.real.installation import SCENARIO
from support.real.scenario.python_client import Document
from support.real.servers import TOOLS, call, text

pytestmark = pytest.mark.real
STEPS: dict[str, Any] = {
    "patience_seconds": 20,
    "answers": {},
    "steps": [TOOLS, call("numbers", "count_up", to=3), call("sum", "add", a=1, b=2)],
}


@pytest.fixture(scope="module")
def home() -> Iterator[RealHome]:
    """A server with such a tool, used in the era that has such results."""
    server = {"command": sys.executable, "args": [str(SCENARIO / "server.py"), "arrays"], "era": "modern"}
    with RealHome({"board": server}) as place:
        yield place


def perform(home: RealHome, player: Player) -> tuple[Document, dict[str, Any]]:
    """The steps, and the listed tool."""
    seen = play(player, home.bridged("board"), STEPS)["steps"]
    tools = {tool["name"]: tool for tool in seen["tools"]["result"]["tools"]}
    # One tool does not spoil the others.
    assert tools["add"]["outputSchema"]["type"] == "object"
    assert seen["sum"]["result"]["structuredContent"] == {"sum": 3, "terms": [1, 2]}
    return seen["numbers"], tools["count_up"]


@pytest.mark.parametrize("player", [TYPESCRIPT_V1, TYPESCRIPT_V2_LEGACY, PYTHON_LEGACY], ids=lambda one: one.package)
def test_an_older_client_lists_and_calls_it_and_gets_the_text(home: RealHome, player: Player) -> None:
    seen, tool = perform(home, player)
    assert "outputSchema" not in tool
    assert text(seen) == "[1, 2, 3]"
    assert "structuredContent" not in seen["result"]


@pytest.mark.parametrize("player", [PYTHON_AUTO, TYPESCRIPT_V2_AUTO], ids=lambda one: one.package)
def test_a_modern_client_gets_the_array(home: RealHome, player: Player) -> None:
    seen, tool = perform(home, player)
    assert tool["outputSchema"]["type"] == "array"
    assert seen["result"]["structuredContent"] == [1, 2, 3]

"""Programs that speak HTTP, as people run them: Inspector, Claude Code, and a bridge that is not Hearth's own."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.daemon import server
from support.real.board import SERVERS, scenario
from support.real.clients import PYTHON_LEGACY, TYPESCRIPT_V1, Address, Player, play
from support.real.command_lines import claude, inspect, mcp_remote
from support.real.comparison import assert_same
from support.real.home import RealHome
from support.real.scenario.python_client import Document

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def echo() -> Iterator[RealHome]:
    """A daemon with one small server."""
    with RealHome({"echo": server("echo")}) as place:
        yield place


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_inspector_lists_and_calls(echo: RealHome, tmp_path: Path, path: str) -> None:
    address = echo.on_port(path)
    assert "echo__echo" in {tool["name"] for tool in inspect(tmp_path, address, "--method", "tools/list")["tools"]}
    call = ["--method", "tools/call", "--tool-name", "echo__echo", "--tool-arg", "text=hello"]
    assert inspect(tmp_path, address, *call)["content"][0]["text"] == "hello"


def test_claude_code_connects(echo: RealHome, tmp_path: Path) -> None:
    port = echo.on_port()
    add(tmp_path, "hearth", "http", port)
    add(tmp_path, "one", "http", echo.on_port("/mcp/echo"))
    add(tmp_path, "oldest", "sse", echo.on_port("/sse"))
    add(tmp_path, "stranger", "http", port, "wrong")
    helper = {"type": "http", "url": port.url, "headersHelper": f"cat '{helped(tmp_path, port)}'"}
    claude(tmp_path, "mcp", "add-json", "--scope", "user", "helped", json.dumps(helper))
    said = claude(tmp_path, "mcp", "list", HEARTH_TOKEN=port.headers["Authorization"].removeprefix("Bearer "))
    states = dict(re.findall(r"^(\w+): \S+ \(\w+\) - (.+)$", said, re.MULTILINE))
    assert [states[name] for name in ("hearth", "one", "oldest", "helped")] == ["✔ Connected"] * 4
    # What the daemon says of the token reaches the person who has to mend it.
    assert "Failed to connect" in states["stranger"] and "hearth token show" in states["stranger"]


def add(home: Path, name: str, wire: str, address: Address, token: str = "${HEARTH_TOKEN}") -> None:
    """As our page has it: Claude Code fills in the variable itself."""
    header = ("--header", f"Authorization: Bearer {token}")
    claude(home, "mcp", "add", "--scope", "user", "--transport", wire, name, address.url, *header)


def helped(home: Path, address: Address) -> Path:
    """A file with what Claude Code's helper for headers prints."""
    file = home / "headers.json"
    file.write_text(json.dumps(address.headers))
    return file


@pytest.mark.parametrize("player", [PYTHON_LEGACY, TYPESCRIPT_V1], indirect=True, ids=lambda player: player.package)
def test_through_mcp_remote_a_client_sees_what_it_sees_without(
    player: Player, direct: Document, tmp_path: Path
) -> None:
    with RealHome(SERVERS) as home:
        assert_same(play(player, mcp_remote(tmp_path, home.on_port("/mcp/board")), scenario()), direct)

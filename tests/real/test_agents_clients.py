"""Every tool of the pack `agents` by the real TypeScript SDKs, which check the results against the output schemas."""

import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from process.test_agents_wires import CHILDREN, TOOLS, use_all
from support.agents.home import config
from support.daemon import Scratch
from support.real.clients import (
    TYPESCRIPT_V1,
    TYPESCRIPT_V2_AUTO,
    TYPESCRIPT_V2_LEGACY,
    Address,
    Caller,
    Command,
    Player,
    Server,
)

pytestmark = pytest.mark.real
PLAYERS = [TYPESCRIPT_V1, TYPESCRIPT_V2_AUTO, TYPESCRIPT_V2_LEGACY]


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """A home of its own."""
    with Scratch() as place:
        yield place


def served(scratch: Scratch, way: str) -> Server:
    """A child that speaks stdio, or the port of a daemon."""
    if words := CHILDREN.get(way):
        command = [sys.executable, "-I", "-m", "hearth", *words]
        return Command(command, scratch.environment(), str(scratch.home))
    scratch.start("--http", "127.0.0.1:0")
    token = (scratch.home / ".local" / "state" / "hearth" / "http" / "token").read_text().strip()
    address = scratch.status()["http"][0].removesuffix("/mcp")
    return Address(f"{address}/mcp", {"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize("player", PLAYERS, ids=lambda player: f"{player.package}-{player.mode}")
@pytest.mark.parametrize("way", ["bridge", "stdio", "port"])
async def test_every_tool_by_the_typescript_sdks(scratch: Scratch, way: str, player: Player) -> None:
    scratch.write_config(config(scratch, "--modes"))
    if way == "bridge":
        scratch.start()
    with Caller(player, served(scratch, way)) as client:
        assert client.opening["protocolVersion"] == ("2026-07-28" if player.is_modern else "2025-11-25")
        schemas = {tool["name"]: tool["outputSchema"] for tool in client.tools}

        async def call(tool: str, arguments: dict[str, object]) -> Any:
            result = client.call(f"agents__{tool}", arguments)
            assert not result.get("isError"), result
            jsonschema.validate(result["structuredContent"], schemas[f"agents__{tool}"])
            return result["structuredContent"]

        assert sorted(await use_all(call, str(scratch.home))) == TOOLS
        client.finish()

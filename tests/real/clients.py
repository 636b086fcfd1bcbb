"""The real clients: one way to play a scenario for all of them, with any command as the server."""

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from mcp import StdioServerParameters

from real.installation import SCENARIO, node, packages
from real.scenario.python_client import Document, PythonPlayer

# One play of the whole scenario takes two seconds; a loaded machine that starts a server for it takes some more.
PLAY_SECONDS = 90.0


class Player(NamedTuple):
    """A client package in one of its modes."""

    package: str
    mode: str

    @property
    def is_modern(self) -> bool:
        """Whether it prefers the era without a handshake."""
        return self.mode == "auto"


PYTHON_AUTO = Player("python", "auto")
PYTHON_LEGACY = Player("python", "legacy")
TYPESCRIPT_V1 = Player("typescript_v1", "legacy")
TYPESCRIPT_V2_AUTO = Player("typescript_v2", "auto")
TYPESCRIPT_V2_LEGACY = Player("typescript_v2", "legacy")
PLAYERS = [PYTHON_AUTO, PYTHON_LEGACY, TYPESCRIPT_V1, TYPESCRIPT_V2_AUTO, TYPESCRIPT_V2_LEGACY]


class Command(NamedTuple):
    """How a client starts its server."""

    words: list[str]
    environment: Mapping[str, str]
    folder: str


def play(player: Player, server: Command, scenario: Mapping[str, Any]) -> Document:
    """Start the client with the server, play, end both; returns what the client saw."""
    if player.package == "python":
        return asyncio.run(_play_python(player, server, scenario))
    job = {
        "scenario": scenario,
        "packages": packages(),
        "mode": player.mode,
        "server": {
            "command": server.words[0],
            "args": server.words[1:],
            "env": dict(server.environment),
            "cwd": server.folder,
        },
    }
    done = subprocess.run(
        [node(), str(SCENARIO / f"{player.package}.mjs")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        timeout=PLAY_SECONDS,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: Document = json.loads(done.stdout)
    return found


async def _play_python(player: Player, server: Command, scenario: Mapping[str, Any]) -> Document:
    parameters = StdioServerParameters(
        command=server.words[0], args=server.words[1:], env=dict(server.environment), cwd=server.folder
    )
    async with asyncio.timeout(PLAY_SECONDS):
        return await PythonPlayer(parameters, player.mode, dict(scenario)).play()

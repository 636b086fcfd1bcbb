"""The real clients: one way to play a scenario for all of them, with any command or address as the server."""

import asyncio
import contextlib
import json
import os
import select
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self

import httpx2
from mcp import StdioServerParameters
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from support.real.installation import SCENARIO, node, packages
from support.real.scenario.python_client import Document, PythonPlayer

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


class Address(NamedTuple):
    """Where a client finds its server."""

    url: str
    headers: Mapping[str, str] = {}
    socket: str | None = None  # the path of the Unix socket that is connected to instead of the host in the URL
    is_old: bool = False  # HTTP+SSE, before there was Streamable HTTP


Server = Command | Address


def play(player: Player, server: Server, scenario: Mapping[str, Any]) -> Document:
    """Start the client with the server, play, end both; returns what the client saw."""
    if player.package == "python":
        return asyncio.run(_play_python(player, server, scenario))
    job = {"scenario": scenario, "packages": packages(), "mode": player.mode, "server": _for_node(server)}
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
    return json.loads(done.stdout)


class Caller:
    """A client for node that calls tools one after another. `tools` has those of its server, `opening` the rest."""

    def __init__(self, player: Player, server: Server) -> None:
        self._process = subprocess.Popen(
            [node(), str(SCENARIO / f"{player.package}.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )
        self._job = {"packages": packages(), "mode": player.mode, "server": _for_node(server)}
        self.opening: Document = {}
        self.tools: list[Document] = []

    def __enter__(self) -> Self:
        try:
            first = self._ask(self._job)
        except BaseException:
            self.__exit__()
            raise
        self.opening, self.tools = first["opening"], first["tools"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()

    def call(self, tool: str, arguments: Mapping[str, object]) -> Document:
        """Call a tool; its result, which the package has checked against the output schema."""
        answer = self._ask({"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        result: Document = answer["result"]
        return result

    def _ask(self, document: Mapping[str, object]) -> Document:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], PLAY_SECONDS)[0], "the client says nothing"
        found: Document = json.loads(self._process.stdout.readline())
        return found

    def finish(self) -> None:
        """End the client, which must be content."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(PLAY_SECONDS) == 0


def _for_node(server: Server) -> dict[str, Any]:
    if isinstance(server, Address):
        return server._asdict()
    return {"command": server.words[0], "args": server.words[1:], "env": dict(server.environment), "cwd": server.folder}


async def _play_python(player: Player, server: Server, scenario: Mapping[str, Any]) -> Document:
    async with asyncio.timeout(PLAY_SECONDS):
        return await PythonPlayer(_for_python(server), player.mode, dict(scenario)).play()


def _for_python(server: Server) -> StdioServerParameters | Transport:
    if isinstance(server, Command):
        words, environment, folder = server
        return StdioServerParameters(command=words[0], args=words[1:], env=dict(environment), cwd=folder)
    if server.is_old:
        return sse_client(server.url, dict(server.headers))
    return _streamable(server)


@asynccontextmanager
async def _streamable(server: Address) -> AsyncIterator[Any]:
    """The transport, on a connection pool that knows the token or the socket."""
    pool = httpx2.AsyncHTTPTransport(uds=server.socket) if server.socket else None
    async with (
        httpx2.AsyncClient(headers=server.headers, transport=pool, timeout=PLAY_SECONDS) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams

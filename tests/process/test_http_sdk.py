"""The official Python SDK over HTTP: servers in both eras, and a legacy client through changing daemons."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from support.daemon import COMMAND, Daemon, Scratch, handing_over, server
from support.http.conversation import bounded, talking, text_of, until
from support.http.sessions import ENDS, End, http_sessions, kill
from support.sites.sdk import serve_sdk


@pytest.fixture(scope="module", params=["", "json", "stateless"])
def sdk_server(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from serve_sdk(request.param)


@pytest.fixture(scope="module")
def streaming() -> Iterator[str]:
    yield from serve_sdk()


WAYS = pytest.mark.parametrize(
    ("path", "era", "found"),
    [
        ("/mcp", "any modern", "modern"),
        ("/mcp", "modern", "modern"),
        ("/mcp", "any legacy", "legacy"),
        ("/mcp", "legacy", "legacy"),
        ("/sse", "any modern", "legacy"),
        ("/sse", "legacy", "legacy"),
    ],
)


@WAYS
async def test_a_server_is_listed_and_called(sdk_server: str, path: str, era: str, found: str) -> None:
    async with talking(sdk_server + path, era) as talk:
        assert talk.era == found
        names = [tool["name"] for tool in (await talk.ask("tools/list"))["tools"]]
        assert names == ["add", "report", "ask", "wait", "cancelled"]
        calls = [talk.begin("add", a=turn, b=1) for turn in range(20)]
        assert [text_of(await answer.future) for _, answer in calls] == [str(turn + 1) for turn in range(20)]


@WAYS
async def test_progress_and_logs_come_with_their_call(streaming: str, path: str, era: str, found: str) -> None:
    async with talking(streaming + path, era) as talk:
        number, answer = talk.begin("report", steps=3)
        assert text_of(await bounded(answer.future)) == "reported"
        assert answer.progress == [1, 2, 3]
        logs = [(params["data"], cause) for method, params, cause in talk.notices if "data" in (params or {})]
        cause = number if path == "/mcp" else None
        # A modern client gets them when it names a level, which this one does not.
        assert logs == ([] if found == "modern" else [(f"step {step}", cause) for step in range(3)])


async def test_a_question_is_answered_on_its_way(streaming: str) -> None:
    async with talking(streaming + "/mcp", "legacy", capabilities=b'{"elicitation":{}}') as talk:
        number, answer = talk.begin("ask")
        assert text_of(await bounded(answer.future)) == "hello Ada"
        assert talk.questions == [("elicitation/create", number)]


@WAYS
async def test_a_cancelled_call_is_given_up(streaming: str, path: str, era: str, found: str) -> None:
    async with talking(streaming + path, era) as talk:
        before = int(await talk.call("cancelled"))
        number, answer = talk.begin("wait")
        assert await talk.call("add", a=1, b=1) == "2"
        request = talk.connection._asked.get(number)  # type: ignore[attr-defined]
        await until(lambda: request is None or request.sent, "the call has left")
        talk.connection.cancel(number)
        for _ in range(1000):
            if int(await talk.call("cancelled")) == before + 1:
                break
        else:
            raise AssertionError("the call goes on")
        assert answer.times == 0


class Held:
    """A socket that somebody holds, and one daemon after the other on it."""

    def __init__(self, scratch: Scratch, listener: socket.socket) -> None:
        self.scratch = scratch
        self._listener = listener

    def start(self) -> Daemon:
        command = handing_over(self._listener, COMMAND)
        return self.scratch.start(command=command, fds=(self._listener.fileno(),))


@pytest.fixture
def held(scratch: Scratch) -> Iterator[Held]:
    ledger = scratch.home / "ledger"
    scratch.configure({"echo": server("echo"), "count": server("counting", ledger), "change": server("changing")})
    os.makedirs(os.path.dirname(scratch.socket), mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(scratch.socket)
        listener.listen()
        yield Held(scratch, listener)


@asynccontextmanager
async def connected(scratch: Scratch, heard: Callable[[Any], None] = lambda message: None) -> AsyncIterator[Client]:
    async def handle(message: Any) -> None:
        heard(message)

    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=scratch.socket), timeout=20) as http:
        streams = streamable_http_client("http://localhost/mcp", http_client=http)
        async with Client(streams, mode="legacy", message_handler=handle) as client:
            yield client


async def said(client: Client, tool: str, **arguments: object) -> str:
    result = await bounded(client.call_tool(tool, arguments))
    return str(result.content[0].text)  # type: ignore[union-attr]


@pytest.mark.parametrize("end", ENDS)
async def test_it_calls_through_one_daemon_after_the_other(held: Held, end: End) -> None:
    daemon = held.start()
    async with connected(held.scratch) as client:
        for turn in range(3):
            assert await said(client, "echo__echo", text=f"turn {turn}") == f"turn {turn}"
            await asyncio.to_thread(end, daemon)
            # While nobody serves, its request waits in the queue of the socket.
            waiting = asyncio.create_task(said(client, "echo__echo", text="waiting"))
            daemon = await asyncio.to_thread(held.start)
            assert await waiting == "waiting"
    assert http_sessions(held.scratch) == []


async def test_it_hears_of_changes_by_a_stream_that_it_has_opened_again(held: Held) -> None:
    daemon = held.start()
    heard: list[str] = []
    async with connected(held.scratch, lambda message: heard.append(type(message).__name__)) as client:
        before = {tool.name for tool in (await client.list_tools()).tools}
        await asyncio.to_thread(kill, daemon)
        await asyncio.to_thread(held.start)
        # The lists may be others; and then they are.
        await until(lambda: "ToolListChangedNotification" in heard, "it is told to look again")
        assert {tool.name for tool in (await client.list_tools()).tools} == before
        heard.clear()
        await said(client, "change__grow", name="leaf")
        await until(lambda: "ToolListChangedNotification" in heard, "it is told of the new tool")
        assert {tool.name for tool in (await client.list_tools()).tools} == before | {"change__leaf"}


async def test_a_call_that_died_with_its_daemon_fails_and_the_next_one_does_not(held: Held) -> None:
    daemon = held.start()
    progress: list[float] = []

    async def report(value: float, total: float | None, message: str | None) -> None:
        progress.append(value)

    async with connected(held.scratch) as client:
        arguments = {"key": "k", "delay": 60_000, "steps": 600}
        calling = asyncio.create_task(client.call_tool("count__once", arguments, progress_callback=report))
        await until(lambda: progress, "the call is under way")
        await asyncio.to_thread(kill, daemon)
        await asyncio.to_thread(held.start)
        with pytest.raises(Exception, match="may or may not have run"):
            await bounded(calling)
        assert await said(client, "echo__echo", text="on") == "on"
    assert (held.scratch.home / "ledger").read_text().count("once k") == 1

"""`hearth bridge --to` Hearth's own HTTP, and servers on the official SDK, in both eras, with the official client."""

import asyncio
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode

from process.remote_bridge import bridge_to, text_of
from support.daemon import Scratch, server
from support.kernel import until
from support.scripted_daemon import SCRIPT
from support.sites.sdk import serve_sdk


def on_port(scratch: Scratch) -> str:
    scratch.configure({"echo": server("echo")})
    scratch.start("--http", "127.0.0.1:0")
    [url] = scratch.status()["http"]
    parts = urlsplit(url)
    return f"http://{parts.hostname}:{parts.port}"


def test_both_eras_of_hearth_on_its_socket(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start()
    with bridge_to(f"unix:{scratch.socket}", environment=scratch.environment()) as bridge:
        assert bridge.ask("server/discover", _modern=True)["result"]["supportedVersions"] == ["2026-07-28"]
        assert text_of(bridge.call_modern("echo__echo", text="modern")) == "modern"
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="legacy")) == "legacy"
        assert bridge.leave() == []
        assert bridge.stderr() == ""


def test_one_server_of_hearth_by_its_path(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start()
    with bridge_to(f"unix:{scratch.socket}:/mcp/echo?agent=a", environment=scratch.environment()) as bridge:
        bridge.open()
        assert text_of(bridge.call("echo", text="under its own name")) == "under its own name"


def test_a_daemon_that_was_restarted_is_met_again(scratch: Scratch) -> None:
    scratch.configure({"echo": server("echo")})
    daemon = scratch.start()
    with bridge_to(f"unix:{scratch.socket}", environment=scratch.environment()) as bridge:
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="first")) == "first"
        assert daemon.stop() == 0
        id = bridge.begin("tools/call", name="echo__echo", arguments={"text": "second"})
        scratch.start()
        assert text_of(bridge.answer_to(id)) == "second"


def test_a_port_of_hearth_gets_its_token_only_when_it_is_given(scratch: Scratch) -> None:
    origin = on_port(scratch)
    token = "Authorization: Bearer ${file:~/.local/state/hearth/http/token}"
    with bridge_to(f"{origin}/mcp", environment=scratch.environment()) as bridge:
        sentence = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "HTTP 401" in sentence and "state/hearth/http/token}'" in sentence
    with bridge_to(f"{origin}/mcp", "--header", token, environment=scratch.environment()) as bridge:
        assert text_of(bridge.call_modern("echo__echo", text="with it")) == "with it"
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="legacy")) == "legacy"


# --- the official SDK


@pytest.fixture(scope="module", params=["", "json", "stateless"])
def sdk(request: pytest.FixtureRequest) -> Iterator[str]:
    """One that streams, one that answers in JSON, one without sessions."""
    yield from serve_sdk(request.param)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_on_the_official_server(sdk: str, scratch: Scratch, mode: ConnectMode) -> None:
    words = ["-I", "-S", str(SCRIPT), "--to", f"{sdk}/mcp"]
    command = StdioServerParameters(command=sys.executable, args=words, env=scratch.environment())
    async with Client(command, mode=mode, read_timeout_seconds=20) as client:
        assert "add" in [tool.name for tool in (await client.list_tools()).tools]
        results = await asyncio.gather(*(client.call_tool("add", {"a": turn, "b": 1}) for turn in range(20)))
        assert [result.structured_content for result in results] == [{"result": turn + 1} for turn in range(20)]


@pytest.fixture(scope="module")
def streaming() -> Iterator[str]:
    """One that notices when a stream is closed: those that answer in JSON do not."""
    yield from serve_sdk()


@pytest.mark.parametrize("modern", [True, False])
def test_the_official_server_learns_of_a_cancellation(streaming: str, modern: bool) -> None:
    with bridge_to(f"{streaming}/mcp") as bridge:
        call = bridge.call_modern if modern else bridge.call
        if not modern:
            bridge.open()
        before = int(text_of(call("cancelled")))
        id = bridge.begin("tools/call", _modern=modern, name="wait", arguments={})
        assert bridge.is_silent()
        bridge.cancel(id)
        until(lambda: int(text_of(call("cancelled"))) == before + 1, "it was cancelled there")
        assert bridge.leave() == []

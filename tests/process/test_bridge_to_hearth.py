"""`hearth bridge --to` Hearth's own HTTP, and servers on the official SDK, in both eras, with the official client."""

import asyncio
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.client import ConnectMode

from process.remote_bridge import bridge_to
from support.clients import text_of
from support.daemon import Scratch, server
from support.kernel import until
from support.scripted_daemon import SCRIPT
from support.sites.sdk import serve_sdk


@pytest.fixture
def other() -> Iterator[Scratch]:
    """Another daemon than the bridge's own, as on another machine: with one server, and a port."""
    with Scratch() as found:
        found.configure({"echo": server("echo")})
        found.start("--http", "127.0.0.1:0")
        yield found


def port_of(scratch: Scratch) -> str:
    parts = urlsplit(scratch.status()["http"][0])
    return f"http://{parts.hostname}:{parts.port}"


def test_both_eras_of_another_daemon_on_its_socket(other: Scratch) -> None:
    with bridge_to(f"unix:{other.socket}") as bridge:
        assert bridge.ask("server/discover", _modern=True)["result"]["supportedVersions"] == ["2026-07-28"]
        assert text_of(bridge.call_modern("echo__echo", text="modern")) == "modern"
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="legacy")) == "legacy"
        assert bridge.leave() == []
        assert bridge.stderr() == ""


def test_one_server_of_another_daemon_by_its_path(other: Scratch) -> None:
    with bridge_to(f"unix:{other.socket}:/mcp/echo?agent=a") as bridge:
        bridge.open()
        assert text_of(bridge.call("echo", text="under its own name")) == "under its own name"


def test_another_daemon_that_was_restarted_is_met_again(other: Scratch) -> None:
    with bridge_to(f"unix:{other.socket}") as bridge:
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="first")) == "first"
        assert other._daemons[0].stop() == 0
        id = bridge.begin("tools/call", name="echo__echo", arguments={"text": "second"})
        other.start()
        assert text_of(bridge.answer_to(id)) == "second"


def test_a_port_of_hearth_gets_its_token_only_when_it_is_given(other: Scratch) -> None:
    token = f"Authorization: Bearer ${{file:{other.home}/.local/state/hearth/http/token}}"
    with bridge_to(f"{port_of(other)}/mcp") as bridge:
        sentence = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "HTTP 401" in sentence and "state/hearth/http/token}'" in sentence
    with bridge_to(f"{port_of(other)}/mcp", "--header", token) as bridge:
        assert text_of(bridge.call_modern("echo__echo", text="with it")) == "with it"
        bridge.open()
        assert text_of(bridge.call("echo__echo", text="legacy")) == "legacy"


@pytest.mark.parametrize("way", ["socket", "link", "port", "mapped"])
def test_the_daemon_does_not_connect_to_itself(scratch: Scratch, way: str) -> None:
    scratch.configure({"echo": server("echo")})
    scratch.start("--http", "127.0.0.1:0")
    (scratch.home / "link").symlink_to(scratch.socket)
    port = f"{port_of(scratch)}/mcp"
    url = {
        "socket": f"unix:{scratch.socket}",
        "link": "unix:~/link",
        "port": port.replace("127.0.0.1", "localhost"),
        "mapped": port.replace("127.0.0.1", "[::ffff:127.0.0.1]"),
    }[way]
    with bridge_to(url, scratch=scratch) as bridge:
        sentence = bridge.ask("tools/list", _modern=True)["error"]["message"]
        assert "nothing was sent: this is Hearth's own address; leave --to out" in sentence
        assert len(scratch.status()["sessions"]) == 1


# --- the official SDK


@pytest.fixture(scope="module", params=["", "json", "stateless"])
def sdk(request: pytest.FixtureRequest) -> Iterator[str]:
    """One that streams, one that answers in JSON, one without sessions."""
    yield from serve_sdk(request.param)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_on_the_official_server(sdk: str, scratch: Scratch, mode: ConnectMode) -> None:
    scratch.configure()
    scratch.start()
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

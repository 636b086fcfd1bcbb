"""All tools of the pack `agents` over every wire in both eras, and by the official SDK; results fit their schemas."""

import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from conformance.test_wires_alike import WIRES, channel_of
from process.test_agents_family import child_of, notices, told
from support.agents.home import config, opened
from support.conformance.channels import Channel, Exchange, Http, Lined
from support.conformance.revisions import CAPABILITIES_KEY, CLIENT_INFO_KEY, MODERN, NEWEST_LEGACY, VERSION_KEY
from support.daemon import Scratch
from support.kernel import until

TOOLS = [
    "cancel_agent", "create_agent", "get_agent_activity", "get_agent_status", "kill_agent", "list_agents",
    "list_pending_permissions", "list_providers", "respond_to_permission", "send_agent_prompt", "set_agent_mode",
    "wait_for_agent",
]  # fmt: skip
# Calls a tool; returns its structured content.
Call = Callable[..., Awaitable[Any]]


async def use_all(call: Call, cwd: str) -> set[str]:
    """Use every tool once or more, as a client would; return the names of those that were used."""
    used = set()

    async def ask(tool: str, **arguments: object) -> Any:
        used.add(tool)
        return await call(tool, arguments)

    assert "echo" in [each["name"] for each in (await ask("list_providers"))["providers"]]
    created = await ask(
        "create_agent", cwd=cwd, title="scout", agentType="echo", initialPrompt="ask execute", labels={"a": "b"}
    )
    agent, request = created["agentId"], created["permission"]
    assert (created["status"], request["name"]) == ("running", "Bash")
    assert (await ask("wait_for_agent", agentId=agent))["permission"]["id"] == request["id"]
    pending = (await ask("list_pending_permissions"))["permissions"]
    assert [each["request"]["id"] for each in pending] == [request["id"]]
    assert await ask(
        "respond_to_permission", agentId=agent, requestId=request["id"], response={"behavior": "allow"}
    ) == {"success": True}
    assert (await ask("wait_for_agent", agentId=agent))["lastMessage"] == "selected allow"
    assert (await ask("send_agent_prompt", agentId=agent, prompt="plan\ntool read\nusage\nsay hi"))[
        "lastMessage"
    ] == "hi"
    assert (await ask("set_agent_mode", agentId=agent, modeId="plan"))["newMode"] == "plan"
    snapshot = (await ask("get_agent_status", agentId=agent))["snapshot"]
    assert (snapshot["title"], snapshot["currentModeId"], snapshot["labels"]) == ("scout", "plan", {"a": "b"})
    assert [each["id"] for each in (await ask("list_agents"))["agents"]] == [agent]
    assert (await ask("get_agent_activity", agentId=agent))["content"].endswith("hi")
    assert (await ask("send_agent_prompt", agentId=agent, prompt="sleep", background=True))["status"] == "running"
    assert await ask("cancel_agent", agentId=agent) == {"success": True}
    assert await ask("kill_agent", agentId=agent) == {"success": True}
    return used


class Raw:
    """A client that writes its own messages, and checks each result against the schema of its tool."""

    def __init__(self, channel: Channel, revision: str) -> None:
        self._channel = channel
        self._revision = revision
        self._ids = itertools.count(1)
        self.schemas: dict[str, Any] = {}
        # Messages that came before the answer to something else.
        self.aside: list[Any] = []

    def begin(self, method: str, **params: Any) -> tuple[int, Exchange]:
        id = next(self._ids)
        if self._revision == MODERN:
            info = {"name": "raw", "version": "1"}
            envelope = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: info}
            params["_meta"] = {**envelope, **params.get("_meta", {})}
        line = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id, self._channel.begin(line.encode())

    def ask(self, method: str, **params: Any) -> Any:
        id, exchange = self.begin(method, **params)
        while (message := json.loads(exchange.next())).get("id") != id:
            self.aside.append(message)
        return message["result"]

    def open(self) -> None:
        if self._revision != MODERN:
            info = {"name": "raw", "version": "1"}
            self.ask("initialize", protocolVersion=self._revision, capabilities={}, clientInfo=info)
            self._channel.tell(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.schemas = {tool["name"]: tool["outputSchema"] for tool in self.ask("tools/list")["tools"]}

    async def call(self, tool: str, arguments: dict[str, object]) -> Any:
        result = self.ask("tools/call", name=f"agents__{tool}", arguments=arguments)
        assert not result.get("isError"), result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        jsonschema.validate(result["structuredContent"], self.schemas[f"agents__{tool}"])
        return result["structuredContent"]


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
@pytest.mark.parametrize("wire", WIRES)
async def test_every_tool_over_every_wire(scratch: Scratch, wire: str, revision: str) -> None:
    scratch.write_config(config(scratch, "--modes"))
    client = Raw(channel_of(scratch, wire, revision), revision)
    client.open()
    assert sorted(client.schemas) == [f"agents__{tool}" for tool in TOOLS]
    assert sorted(await use_all(client.call, str(scratch.home))) == TOOLS


# Each change of the mode is a change of the agent, and a wait for it reports progress.
RESTLESS = "\n".join(["sleep 0.1\nmode plan\nsleep 0.1\nmode default"] * 20)


async def begin_wait(client: Raw, agent: str) -> tuple[int, Exchange]:
    """Begin a wait for an agent; return when it has reported progress."""
    params = {"name": "agents__wait_for_agent", "arguments": {"agentId": agent}}
    id, exchange = client.begin("tools/call", **params, _meta={"progressToken": "p"})
    assert json.loads(exchange.next())["method"] == "notifications/progress"
    return id, exchange


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_wait_that_is_cancelled_is_over_and_its_agent_goes_on(
    scratch: Scratch, wire: str, revision: str
) -> None:
    scratch.write_config(config(scratch, "--modes"))
    client = Raw(channel_of(scratch, wire, revision), revision)
    client.open()
    prompt = {"initialPrompt": f"{RESTLESS}\nsleep", "background": True}
    agent = (await client.call("create_agent", {"cwd": str(scratch.home), **prompt}))["agentId"]
    id, exchange = await begin_wait(client, agent)
    late = list(map(json.loads, exchange.withdraw(id)))
    # What was sent before the cancellation was read.
    assert (await client.call("get_agent_status", {"agentId": agent}))["status"] == "running"
    late += client.aside
    client.aside.clear()
    # A wait that goes on would report this change, and return with the turn.
    await client.call("set_agent_mode", {"agentId": agent, "modeId": "acceptEdits"})
    await client.call("cancel_agent", {"agentId": agent})
    assert (await client.call("wait_for_agent", {"agentId": agent}))["status"] == "idle"
    assert client.aside == []
    assert [message for message in late if message.get("id") == id] == []


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
@pytest.mark.parametrize("wire", ["frames", "http", "port"])
async def test_a_notice_after_a_wait_that_was_cancelled_arrives_once(
    scratch: Scratch, wire: str, revision: str
) -> None:
    scratch.write_config(config(scratch, "--modes"))
    # The first client makes the agents, the second one is the lead itself.
    channel = channel_of(scratch, wire, revision)
    tools, go, rest = opened(scratch), scratch.home / "go", scratch.home / "rest"
    lead = tools.create("say ready")["agentId"]
    child = child_of(tools, lead, f"{RESTLESS}\nshell until [ -e {go} ]; do sleep 0.05; done")
    tools.send(lead, f"shell until [ -e {rest} ]; do sleep 0.05; done", background=True)
    token = (scratch.folder / "agents" / f"{lead}.token").read_text().strip()
    if isinstance(channel, Http):
        channel.client.headers |= {"Hearth-Role-Token": token, "X-Hearth-Agent": lead}
    else:
        channel = Lined(scratch.frames(roleToken=token, agentId=lead))
    client = Raw(channel, revision)
    client.open()
    id, exchange = await begin_wait(client, child)
    exchange.withdraw(id)
    until(lambda: not any(each["inFlight"] for each in scratch.status()["sessions"]), "the daemon has read it")
    assert tools.status(child)["status"] == "running"
    go.touch()
    assert tools.wait(child)["status"] == "idle"
    # The lead is busy: a wait of its own that goes on would use the notice up.
    assert tools.status(lead)["status"] == "running"
    rest.touch()
    told(tools, lead, child)
    assert tools.send(lead, "say next")["lastMessage"] == "next"
    assert notices(tools, lead, child, "finished") == 1


# What a client of the SDK starts, and speaks to by its pipes.
CHILDREN = {"bridge": ("bridge",), "stdio": ("serve", "--transport", "stdio")}


@asynccontextmanager
async def sdk(scratch: Scratch, way: str, mode: Any) -> AsyncIterator[Client]:
    """A client of the official SDK: its own child that speaks stdio, or HTTP over the daemon's socket or a port."""
    if words := CHILDREN.get(way):
        command = StdioServerParameters(
            command=sys.executable, args=["-I", "-m", "hearth", *words], env=scratch.environment()
        )
        async with Client(command, mode=mode, read_timeout_seconds=30) as client:
            yield client
        return
    address, headers = "http://localhost", {}
    if way == "port":
        address = scratch.status()["http"][0].removesuffix("/mcp")
        token = scratch.home / ".local" / "state" / "hearth" / "http" / "token"
        headers["Authorization"] = f"Bearer {token.read_text().strip()}"
    transport = None if way == "port" else httpx2.AsyncHTTPTransport(uds=scratch.socket)
    async with httpx2.AsyncClient(transport=transport, timeout=30, headers=headers) as http:
        streams = streamable_http_client(f"{address}/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("way", ["bridge", "stdio", "http", "port"])
async def test_every_tool_by_the_official_sdk(scratch: Scratch, way: str, mode: str) -> None:
    scratch.write_config(config(scratch, "--modes"))
    if way != "stdio":
        scratch.start(*(("--http", "127.0.0.1:0") if way == "port" else ()))
    async with sdk(scratch, way, mode) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}

        async def call(tool: str, arguments: dict[str, object]) -> Any:
            # The SDK itself checks the result against the schema, too.
            result = await client.call_tool(f"agents__{tool}", arguments)
            assert not result.is_error, result  # type: ignore[union-attr]
            found = result.structured_content  # type: ignore[union-attr]
            jsonschema.validate(found, schemas[f"agents__{tool}"] or {})
            return found

        assert sorted(await use_all(call, str(scratch.home))) == TOOLS

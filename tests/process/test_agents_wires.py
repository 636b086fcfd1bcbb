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
from support.agents.home import config
from support.conformance.channels import Channel
from support.conformance.revisions import CAPABILITIES_KEY, CLIENT_INFO_KEY, MODERN, NEWEST_LEGACY, VERSION_KEY
from support.daemon import Scratch

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

    def ask(self, method: str, **params: Any) -> Any:
        id = next(self._ids)
        if self._revision == MODERN:
            info = {"name": "raw", "version": "1"}
            params["_meta"] = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: info}
        exchange = self._channel.begin(
            json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()
        )
        while (message := json.loads(exchange.next())).get("id") != id:
            pass
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


@asynccontextmanager
async def sdk(scratch: Scratch, way: str, mode: Any) -> AsyncIterator[Client]:
    """A client of the official SDK: through a bridge, or over HTTP."""
    if way == "bridge":
        command = StdioServerParameters(
            command=sys.executable, args=["-I", "-m", "hearth", "bridge"], env=scratch.environment()
        )
        async with Client(command, mode=mode, read_timeout_seconds=30) as client:
            yield client
        return
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=scratch.socket), timeout=30) as http:
        streams = streamable_http_client("http://localhost/mcp", http_client=http)
        async with Client(streams, mode=mode) as client:
            yield client


@pytest.mark.parametrize("mode", ["legacy", MODERN])
@pytest.mark.parametrize("way", ["bridge", "http"])
async def test_every_tool_by_the_official_sdk(scratch: Scratch, way: str, mode: str) -> None:
    scratch.write_config(config(scratch, "--modes"))
    scratch.start()
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

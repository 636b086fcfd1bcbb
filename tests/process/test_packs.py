"""The pack `hearth` of a real daemon: over every wire and in both eras, searched, pinned, and switched by a reload."""

import json
import subprocess
import sys
from typing import Any

import pytest

from support.clients import ENVELOPE, PREFIX, Client, Message, text_of
from support.daemon import Scratch, server, toml
from support.eras import CHANGED, Speaker
from support.http.clients import HttpClient, LegacyHttp
from support.scripted_daemon import BridgeProcess

TOOLS = ["hearth__list_servers", "hearth__read_server_log", "hearth__restart_server", "hearth__status"]


def configured(scratch: Scratch, enabled: bool = True, **keys: object) -> None:
    pack = {"enabled": enabled, **keys.pop("pack", {})}  # type: ignore[dict-item]
    lines = [f"{key} = {json.dumps(value)}" for key, value in pack.items()]
    servers = {"old": server("recording", scratch.home / "old")}
    scratch.write_config(toml(keys, servers) + "[packs.hearth]\n" + "\n".join(lines) + "\n")


@pytest.fixture
def packed(scratch: Scratch) -> Scratch:
    configured(scratch)
    scratch.start()
    return scratch


def opened(scratch: Scratch, wire: str, era: str, **hello: object) -> Speaker:
    return Speaker(scratch.lines() if wire == "lines" else scratch.frames(**hello), era)


def names(client: Speaker) -> list[str]:
    return [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]


def found(answer: Message) -> Any:
    assert not answer["result"].get("isError"), answer
    return answer["result"]["structuredContent"]


def test_an_agent_looks_after_the_daemon(packed: Scratch, wire: str, era: str) -> None:
    client = opened(packed, wire, era)
    assert [name for name in names(client) if name.startswith("hearth__")] == TOOLS
    status = found(client.call("hearth__status", arguments={}))
    assert status["configError"] is None
    assert [each["isYou"] for each in status["sessions"]] == [True]
    assert text_of(client.call("old__echo", arguments={"text": "x"})) == "heard"
    servers = {each["name"]: each for each in found(client.call("hearth__list_servers", arguments={}))["servers"]}
    assert (servers["old"]["state"], servers["hearth"]["state"]) == ("ready", "ready")
    assert servers["hearth"]["era"] == "modern"
    assert servers["hearth"]["pids"] == []
    restarted = found(client.call("hearth__restart_server", arguments={"name": "old"}))
    assert "the next call starts it" in restarted["message"]
    assert text_of(client.call("old__echo", arguments={"text": "x"})) == "heard"
    assert found(client.call("hearth__read_server_log", arguments={"name": "old", "lines": 5}))["name"] == "old"
    unknown = client.call("hearth__read_server_log", arguments={"name": "../../x"})["result"]
    assert unknown["isError"] is True
    assert "known: old, hearth" in unknown["content"][0]["text"]


def test_the_pack_restarts_itself_and_answers(packed: Scratch) -> None:
    client = opened(packed, "lines", "legacy")
    assert found(client.call("hearth__restart_server", arguments={"name": "hearth"}))["name"] == "hearth"
    assert found(client.call("hearth__status", arguments={}))["summary"]


def test_a_session_that_is_not_the_owner_needs_its_approval_to_restart(packed: Scratch) -> None:
    opened(packed, "frames", "legacy")
    refused = opened(packed, "frames", "legacy").call("hearth__restart_server", arguments={"name": "old"})["result"]
    assert refused["isError"] is True
    assert "owner.approve" in refused["content"][0]["text"]


def test_a_bridge_for_the_pack_alone_has_its_tools_by_their_own_names(packed: Scratch, era: str) -> None:
    client = opened(packed, "frames", era, server="hearth")
    assert names(client) == [name.removeprefix("hearth__") for name in TOOLS]
    assert found(client.call("status", arguments={}))["pid"]


def test_a_real_bridge_calls_it(packed: Scratch) -> None:
    bridge = BridgeProcess(packed.home, environment=packed.environment())
    try:
        params = {"name": "hearth__status", "arguments": {}, "_meta": ENVELOPE}
        bridge.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        assert bridge.read()["result"]["structuredContent"]["sessions"][0]["wire"] == "frames"
    finally:
        bridge.close()


def test_it_is_called_over_http(packed: Scratch) -> None:
    client = HttpClient(packed)
    meta = {**ENVELOPE, f"{PREFIX}clientInfo": {"name": "web", "version": "1"}}
    params = {"name": "hearth__status", "arguments": {}, "_meta": meta}
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": "hearth__status", "MCP-Protocol-Version": "2026-07-28"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    (*_, answer) = client.request("POST", body, headers).messages()
    assert answer["result"]["structuredContent"]["version"]
    (*_, answer) = LegacyHttp(packed).opened().call("hearth__status").messages()
    assert [each["isYou"] for each in answer["result"]["structuredContent"]["sessions"]].count(True) == 1


def test_a_client_that_searches_finds_its_tools(scratch: Scratch, era: str) -> None:
    configured(scratch, mode="search")
    scratch.start()
    client = opened(scratch, "lines", era)
    assert "- hearth__restart_server" in text_of(client.call("find_tools", arguments={"query": "restart server"}))
    assert found(client.call("call_tool_read", arguments={"name": "hearth__status", "arguments": {}}))["version"]
    wrong = client.call("call_tool_read", arguments={"name": "hearth__restart_server", "arguments": {"name": "old"}})
    assert wrong["result"]["isError"] is True


def test_its_tools_are_pinned_and_blocked_as_those_of_any_server(scratch: Scratch) -> None:
    configured(scratch, pack={"pin": True, "blocked_tools": ["restart_server"]})
    scratch.start()
    client = opened(scratch, "lines", "legacy")
    assert [name for name in names(client) if name.startswith("hearth__")] == [
        name for name in TOOLS if name != "hearth__restart_server"
    ]
    assert list((scratch.home / ".local/state/hearth").rglob("*hearth*")), "what was seen is kept"


def test_a_reload_switches_it_and_clients_are_told(packed: Scratch) -> None:
    client = opened(packed, "frames", "legacy")
    assert TOOLS[0] in names(client)
    configured(packed, enabled=False)
    control = packed.control()
    assert control.control("reload")[0]["ok"]
    wait_for_change(client.client)
    assert TOOLS[0] not in names(client)
    configured(packed)
    assert control.control("reload")[0]["ok"]
    wait_for_change(client.client)
    assert TOOLS[0] in names(client)


def wait_for_change(client: Client) -> None:
    client.next_called(CHANGED)


def test_a_daemon_without_packs_offers_none(scratch: Scratch) -> None:
    configured(scratch, enabled=False)
    scratch.start()
    assert not [name for name in names(opened(scratch, "lines", "legacy")) if name.startswith("hearth__")]


def test_the_daemon_loads_nothing_of_packs_by_itself() -> None:
    program = "import sys, hearth.daemon.daemon; print([name for name in sys.modules if 'pack' in name])"
    loaded = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    assert "hearth.packs" not in loaded
    assert "pack_api" not in loaded

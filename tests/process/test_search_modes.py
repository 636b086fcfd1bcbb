"""Clients that search, on a real daemon and by a real bridge: what they are listed, and what `call_tool` passes on."""

import json
import os
import signal
from pathlib import Path

import pytest

from support.clients import Client, Message, text_of
from support.daemon import Scratch, server
from support.eras import CHANGED, Speaker
from support.kernel import is_gone, pids_at_home, until
from support.scripted_daemon import BridgeProcess

FIVE = ["find_tools", "describe_tools", "call_tool_read", "call_tool_write", "call_tool_destructive"]
# What JSON can say in more than one way: bytes that are not touched come through as they are.
ODD = b'{ "text" : "\\u00e9\\/\\ud83d", "n":1e2 ,"deep":[[{}]], "text" : "last" }'


@pytest.fixture(scope="module")
def searching(shared: Scratch) -> Scratch:
    """A daemon with servers of both eras, whose clients search."""
    shared.serve(
        {"old": server("recording", shared.home / "old"), "new": server("modern", shared.home / "new")}
        | {"count": server("counting", shared.home / "ledger")},
        mode="search",
    )
    return shared


def opened(scratch: Scratch, wire: str, era: str) -> Speaker:
    return Speaker(scratch.lines() if wire == "lines" else scratch.frames(mode="search"), era)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().rpartition(b"\n")[0].split(b"\n")


def raw_answer(client: Client, id: str, params: bytes) -> bytes:
    """The bytes of the result or the error of a call, without its envelope."""
    client.send_line(b'{"jsonrpc":"2.0","id":"%b","method":"tools/call","params":%b}' % (id.encode(), params))
    while True:
        line = client.receive_line()
        if json.loads(line).get("id") == id:
            start = b'{"jsonrpc":"2.0","id":"%b",' % id.encode()
            assert line.startswith(start), line
            return line[len(start) :]


# --- lists and openings


def test_five_tools_are_listed_and_both_openings_say_how_to_search(searching: Scratch, wire: str, era: str) -> None:
    client = opened(searching, wire, era)
    listed = client.ask("tools/list")["result"]
    assert [tool["name"] for tool in listed["tools"]] == FIVE
    assert ("resultType" in listed) == (era == "modern")
    opening = "server/discover" if era == "modern" else "initialize"
    params = {} if era == "modern" else {"protocolVersion": "2025-06-18", "capabilities": {}}
    assert "find_tools" in client.ask(opening, **params)["result"]["instructions"]


def test_tools_are_found_described_and_called(searching: Scratch, era: str) -> None:
    client = opened(searching, "frames", era)
    assert "- old__echo" in text_of(client.call("find_tools", arguments={"query": "echo", "limit": 3}))
    described = json.loads(text_of(client.call("describe_tools", arguments={"names": ["old__echo"]})))
    assert described["name"] == "old__echo"
    inner = {"name": "old__echo", "arguments": {"text": "x"}}
    assert text_of(client.call(described["callWith"], arguments=inner)) == "heard"
    assert text_of(client.call("call_tool", arguments=inner)) == "heard"


def test_a_tool_is_called_only_by_what_fits_its_annotations(searching: Scratch, era: str) -> None:
    client = opened(searching, "frames", era)
    inner = {"name": "count__read", "arguments": {"key": f"fitting-{era}"}}
    refused = client.call("call_tool_write", arguments=inner)["result"]
    assert refused["isError"] is True
    assert "call it with call_tool_read" in refused["content"][0]["text"]
    assert not client.call("call_tool_read", arguments=inner)["result"].get("isError")
    assert counted(searching.home / "ledger").count(f"read fitting-{era}") == 1


# --- byte for byte


@pytest.mark.parametrize("upstream", ["old", "new"])
def test_what_goes_through_call_tool_is_the_direct_call_byte_for_byte(
    searching: Scratch, era: str, upstream: str
) -> None:
    client = opened(searching, "lines", era).client
    tool = b"%b__echo" % upstream.encode()
    meta = b""
    if era == "modern":
        envelope = b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28"'
        meta = b',"_meta":' + envelope + b',"io.modelcontextprotocol/clientCapabilities":{},"x/y": [ 1.0 ]}'
    own = b'{"name":"' + tool + b'","arguments":' + ODD + b"}"
    direct = raw_answer(client, "d", own[:-1] + meta + b"}")
    before = lines_of(searching.home / upstream)[-1]
    through = raw_answer(client, "t", b'{"name":"call_tool","arguments":' + own + meta + b"}")
    after = lines_of(searching.home / upstream)[-1]
    assert through == direct
    assert before != after
    assert params_of(after) == params_of(before)
    assert b'"arguments":' + ODD in after


def params_of(line: bytes) -> bytes:
    """The bytes of a request's params."""
    return line[line.index(b'"params":') :]


# --- what is not found


def test_a_name_that_nobody_has_is_told_with_the_nearest(searching: Scratch, era: str) -> None:
    client = opened(searching, "lines", era)
    result = client.call("call_tool", arguments={"name": "old__ecko"})["result"]
    assert result["isError"] is True
    assert "old__echo" in result["content"][0]["text"]
    assert ("resultType" in result) == (era == "modern")
    assert client.call("old__ecko", arguments={})["error"]["code"] == -32602


# --- progress and cancellation


def test_progress_comes_under_the_clients_own_token_and_a_cancel_reaches_the_server(
    searching: Scratch, era: str
) -> None:
    client = opened(searching, "frames", era)
    inner = {"name": "count__once", "arguments": {"key": f"slow {era}", "delay": 60_000, "steps": 600}}
    client.begin_call("call_tool", "slow", arguments=inner, _meta={"progressToken": "mine"})
    assert client.client.next_called("notifications/progress")["params"]["progressToken"] == "mine"
    client.cancel("slow")
    ledger = searching.home / "ledger"
    until(lambda: f"cancelled slow {era}" in ledger.read_text(), "the server knows")


# --- modes


def test_auto_goes_by_the_number_of_tools_and_tells_when_it_is_passed(scratch: Scratch) -> None:
    client = scratch.serve({"change": server("changing")}, search_threshold=4).frames(mode="auto").initialized()
    assert len(client.tools()) == 4
    client.call("change__grow", name="fifth")
    client.next_called(CHANGED)
    assert client.tools() == FIVE
    # What it knows it may still call, by either way.
    assert text_of(client.call("change__fifth")) == "fifth"
    assert text_of(client.call("call_tool", name="change__fifth")) == "fifth"
    client.call("call_tool", name="change__shrink", arguments={"name": "fifth"})
    client.next_called(CHANGED)
    assert len(client.tools()) == 4


def test_the_bridge_decides_before_the_config(scratch: Scratch) -> None:
    scratch.serve({"change": server("changing")}, mode="search")
    assert scratch.frames().tools() == FIVE
    assert len(scratch.frames(mode="full").tools()) == 4
    assert {session["mode"] for session in scratch.status()["sessions"]} == {"search", "full"}


def test_a_mode_that_is_none_is_refused(scratch: Scratch) -> None:
    scratch.start()
    client = scratch.control()
    client.send_frame({"type": "hello", "protocol": 1, "version": "0", "pid": 1, "cwd": "/", "mode": "odd"})
    assert "--mode odd" in client.receive_type("error")[0]["message"]


def test_of_one_server_alone_tools_have_their_own_names(scratch: Scratch) -> None:
    scratch.serve({"change": server("changing"), "other": server("paging", 3)})
    client = scratch.frames(mode="search", server="change")
    client.initialize()
    assert client.tools() == FIVE
    found = text_of(client.call("find_tools", query="grow or tool_1"))
    assert "- grow" in found and "- tool_" not in found
    client.call("call_tool", name="grow", arguments={"name": "find_tools"})
    until(lambda: "- find_tools" in text_of(client.call("find_tools", query="find tools")), "its own is found")
    assert text_of(client.call("call_tool", name="find_tools")) == "find_tools"


# --- a real bridge


def test_after_the_daemon_is_killed_only_what_may_run_twice_is_called_again(scratch: Scratch) -> None:
    ledger = scratch.home / "ledger"
    daemon = scratch.serve({"count": server("counting", ledger, 100)})
    bridge = BridgeProcess(scratch.home, "--mode", "search", environment=scratch.environment())
    try:
        bridge.send(request("i", "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}))
        assert "find_tools" in bridge.read()["result"]["instructions"]
        bridge.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        for tool in ("once", "read"):
            bridge.send(request(tool, "tools/call", through(f"count__{tool}", key=tool, delay=60_000)))
        until(lambda: {"once once", "read read"} <= set(counted(ledger)), "both run")
        # Read once: the bridge removes the entry of a daemon that is gone.
        pid = daemon.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: is_gone(pid), "the daemon is dead")
        until(lambda: counted(ledger).count("read read") == 2, "the harmless one is called again")
        assert "may or may not have run" in answers_of(bridge, "once")["error"]["message"]
        assert counted(ledger).count("once once") == 1
    finally:
        bridge.close()
        scratch.control().control("shutdown")
        until(lambda: not pids_at_home(str(scratch.home)), "the last daemon has gone")


def request(id: object, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def through(name: str, **arguments: object) -> Message:
    return {"name": "call_tool", "arguments": {"name": name, "arguments": arguments}}


def counted(ledger: Path) -> list[str]:
    return ledger.read_text().splitlines() if ledger.exists() else []


def answers_of(bridge: BridgeProcess, id: object) -> Message:
    while True:
        message: Message = bridge.read()
        if message.get("id") == id:
            return message

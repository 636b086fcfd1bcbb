"""The bridge and the real daemon together, where each alone would say too little."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from support.daemon import Scratch, server
from support.kernel import until
from support.scripted_daemon import BridgeProcess

OPENING = {
    "jsonrpc": "2.0",
    "id": "opening",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def bridge_of(scratch: Scratch, **environment: str) -> BridgeProcess:
    return BridgeProcess(scratch.home, environment=scratch.environment(**environment))


@pytest.fixture
def bridge(scratch: Scratch) -> Iterator[BridgeProcess]:
    """A bridge to a daemon with the echo server, its handshake done."""
    scratch.serve({"echo": server("echo")})
    opened = bridge_of(scratch)
    try:
        opened.send(OPENING)
        assert "result" in opened.read()
        opened.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield opened
    finally:
        opened.close()


def call(id: object, tool: str, **arguments: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def test_a_message_of_many_lines_gets_one_answer_under_its_id(bridge: BridgeProcess) -> None:
    # The numbers of its lines, which are finished with it, would not fit into the header of one acknowledgement.
    message = call("long", "echo__echo", text="heard", padding=list(range(20_000)))
    bridge.write(json.dumps(message, indent=1).encode() + b"\n")
    answer = bridge.read()
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("long", "heard")
    bridge.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})
    bridge.end_input()
    assert [message["id"] for message in bridge.read_rest()] == ["last"]
    # Every line is finished, so nothing is owed: it ends at once and has nothing to tell.
    assert (bridge.wait(), bridge.stderr()) == (0, "")


def test_a_call_that_a_stopped_daemon_runs_later_is_not_said_not_to_have_run(scratch: Scratch) -> None:
    counts = scratch.home / "counts"
    pid = scratch.serve({"count": server("counting", counts)}).pid
    os.kill(pid, signal.SIGSTOP)
    bridge = bridge_of(scratch, HEARTH_BRIDGE_PATIENCE="0.5")
    try:
        bridge.send(OPENING, call(1, "count__once", key="k"))
        answers = {answer["id"]: answer for answer in (bridge.read(), bridge.read())}
        assert "may or may not have run" in answers[1]["error"]["message"]
        os.kill(pid, signal.SIGCONT)
        until(lambda: counts.exists() and "once k" in counts.read_text(), "the call ran")
    finally:
        os.kill(pid, signal.SIGCONT)
        bridge.close()

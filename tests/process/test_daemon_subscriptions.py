"""Subscriptions of modern clients: they outlive the daemon, and tell of every change, listed or not."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from support.clients import PREFIX, Message, modern
from support.daemon import Scratch, server
from support.kernel import is_gone, pids_at_home, until
from support.scripted_daemon import BridgeProcess

CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
ON_SUB = {f"{PREFIX}subscriptionId": "sub"}


def request(id: object, method: str, **params: object) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": modern(**params)}


def listen(**wanted: bool) -> Message:
    return request("sub", "subscriptions/listen", notifications=wanted or {"toolsListChanged": True})


@pytest.fixture
def started(scratch: Scratch) -> Scratch:
    """A daemon with a server that changes."""
    scratch.serve({"change": server("changing")})
    return scratch


def test_a_replayed_subscription_is_told_of_a_change_at_once_and_not_acknowledged_again(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen()).encode(), replay=True)
    heard = client.receive()
    assert (heard["method"], heard["params"]["_meta"]) == (CHANGED, ON_SUB)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []
    (key,) = next(header["keep"] for header in client.headers if "keep" in header)
    assert "sub" in key


def test_a_replayed_subscription_to_nothing_is_told_nothing(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen(madeUp=True)).encode(), replay=True)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_replayed_subscription_is_told_of_later_changes_too(started: Scratch) -> None:
    client, other = started.frames(), started.lines()
    other.tools()
    client.send_line(json.dumps(listen()).encode(), replay=True)
    client.next_called(CHANGED)
    other.call("change__grow", name="later")
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB


def test_a_subscription_that_is_sent_again_is_acknowledged(started: Scratch) -> None:
    client = started.frames()
    client.send_line(json.dumps(listen()).encode(), resent=True)
    heard = client.receive()
    assert (heard["method"], heard["params"]["_meta"]) == (ACKNOWLEDGED, ON_SUB)
    assert client.ask("server/discover", modern(), id="end")["result"]
    assert client.aside == []


def test_a_subscriber_that_never_listed_is_told_of_changes(started: Scratch, wire: str) -> None:
    client = started.lines() if wire == "lines" else started.frames()
    client.send(listen())
    client.next_called(ACKNOWLEDGED)
    other = started.lines()
    other.tools()
    client.next_called(CHANGED)
    other.call("change__grow", name="twig")
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB


def test_a_subscriber_that_never_listed_is_told_of_a_server_that_a_reload_adds(started: Scratch) -> None:
    client = started.frames()
    client.send(listen())
    client.next_called(ACKNOWLEDGED)
    started.configure({"change": server("changing"), "echo": server("echo")})
    assert started.control().control("reload")[0]["ok"] is True
    assert client.next_called(CHANGED)["params"]["_meta"] == ON_SUB
    tools = client.ask("tools/list", modern())["result"]["tools"]
    assert "echo__echo" in [tool["name"] for tool in tools]


# --- with the real bridge


@pytest.fixture
def bridge(started: Scratch) -> Iterator[BridgeProcess]:
    """A bridge; the daemons that it starts go with it."""
    opened = BridgeProcess(started.home, environment=started.environment())
    try:
        yield opened
    finally:
        opened.close()
        if pids_at_home(str(started.home)):
            started.control().control("shutdown")
            until(lambda: not pids_at_home(str(started.home)), "the last daemon has gone")


def next_called(bridge: BridgeProcess, method: str) -> Message:
    """The next message, which must be that notification: nothing else has any business here."""
    message: Message = bridge.read()
    assert message.get("method") == method, message
    return message


def test_a_bridge_carries_a_subscription_over_the_death_of_its_daemon(started: Scratch, bridge: BridgeProcess) -> None:
    bridge.send(request(1, "tools/list"))
    assert "result" in bridge.read()
    bridge.send(listen())
    next_called(bridge, ACKNOWLEDGED)
    pid = started.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid), "the daemon is dead")
    assert next_called(bridge, CHANGED)["params"]["_meta"] == ON_SUB
    bridge.send(request(2, "tools/list"))
    # The first list of the new daemon is a change, too, and may be told before it is given.
    while (message := bridge.read()).get("id") != 2:
        assert message["method"] == CHANGED
    started.lines().call("change__grow", name="twig")
    assert next_called(bridge, CHANGED)["params"]["_meta"] == ON_SUB

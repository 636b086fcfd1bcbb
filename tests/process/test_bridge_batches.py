"""A batch whose daemon dies: what is run again, and what of it outlives the daemon."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from support.batches import REVISION, Bridged, call, ledger, notice, received, request, send
from support.clients import Client, Message, text_of
from support.conformance.upstreams import offer
from support.conformance.wires import SERVER
from support.daemon import Scratch, server
from support.kernel import is_gone, pids_at_home, until

UPDATED = "notifications/resources/updated"


@pytest.fixture
def counted(scratch: Scratch) -> Scratch:
    """A daemon with a server that keeps the count, over all daemons of this home, and one that has resources."""
    words = ["-I", "-S", str(SERVER), REVISION, str(scratch.home / "complaints")]
    scratch.serve(
        {"count": server("counting", scratch.home / "ledger"), "things": {"command": sys.executable, "args": words}}
    )
    return scratch


@pytest.fixture
def survivor(counted: Scratch) -> Iterator[Bridged]:
    """A client of a bridge; the daemons that this starts go with it."""
    with Bridged(counted) as opened:
        yield opened
    if pids_at_home(str(counted.home)):
        counted.control().control("shutdown")
        until(lambda: not pids_at_home(str(counted.home)), "the last daemon has gone")


def kill_daemon(scratch: Scratch) -> None:
    pid = scratch.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid), "the daemon is dead")


def received_after_changes(client: Client) -> dict[Any, Message]:
    """The array; a session that has met another daemon may be told before that all its lists are others."""
    while isinstance(found := json.loads(client.receive_line()), dict):
        assert found["method"].endswith("/list_changed")
    return {member["id"]: member for member in found}


def test_members_that_a_dead_daemon_may_have_run_are_run_again_only_where_that_is_safe(
    counted: Scratch, survivor: Bridged
) -> None:
    survivor.initialize(REVISION)
    send(
        survivor,
        call(1, "count__read", key="r", delay=2000),
        call(2, "count__once", key="o", delay=600_000),
        request(3, "ping"),
    )
    until(lambda: {"read r", "once o"} <= set(ledger(counted)), "both run")
    kill_daemon(counted)
    answers = received_after_changes(survivor)
    assert text_of(answers[1]) == "read r"
    assert "may or may not have run" in answers[2]["error"]["message"]
    assert answers[3]["result"] == {}
    runs = [line for line in ledger(counted) if not line.startswith("started")]
    assert sorted(runs) == ["once o", "read r", "read r"]
    assert survivor.ask("ping", id="end")["result"] == {}


def test_what_lasts_of_a_batch_is_replayed_and_nothing_else_of_it(counted: Scratch, survivor: Bridged) -> None:
    opening = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    survivor.ask("initialize", opening)
    send(survivor, notice("notifications/initialized"), call(1, "count__read", key="r"))
    assert set(received(survivor)) == {1}
    kill_daemon(counted)
    # Only a session that is known to be initialized is told; and its revision is still known.
    assert survivor.receive()["method"] == "notifications/tools/list_changed"
    send(survivor, request(2, "ping"))
    assert set(received_after_changes(survivor)) == {2}
    assert [line for line in ledger(counted) if line.startswith("read")] == ["read r"]


def test_of_two_subscriptions_in_a_batch_the_one_that_was_not_given_up_survives_the_daemon(
    counted: Scratch, survivor: Bridged
) -> None:
    survivor.initialize(REVISION)
    first, second = offer.uri(REVISION, "one"), offer.uri(REVISION, "two")
    send(survivor, request("a", "resources/subscribe", uri=first), request("b", "resources/subscribe", uri=second))
    assert [answer["result"] for answer in received_after_changes(survivor).values()] == [{}, {}]
    assert survivor.ask("resources/unsubscribe", {"uri": first})["result"] == {}
    kill_daemon(counted)

    def updates_after_touching(*uris: str) -> list[str]:
        for uri in uris:
            assert survivor.call("things__touch", uri=uri)["result"]
        heard, survivor.aside = survivor.aside, []
        return [message["params"]["uri"] for message in heard if message.get("method") == UPDATED]

    until(lambda: updates_after_touching(second), "the new daemon has subscribed again")
    assert set(updates_after_touching(first, second, second)) == {second}


def test_members_are_kept_by_themselves_before_their_batch_is_answered(counted: Scratch) -> None:
    client = counted.frames().initialized(REVISION)
    level = request("l", "logging/setLevel", level="error")
    send(client, level, request("p", "ping"), notice("notifications/initialized"))
    kept = {}
    for _ in range(2):
        header, payload = client.receive_type("keep")
        assert header["seq"] == client.seq
        kept[header["key"]] = json.loads(payload)
    assert kept == {"logLevel": level, "initialized": notice("notifications/initialized")}
    assert set(received(client)) == {"l", "p"}
    assert client.headers[-1] == {"type": "mcp", "re": client.seq}

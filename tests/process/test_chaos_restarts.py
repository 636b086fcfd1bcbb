"""The daemon is asked to restart, politely: that costs no call at all, whoever is at work or just coming in."""

import os
import random
import time

import pytest

from support.chaos.client import Client
from support.chaos.frames import Framed, restart, status
from support.chaos.home import Home
from support.chaos.load import chosen_seed, settle, start, under_load
from support.kernel import until

BRIDGES = 8
RESTARTS = max(3, int(os.environ.get("HEARTH_CHAOS_KILLS") or 0) // 3)
LIMIT_SECONDS = 60 + 10 * RESTARTS
LONGEST_LIFE_SECONDS = 0.7


@pytest.mark.timeout(LIMIT_SECONDS)
def test_a_daemon_that_restarts_politely_under_load_costs_no_error_at_all(home: Home) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    with under_load(home, seed, BRIDGES) as loads:
        start(loads)
        for _ in range(RESTARTS):
            former = home.wait_for_daemon()
            time.sleep(chance.uniform(0, LONGEST_LIFE_SECONDS))
            restart(home)
            home.wait_for_daemon(other_than=former)
        settle(home, loads)
        assert [error for load in loads for error in load.errors()] == []


def test_the_end_of_a_control_connection_tells_that_daemon_and_servers_are_gone(home: Home) -> None:
    client = Client(home)
    try:
        client.greet()
        client.text(client.call("read", key="any"))
        servers = home.upstreams()
        client.leave()
        restart(home)
        assert servers and home.upstreams() == []
    finally:
        client.discard()


def test_who_comes_in_while_the_daemon_goes_is_sent_on_before_anything_of_it_is_looked_at(home: Home) -> None:
    client = Client(home)
    try:
        client.greet()
        slow = client.call("once", key="slow", delay=600)
        until(lambda: "once slow" in home.noted(), "the call runs")
        with Framed(home) as newcomer, Framed(home) as control:
            # Accepted in the order of their coming: an answer to the second one tells that the first is in.
            control.send(type="status", seq=1)
            control.receive("status")
            control.send(type="shutdown", seq=2, restart=True)
            until(lambda: "shutting down" in home.log.read_text(), "the daemon goes")
            newcomer.greet(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__once"}}')
            goodbye, _ = newcomer.receive("goodbye")
            assert (goodbye["reconnect"], goodbye["taken"]) == (True, 0)
        assert client.text(slow) == "once slow"
        assert client.text(client.call("once", key="next")) == "once next"
        assert status(home)["sessions"][0]["pid"] == client.pid
        assert [line for line in home.noted() if line.startswith("once")] == ["once slow", "once next"]
    finally:
        client.discard()

"""A hundred bridges, started at the same moment where no daemon runs: they must meet in one."""

import contextlib
from collections.abc import Iterator

from support.chaos.client import Client
from support.chaos.frames import status
from support.chaos.home import BRIDGE, Home
from support.chaos.load import expect_nobody_else
from support.daemon import server_command

BRIDGES = 100
# A shell waits for the first line and becomes a bridge then: a hundred lines are written in no time.
_GATED = ["/bin/sh", "-c", 'read _ && exec "$@"', "gate"]


@contextlib.contextmanager
def crowd(home: Home) -> Iterator[list[Client]]:
    """So many clients, whose bridges all begin when the last one is ready to."""
    clients: list[Client] = []
    try:
        clients += [Client(home, [*_GATED, *BRIDGE]) for _ in range(BRIDGES)]
        for client in clients:
            client.write(b"\n")
        yield clients
    finally:
        for client in clients:
            client.discard()


def test_a_hundred_bridges_at_once_light_one_daemon_and_all_get_their_answers(home: Home) -> None:
    home.configure({"counting": server_command("counting", str(home.notes)), "echo": server_command("echo")})
    with crowd(home) as clients:
        openings = [client.open() for client in clients]
        lists = [client.request("tools/list") for client in clients]
        calls = [client.call("once", key=f"crowd.{client.pid}") for client in clients]
        texts = [client.text(call) for client, call in zip(clients, calls, strict=True)]
        assert texts == [f"once crowd.{client.pid}" for client in clients]
        for client, listing in zip(clients, lists, strict=True):
            assert len(client.result(listing)["tools"]) == 5
        document = status(home)
        for client, opening in zip(clients, openings, strict=True):
            assert client.result(opening)["_meta"]["hearth/daemonId"] == document["daemonId"]
        assert home.daemons() == [home.daemon()] == [document["pid"]]
        assert [len(upstream["pids"]) for upstream in document["upstreams"]] == [1, 1]
        assert len(document["sessions"]) == BRIDGES
        expect_nobody_else(home, clients)
        noted = home.noted()
        assert sum(line.startswith("started ") for line in noted) == 1
        assert len(noted) == len(set(noted)) == BRIDGES + 1

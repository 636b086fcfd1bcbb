"""Sessions that begin before any server runs: listed is what servers offered when they last ran."""

import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.clients import Client, modern, text_of
from support.daemon import Scratch, pids_of, server
from support.kernel import until

CHANGED = "notifications/tools/list_changed"
FAST, SLOW = 12, 5


class Troupe:
    """Gated servers in a scratch home, and what the test lets them do."""

    def __init__(self, scratch: Scratch) -> None:
        self._home = scratch.home
        self.ledger = scratch.home / "ledger"
        self.gate = scratch.home / "gate"
        self.ledger.touch()
        self.gate.touch()

    def entry(self, name: str, *words: object, tools: str = "t", **keys: object) -> dict[str, object]:
        self.set_tools(name, tools)
        return server("gated", self.ledger, name, self._tools(name), *words, **keys)

    def _tools(self, name: str) -> Path:
        return self._home / f"{name}.tools"

    def set_tools(self, name: str, tools: str) -> None:
        self._tools(name).write_text(tools)

    @contextmanager
    def closed_gate(self) -> Iterator[None]:
        with open(self.gate) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def started(self) -> list[str]:
        """The names of all servers that were ever started."""
        return [line.split()[0] for line in self.ledger.read_text().splitlines()]


@pytest.fixture
def troupe(scratch: Scratch) -> Troupe:
    return Troupe(scratch)


def running(scratch: Scratch) -> list[str]:
    """The servers that this daemon has tried; one that failed under a former daemon is `failed` without that."""
    tried = [item for item in scratch.status()["upstreams"] if item["instances"]]
    return [item["name"] for item in tried if item["state"] != "stopped"]


def wait_for_tools(client: Client, wanted: set[str]) -> None:
    """Ask for the list whenever it is said to have changed, until these are on it."""
    while not wanted <= set(client.tools()):
        client.next_called(CHANGED)


def test_twenty_servers_of_which_some_are_slow_and_some_never_start(scratch: Scratch, troupe: Troupe) -> None:
    entries = {f"fast{number}": troupe.entry(f"fast{number}") for number in range(FAST)}
    entries |= {f"slow{number}": troupe.entry(f"slow{number}", troupe.gate) for number in range(SLOW)}
    # One that is not there, one that ends at once, and one that never answers.
    entries["absent"] = {"command": "/nowhere/server"}
    entries["ending"] = {"command": "/bin/sh", "args": ["-c", "exit 3"]}
    entries["silent"] = server("silent")
    # Every later list would wait for as long as any test may take.
    scratch.configure(entries, list_timeout=3)
    known = {f"{name}__t" for name in entries if name.startswith(("fast", "slow"))}
    slow = {name for name in known if name.startswith("slow")}

    daemon = scratch.start()
    client = scratch.lines()
    with troupe.closed_gate():
        client.initialize()
        # The first run: bounded, without the stragglers.
        assert not slow & set(client.tools())
    wait_for_tools(client, known)
    client.close()
    daemon.stop()

    troupe.ledger.write_text("")
    scratch.configure(entries, list_timeout=3600)
    with troupe.closed_gate():
        daemon = scratch.start()
        for _ in range(2):
            client = scratch.lines()
            assert "This is slow4." in client.initialize()["instructions"]
            assert set(client.tools()) == known
            assert {tool["name"] for tool in scratch.lines().ask("tools/list", modern())["result"]["tools"]} == known
        # Only what has never said what it offers is worth a try: the silent one.
        assert set(running(scratch)) <= {"silent"}
        assert troupe.started() == []
    assert text_of(client.call("slow3__t")) == "slow3"
    assert troupe.started() == ["slow3"]


def test_what_has_changed_meanwhile_is_announced_when_the_server_runs(scratch: Scratch, troupe: Troupe) -> None:
    daemon = scratch.serve({"x": troupe.entry("x", tools="a b")})
    assert scratch.lines().tools() == ["x__a", "x__b"]
    daemon.stop()
    troupe.set_tools("x", "b c")
    daemon = scratch.start()
    client = scratch.lines().initialized()
    assert client.tools() == ["x__a", "x__b"]
    assert text_of(client.call("x__b")) == "x"
    client.next_called(CHANGED)
    assert client.tools() == ["x__b", "x__c"]
    daemon.stop()
    scratch.start()
    assert scratch.lines().tools() == ["x__b", "x__c"]
    assert troupe.started() == ["x", "x"]


def test_a_call_does_not_wait_for_lists_that_are_known(scratch: Scratch, troupe: Troupe) -> None:
    daemon = scratch.serve({"x": troupe.entry("x", troupe.gate, "tools/list")})
    assert scratch.lines().tools() == ["x__t"]
    daemon.stop()
    scratch.start()
    client = scratch.lines().initialized()
    troupe.set_tools("x", "t u")
    with troupe.closed_gate():
        assert text_of(client.call("x__t")) == "x"
        assert client.tools() == ["x__t"]
    client.next_called(CHANGED)
    assert client.tools() == ["x__t", "x__u"]


def test_one_server_alone_is_what_it_was_before_it_runs(scratch: Scratch, troupe: Troupe) -> None:
    daemon = scratch.serve({"x": troupe.entry("x")})
    assert scratch.frames(server="x").tools() == ["t"]
    daemon.stop()
    scratch.start()
    client = scratch.frames(server="x")
    result = client.initialize()
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["instructions"] == "This is x."
    assert client.tools() == ["t"]
    assert client.ask("server/discover", modern())["result"]["instructions"] == "This is x."
    assert troupe.started() == ["x"]


def test_another_value_behind_a_reference_is_another_server(scratch: Scratch, troupe: Troupe) -> None:
    scratch.configure({"x": troupe.entry("x", tools="a", env={"TOKEN": "${TOKEN}"})})
    daemon = scratch.start(TOKEN="one")
    assert scratch.lines().tools() == ["x__a"]
    daemon.stop()
    troupe.set_tools("x", "b")
    daemon = scratch.start(TOKEN="two")
    assert scratch.lines().tools() == ["x__b"]
    daemon.stop()
    scratch.start(TOKEN="one")
    assert scratch.lines().tools() == ["x__a"]
    assert troupe.started() == ["x", "x"]


def test_a_catalogue_that_was_tampered_with_is_found_out_anew(scratch: Scratch, troupe: Troupe) -> None:
    daemon = scratch.serve({"x": troupe.entry("x")})
    assert scratch.lines().tools() == ["x__t"]
    daemon.stop()
    (file,) = (scratch.home / ".local/state/hearth/catalogue/mcp").iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    scratch.start()
    assert scratch.lines().tools() == ["x__t"]
    assert troupe.started() == ["x", "x"]


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_the_memory(scratch: Scratch, troupe: Troupe) -> None:
    scratch.configure({"x": troupe.entry("x")})
    (scratch.home / ".local/state/hearth").mkdir(parents=True)
    (scratch.home / ".local/state/hearth/catalogue").write_text("in the way")
    for _ in range(2):
        daemon = scratch.start()
        assert scratch.lines().tools() == ["x__t"]
        assert scratch.logged().count("catalog cache cannot be") >= 1
        daemon.stop()
    assert troupe.started() == ["x", "x"]


def test_an_eager_server_runs_before_anybody_calls_it_and_comes_back(scratch: Scratch, troupe: Troupe) -> None:
    scratch.serve(
        {"x": troupe.entry("x", start="eager", instance_idle=0.05), "y": troupe.entry("y")}, heartbeat_interval=0.05
    )
    (pid,) = pids_of(scratch, "x")
    client = scratch.lines()
    assert text_of(client.call("x__t")) == "x"
    client.close()
    until(lambda: not scratch.status()["sessions"], "the client has left")
    os.kill(pid, signal.SIGKILL)
    until(lambda: pids_of(scratch, "x") != [pid], "it was started again")
    assert set(troupe.started()) == {"x"}


def test_an_eager_server_of_each_session_is_started_with_the_session(scratch: Scratch, troupe: Troupe) -> None:
    scratch.serve({"x": troupe.entry("x", start="eager", isolation="session")})
    assert running(scratch) == []
    scratch.lines().initialize()
    pids_of(scratch, "x")
    scratch.lines().ask("server/discover", modern())
    until(lambda: len(scratch.upstream("x")["pids"]) == 2, "one for each of two sessions")

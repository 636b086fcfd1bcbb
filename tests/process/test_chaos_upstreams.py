"""Servers under load are killed at random: nobody loses more than the calls that were inside of them.

`make chaos` goes on for two minutes (HEARTH_CHAOS_SECONDS); HEARTH_CHAOS_SEED repeats the mix.
"""

import contextlib
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.chaos.client import Message
from support.chaos.frames import status
from support.chaos.home import Home, kill
from support.chaos.load import Load, chosen_seed, settle, start
from support.chaos.reckoning import Request
from support.daemon import server_command
from support.kernel import until

SERVERS = [f"s{number}" for number in range(10)]
# These take one call at a time: whoever waits for its turn is not inside.
NARROW = SERVERS[-2:]
CLIENTS = 4
SECONDS = float(os.environ.get("HEARTH_CHAOS_SECONDS") or 5)
LONGEST_PAUSE_SECONDS = 0.3
_DELAYS_MS = (0, 0, 1, 5, 20, 80)


@dataclass
class Sent(Request):
    """A call to one of the servers."""

    server: str = ""

    def is_excused(self, sentence: str) -> bool:
        """Only by the death of the server that had it, while it had it."""
        inside = rf"server '{self.server}' ended \(signal 9\) before it answered"
        return self.exposed and re.fullmatch(inside, sentence) is not None


class Scattered(Load):
    """A client whose calls go to all servers."""

    def __init__(self, home: Home, name: str, seed: str) -> None:
        super().__init__(home, name, seed, {})
        self._endangered: set[str] = set()

    def endanger(self, name: str, yes: bool) -> None:
        """From now on that server may die, or no longer."""
        with self._books:
            (self._endangered.add if yes else self._endangered.discard)(name)
            for request in self.open.values():
                request.exposed = request.exposed or self._is_exposed(request)

    def _is_exposed(self, request: Request) -> bool:
        return isinstance(request, Sent) and request.server in self._endangered

    def _make(self) -> Request:
        self._count += 1
        kind = self._random.choice(("read", "put", "once"))
        return Sent(self._count, kind, f"{self._name}.{self._count}", server=self._random.choice(SERVERS))

    def _message(self, request: Request) -> Message:
        assert isinstance(request, Sent)
        arguments: dict[str, Any] = {"key": request.key, "delay": self._random.choice(_DELAYS_MS)}
        params = {"name": f"{request.server}__{request.kind}", "arguments": arguments}
        return {"id": request.id, "method": "tools/call", "params": params}


def pids(home: Home) -> dict[str, list[int]]:
    """The processes of each server, as the daemon knows them."""
    return {upstream["name"]: upstream["pids"] for upstream in status(home)["upstreams"]}


@contextlib.contextmanager
def at_work(home: Home, seed: int) -> Iterator[list[Scattered]]:
    """Clients with open sessions, each of which has seen the tools and had an answer of each server."""
    loads = [Scattered(home, f"c{number}", f"{seed}/{number}") for number in range(CLIENTS)]
    try:
        for load in loads:
            load.client.greet()
            assert len(load.client.result(load.client.request("tools/list"))["tools"]) == 3 * len(SERVERS)
        for name in SERVERS:
            first = loads[0].client
            first.result(first.request("tools/call", name=f"{name}__read", arguments={"key": "first"}))
        for load in loads:
            # The books begin here: what was asked before has its answer.
            load.client.received.clear()
            load._count = 1000
        yield loads
    finally:
        for load in loads:
            load.discard()


def kill_one(home: Home, name: str, loads: list[Scattered]) -> bool:
    """Kill a server's process, started or still starting; whether there was one."""
    for load in loads:
        load.endanger(name, True)
    try:
        for pid in pids(home)[name]:
            with contextlib.suppress(ProcessLookupError):
                kill(pid)
                # Until then calls are still written into its pipe, and nobody can know how far they came.
                until(lambda pid=pid: pid not in pids(home)[name], "the daemon knows that it is dead")
                return True
        return False
    finally:
        for load in loads:
            load.endanger(name, False)


@pytest.mark.timeout(120 + 2 * SECONDS)
def test_servers_that_are_killed_at_random_cost_the_calls_inside_of_them_and_no_other(home: Home) -> None:
    counting = server_command("counting", str(home.notes))
    home.configure(dict.fromkeys(SERVERS, counting), dict.fromkeys(NARROW, "max_concurrency = 1"))
    seed = chosen_seed()
    chance = random.Random(seed)
    with at_work(home, seed) as loads:
        start(list(loads))
        end, kills = time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            kills += kill_one(home, chance.choice(SERVERS), loads)
            time.sleep(chance.uniform(0, LONGEST_PAUSE_SECONDS))
        received = [message for load in loads for message in load.client.received]
        assert not [message for message in received if "list_changed" in message.get("method", "")]
        settle(home, list(loads))
        asked = sum(len(load.asked) for load in loads)
        errors = sum(len(load.errors()) for load in loads)
        print(f"{asked} calls, {kills} kills, {errors} calls inside")
        assert kills and asked > kills

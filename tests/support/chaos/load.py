"""The load: a client that sends a random mix, pipelined, with cancels and progress, and keeps the books about it.

Everything that is sent is entered before it is written, so that a look at `open` shows whatever a daemon may have.
"""

import contextlib
import os
import random
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from support.chaos.client import Client, Message
from support.chaos.frames import status
from support.chaos.home import Home, parent
from support.chaos.reckoning import Request, name_of, violations, wrong_runs
from support.kernel import BOUND_SECONDS, until

PIPELINED = 8
# So many messages a second from each client: enough to have something in flight at any moment, and two cores alive.
PAUSE_SECONDS = 0.008
_MIX = {"read": 5, "put": 5, "once": 8, "list": 1, "ping": 2}
# The id of `initialize`, which the client itself looks after.
_OPENING = 1
_CANCEL_SHARE = 0.06
_PROGRESS_SHARE = 0.2
# Most calls are quick; some are long enough to be caught by a death for sure.
_DELAYS_MS = (0, 0, 1, 5, 20, 80)


class Load:
    """One client at work, in a thread of its own."""

    def __init__(self, home: Home, name: str, seed: str, environment: dict[str, str]) -> None:
        self.client = Client(home, environment=environment)
        self.client.on_message = self._receive
        self.asked: list[Request] = []
        self.open: dict[str, Request] = {}
        self._name = name
        self._random = random.Random(seed)
        self._room = threading.Semaphore(PIPELINED)
        self._books = threading.Lock()
        self._exposed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._count = _OPENING

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more, and wait until every request that was not withdrawn is answered."""
        self._stop.set()
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive(), "a client is stuck"
        until(lambda: not self._waiting() or self.client.process.poll() is not None, f"{self._name} has answers")

    def discard(self) -> None:
        """End the bridge without ceremony, if it is still there."""
        self._stop.set()
        self.client.discard()

    def _waiting(self) -> list[Request]:
        with self._books:
            return [request for request in self.open.values() if not request.cancelled]

    def expose(self, yes: bool) -> None:
        """From now on a daemon may die, or no longer."""
        with self._books:
            self._exposed = yes
            for request in self.open.values():
                request.exposed = request.exposed or yes

    def _is_exposed(self, request: Request) -> bool:
        return self._exposed

    # --- sending

    def _work(self) -> None:
        while not self._stop.is_set():
            if not self._room.acquire(timeout=PAUSE_SECONDS):
                continue
            request = self._make()
            with self._books:
                request.exposed = self._is_exposed(request)
                self.asked.append(request)
                self.open[name_of(request.id)] = request
            self.client.send(self._message(request))
            if self._random.random() < _CANCEL_SHARE:
                self._cancel_one()
            self._stop.wait(self._random.random() * 2 * PAUSE_SECONDS)

    def _make(self) -> Request:
        self._count += 1
        id = self._random.choice((self._count, f"{self._name}-{self._count}"))
        kind = self._random.choices(list(_MIX), list(_MIX.values()))[0]
        token = f"token-{self._count}" if self._random.random() < _PROGRESS_SHARE else None
        request = Request(id, kind, f"{self._name}.{self._count}")
        if request.is_call:
            request.token = token
        return request

    def _message(self, request: Request) -> Message:
        if not request.is_call:
            return {"id": request.id, "method": {"list": "tools/list", "ping": "ping"}[request.kind]}
        arguments: dict[str, Any] = {"key": request.key, "delay": self._random.choice(_DELAYS_MS)}
        params: dict[str, Any] = {"name": f"counting__{request.kind}", "arguments": arguments}
        if request.token:
            arguments["steps"] = 2
            params["_meta"] = {"progressToken": request.token}
        return {"id": request.id, "method": "tools/call", "params": params}

    def _cancel_one(self) -> None:
        with self._books:
            if not self.open:
                return
            request = self._random.choice(list(self.open.values()))
            if request.cancelled:
                return
            request.cancelled = True
        # It may never be answered, so its place is given away at once.
        self._room.release()
        self.client.cancel(request.id)

    # --- receiving

    def _receive(self, message: Message) -> None:
        if "method" in message or "id" not in message:
            return
        with self._books:
            request = self.open.pop(name_of(message["id"]), None)
        if request and not request.cancelled:
            self._room.release()

    # --- the books

    def exposed_calls(self) -> int:
        """How many calls were in flight when a daemon died; what was withdrawn does not count."""
        return sum(request.exposed and request.is_call and not request.cancelled for request in self.asked)

    def errors(self) -> list[Message]:
        """The errors that came; to what was withdrawn, an error is as good as silence."""
        withdrawn = {name_of(request.id) for request in self.asked if request.cancelled}
        failed = [message for message in self.client.received if "error" in message]
        return [message for message in failed if name_of(message["id"]) not in withdrawn]

    def violations(self) -> Iterator[str]:
        """What is wrong with this client's conversation."""
        received = [message for message in self.client.received if message.get("id") != _OPENING]
        yield from violations(self.asked, received)
        yield from (f"{self._name} got a line that is no message: {line!r}" for line in self.client.garbage)
        if self.client.process.poll() is not None:
            yield f"the bridge of {self._name} has exited with {self.client.process.returncode}"

    def answered_keys(self) -> set[str]:
        """The keys of the requests that have a result."""
        names = {name_of(message["id"]) for message in self.client.received if "result" in message}
        return {request.key for request in self.asked if name_of(request.id) in names}


def reckon(loads: Iterable[Load], notes: list[str]) -> list[str]:
    """Every violation of every client, and of the server's notes."""
    found: list[str] = []
    for load in loads:
        found += load.violations()
        found += wrong_runs(load.asked, load.answered_keys(), notes)
    return found


def start(loads: list[Load]) -> None:
    """Put all to work."""
    for load in loads:
        load.start()


def settle(home: Home, loads: list[Load]) -> None:
    """Stop the load, wait for what is owed, and judge: nothing may be wrong, and nobody left over."""
    for load in loads:
        load.stop()
    found = reckon(loads, home.noted())
    assert not found, f"{len(found)} violations:\n" + "\n".join(found[:20])
    expect_nobody_else(home, [load.client for load in loads])
    assert [load.client.leave() for load in loads] == [0] * len(loads)


def expect_nobody_else(home: Home, clients: list[Client]) -> None:
    """One daemon with its watcher, and its servers with their children, are there besides the bridges: nobody else."""
    document = status(home)
    daemon, bridges = document["pid"], {client.pid for client in clients}
    servers = {pid for upstream in document["upstreams"] for pid in upstream["pids"]}
    expected = {daemon, parent(daemon), *servers, *bridges}

    def strangers() -> dict[int, str]:
        found = home.processes().items()
        return {pid: command for pid, command in found if pid not in expected and parent(pid) not in servers}

    # The watcher of a daemon that was just killed may be about to bury its servers.
    until(lambda: not strangers(), f"only {expected} are left; besides them: {strangers()}")
    assert expected <= set(home.processes())


@contextlib.contextmanager
def under_load(home: Home, seed: int, clients: int, environment: dict[str, str] | None = None) -> Iterator[list[Load]]:
    """So many clients, with open sessions; whoever is `start`ed is at work."""
    names = [f"c{number}" for number in range(clients)]
    loads = [Load(home, name, f"{seed}/{name}", environment or {}) for name in names]
    try:
        for load in loads:
            load.client.greet()
        yield loads
    finally:
        for load in loads:
            load.discard()


@contextlib.contextmanager
def death(loads: list[Load]) -> Iterator[None]:
    """Around the death of a daemon: whatever is in flight at its beginning, or sent before its end, may be lost."""
    for load in loads:
        load.expose(True)
    yield
    for load in loads:
        load.expose(False)


def chosen_seed() -> int:
    """The seed of this run, printed so that it can be given again as HEARTH_CHAOS_SEED."""
    seed = int(os.environ.get("HEARTH_CHAOS_SEED") or int.from_bytes(os.urandom(3)))
    print(f"HEARTH_CHAOS_SEED={seed}")
    return seed

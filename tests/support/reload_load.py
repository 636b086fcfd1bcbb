"""Calls, a thousand at a time, while the config under them changes; and what may have become of each."""

import random
import re
import signal
from collections import Counter
from typing import NamedTuple

from support.clients import FramesClient, Message, text_of
from support.daemon import Daemon, Scratch, pids_of, server
from support.kernel import until

CLIENTS = 10
CALLS = 1000
# Long enough that the last of a thousand calls has begun before the first is answered, also on a busy machine …
SHORTEST_MS, LONGEST_MS = 1500, 4000
# … and longer than a server that is taken away may go on.
DRAIN_SECONDS = 1.0

# What stays is never touched; of the others some calls may fail, and this is how.
STAYING = ("steady", "apart")
PASSING = ("changing", "passing")
CLEAR = re.compile(
    r"unknown tool: passing__once"
    r"|server 'passing' was taken out of the config before it was ready"
    r"|server '(passing|changing)' is ended, for another config or because somebody restarts it,"
    r" .* \(drain_timeout\); .*"
)


class Sent(NamedTuple):
    """A call that waits for its answer."""

    client: FramesClient
    id: object
    server: str
    key: str


class Load:
    """A daemon with servers that stay and servers that do not, and ten clients."""

    def __init__(self, scratch: Scratch, seed: int) -> None:
        self._scratch = scratch
        self._chance = random.Random(seed)
        self._revision = 0
        self._ledgers = {name: scratch.home / f"{name}.ledger" for name in (*STAYING, *PASSING)}
        self._write(passing=True)
        self._daemon: Daemon = scratch.start()
        self._clients = [scratch.frames() for _ in range(CLIENTS)]
        for client in self._clients:
            client.tools()
        self.sent: list[Sent] = []
        self.pids = {name: sorted(pids_of(scratch, name)) for name in STAYING}

    def _write(self, passing: bool) -> None:
        """Another config: one server has other arguments each time, one a key of Hearth's own, one comes and goes."""
        self._revision += 1
        entries = {
            "steady": server("counting", self._ledgers["steady"], call_timeout=1000 + self._revision),
            "changing": server("counting", self._ledgers["changing"], self._revision),
            "apart": server("counting", self._ledgers["apart"], isolation="session"),
        }
        if passing:
            entries["passing"] = server("counting", self._ledgers["passing"])
        names = self._chance.sample(list(entries), len(entries))
        self._scratch.configure({name: entries[name] for name in names}, drain_timeout=DRAIN_SECONDS)

    def call(self, count: int) -> None:
        """Begin so many calls, of all clients to all servers."""
        for number in range(count):
            client = self._clients[number % CLIENTS]
            name = self._chance.choice([*STAYING, *PASSING])
            key = f"k{len(self.sent)}"
            id = client.begin_call(f"{name}__once", key=key, delay=self._chance.randint(SHORTEST_MS, LONGEST_MS))
            self.sent.append(Sent(client, id, name, key))

    def in_flight(self) -> int:
        """How many calls the daemon has not answered."""
        return sum(session["inFlight"] for session in self._scratch.status()["sessions"])

    def reload(self, passing: bool, by_signal: bool = False) -> None:
        """Have another config in force."""
        before = self._scratch.status()["configHash"]
        self._write(passing)
        if by_signal:
            self._daemon.signal(signal.SIGHUP)
            until(lambda: self._scratch.status()["configHash"] != before, "the signal was heard")
        else:
            assert self._scratch.control().control("reload")[0]["ok"] is True

    def break_config(self) -> None:
        """Ask for a reload that is refused."""
        self._scratch.write_config("drain_timeout = [\n")
        assert self._scratch.control().control("reload")[0]["ok"] is False

    def settle(self) -> Counter[str]:
        """Take every answer, and see that each is what may be; returns how many of each server's calls failed."""
        failed: Counter[str] = Counter()
        for sent in self.sent:
            answer = sent.client.answer_to(sent.id)
            if "result" in answer:
                assert text_of(answer) == f"once {sent.key}"
            else:
                self._check_failure(sent, answer["error"])
                failed[sent.server] += 1
        assert all("method" in message for client in self._clients for message in client.aside), "answered twice"
        self._check_ledgers()
        return failed

    def _check_failure(self, sent: Sent, error: Message) -> None:
        assert sent.server in PASSING, (sent, error)
        assert CLEAR.fullmatch(error["message"]), (sent, error)

    def _check_ledgers(self) -> None:
        for name, ledger in self._ledgers.items():
            run = Counter(line.split()[1] for line in ledger.read_text().splitlines() if line.startswith("once "))
            wanted = {sent.key for sent in self.sent if sent.server == name}
            assert set(run.values()) <= {1}, "nothing ran twice"
            assert run.keys() <= wanted
            if name in STAYING:
                assert run.keys() == wanted
                assert sorted(pids_of(self._scratch, name)) == self.pids[name], "nobody touched it"

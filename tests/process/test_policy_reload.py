"""The policy file, replaced a thousand times under load: each call is decided by one version of it, and none is lost.

The two versions have no role in common. Red may not echo and blue may not add, so that a decision with the role of one
and the rules of the other would be neither of the two answers that each call may have.
"""

import json
import os
import threading
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from support.clients import FramesClient, Message
from support.daemon import Daemon, Scratch
from support.policies import Team

CLIENTS = 3
# Each replaces the file six times.
ROUNDS, WARM_ROUNDS = 170, 17
# Rules that match nothing, so that a policy which is kept by mistake is seen: 300 of them would have over 40 MB. What
# the allocator and the queues of answers add from one moment to the next is a third of that.
FILLER = "".join(f'[[rules]]\ntool = "none{number}__*"\ndecide = "ask"\n\n' for number in range(200))
GROWTH_LIMIT_BYTES = 16 * 1024 * 1024

VERSION = """
default_role = "{role}"
notify = false

[roles.{role}]
tools = ["**"]
otherwise = "allow"

[[rules]]
role = "{role}"
tool = "echo__{tool}"
decide = "deny"
reason = "{role} may not {tool}"
"""
RED, BLUE = VERSION.format(role="red", tool="echo") + FILLER, VERSION.format(role="blue", tool="add") + FILLER
BROKEN = BLUE.replace("default_role", "default_rule")
# Cut within a text, which is no TOML.
TRUNCATED = RED[: RED.index("may not")]
# Valid as it is, and red may do everything.
BEGINNING = RED[: RED.index("[[rules]]")]

ANSWERS = {
    "echo": {"red": "denied by policy: red may not echo", "blue": "x"},
    "add": {"red": "3", "blue": "denied by policy: blue may not add"},
}
ROWS = {
    ("red", "echo", "deny", "denied"),
    ("red", "add", "allow", "answered"),
    ("blue", "echo", "allow", "answered"),
    ("blue", "add", "deny", "denied"),
}


class Caller:
    """A client that calls until it is told to stop."""

    def __init__(self, client: FramesClient) -> None:
        self.answers: Counter[tuple[str, str]] = Counter()
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            begun = [("echo", self._client.begin_call("echo__echo", text="x")) for _ in range(2)]
            begun += [("add", self._client.begin_call("echo__add", a=1, b=2)) for _ in range(2)]
            for tool, id in begun:
                self.answers[tool, shown(self._client.answer_to(id))] += 1

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def shown(answer: Message) -> str:
    return str(answer["result"]["content"][0]["text"] if "result" in answer else answer)


class Replaced:
    """The policy file of a daemon, and what the daemon says about it."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self._control = team.scratch.control()

    def state(self) -> Message:
        """Let the daemon look at the file; return what it says."""
        found: Message = json.loads(self._control.control("status")[1])["policy"]
        return found

    def by(self, text: str) -> Message:
        """Replace the file by another."""
        self._team.write(text)
        return self.state()

    def missing_for_a_moment(self) -> Message:
        os.unlink(self._team.policy)
        return self.state()

    def half_written(self) -> Message:
        """Write the file in place, and let the daemon look in the middle of it."""
        with open(self._team.policy, "w") as file:
            file.write(BEGINNING)
            file.flush()
            found = self.state()
            file.write(RED.removeprefix(BEGINNING))
        return found


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def one_round(file: Replaced) -> None:
    """Replace the file by two versions that are right, and by four states that leave the last right one in force."""
    found = file.by(RED)
    assert (found["digest"], found["error"]) == (digest(RED), None)
    found = file.by(BROKEN)
    assert found["digest"] == digest(RED)
    assert "did you mean 'default_role'?" in found["error"]
    assert file.missing_for_a_moment()["digest"] == digest(RED)
    found = file.by(BLUE)
    assert (found["digest"], found["error"]) == (digest(BLUE), None)
    found = file.by(TRUNCATED)
    assert found["digest"] == digest(BLUE)
    assert "is not valid TOML" in found["error"]
    assert file.half_written()["digest"] == digest(BLUE)


def resident_bytes(daemon: Daemon) -> int:
    line = next(line for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if "VmRSS" in line)
    return int(line.split()[1]) * 1024


def recorded(team: Team) -> Counter[tuple[str, str, str, str]]:
    rows = map(
        json.loads, team.scratch.hearth("audit", "--kind", "call", "--json", "-n", "1000000").stdout.splitlines()
    )
    return Counter((row["role"], row["tool"], row["decision"], row["outcome"]) for row in rows)


@pytest.mark.timeout(120)
def test_a_thousand_replacements_under_load_never_mix_lose_a_call_or_grow(scratch: Scratch) -> None:
    team = Team(scratch, RED)
    daemon = team.serve()
    callers = [Caller(team.client()) for _ in range(CLIENTS)]
    try:
        file = Replaced(team)
        for _ in range(WARM_ROUNDS):
            one_round(file)
        warm = resident_bytes(daemon)
        for _ in range(ROUNDS - WARM_ROUNDS):
            one_round(file)
        grown = resident_bytes(daemon) - warm
    finally:
        for caller in callers:
            caller.stop()
    answers = sum((caller.answers for caller in callers), Counter())
    assert set(answers) == {(tool, text) for tool, texts in ANSWERS.items() for text in texts.values()}
    assert grown < GROWTH_LIMIT_BYTES
    daemon.stop()
    rows = recorded(team)
    assert set(rows) == ROWS
    assert rows.total() == answers.total()

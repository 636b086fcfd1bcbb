"""A thousand interleavings of clients and servers of both eras, and no client ever sees what is another's.

Every call carries a secret mark, and so does everything that a server says in it: its answer, progress, messages and
questions. HEARTH_INTERLEAVINGS_SEED=N repeats what the clients do; the seed is printed.
"""

import os
import random
from collections import Counter

import pytest

from support.daemon import Scratch, server
from support.marks import STEPS, Crowd, Marked, MixUp

# Over a thousand, in well under a minute on two slow cores.
ROUNDS = 1200
ERAS = ["legacy", "modern"] * 3
# Shared by all, by folder, by nobody, and at first by all, until it asks.
SERVERS = {
    "calm": ("legacy", "shared"),
    "old": ("legacy", "shared"),
    "own": ("legacy", "session"),
    "place": ("legacy", "workspace"),
    "auto": ("legacy", "auto"),
    "new": ("modern", "shared"),
    "fresh": ("modern", "session"),
}


@pytest.fixture
def seed() -> int:
    found = int(os.environ.get("HEARTH_INTERLEAVINGS_SEED") or random.randrange(1 << 32))
    print(f"HEARTH_INTERLEAVINGS_SEED={found}")
    return found


def start(scratch: Scratch, seed: int, *more: str) -> None:
    entries = {
        name: server("marking", era, seed, *more, isolation=isolation, instance_idle=1)
        for name, (era, isolation) in SERVERS.items()
    }
    # What a client gives up without a word is given up by the daemon soon.
    scratch.serve(entries, parked_timeout=3)


def begin(lots: random.Random, member: Marked, name: str) -> None:
    steps = lots.choices(STEPS, k=lots.randrange(4))
    # A modern server says nothing more about what was cancelled.
    is_deaf = lots.random() < 0.3 and SERVERS[name][0] == "legacy"
    call = member.begin(name, steps, is_deaf)
    # Nobody cancels a call of the calm one: what a server says after that is nobody's for a long time.
    if lots.random() < 0.1 and name != "calm":
        member.cancel(call)


def a_round(lots: random.Random, crowd: Crowd) -> None:
    """Two to four calls at the same time, mostly on one server."""
    first = lots.choice(list(SERVERS))
    plan = []
    for _ in range(lots.randint(2, 4)):
        seat = lots.randrange(len(ERAS))
        name = first if lots.random() < 0.7 else lots.choice(list(SERVERS))
        plan.append(lambda seat=seat, name=name: begin(lots, crowd.members[seat], name))
    crowd.play(plan)
    if lots.random() < 0.02:
        crowd.replace(lots.randrange(len(ERAS)))


@pytest.mark.timeout(300)
def test_no_client_ever_sees_what_is_another_s(scratch: Scratch, seed: int) -> None:
    start(scratch, seed)
    lots = random.Random(seed)
    crowd = Crowd(scratch, lots, ERAS)
    for _ in range(ROUNDS):
        a_round(lots, crowd)
    judge(crowd)


def judge(crowd: Crowd) -> None:
    """Nothing was mixed up; and not because nothing was said."""
    seen: Counter[str] = Counter()
    for outcome in crowd.outcomes:
        call, name = outcome["call"], outcome["call"].server
        asked = sum(step in ("ask", "sample") for step in call.steps)
        assert outcome["answered"] + outcome["refused"] == asked
        seen[name] += 1
        seen[f"{name} answered"] += outcome["answered"]
        seen[f"{name} refused"] += outcome["refused"]
        if outcome["member"].era == "legacy":
            assert call.progress == call.steps.count("progress"), call
            seen[f"{name} progress"] += call.progress
    print(seen)
    for name in SERVERS:
        assert seen[name] and seen[f"{name} progress"], name
        assert seen[f"{name} answered"] or name == "old", name
    # Where several are inside a call, whose a question is cannot be known.
    assert seen["calm refused"] and seen["old refused"] and seen["place refused"]
    # A modern server never asks in the midst of a call.
    assert seen["new refused"] == seen["fresh refused"] == 0
    assert sum(member.logs for member in crowd.members) > 0


def test_a_mix_up_would_be_seen(scratch: Scratch, seed: int) -> None:
    start(scratch, seed, "--leak")
    lots = random.Random(seed)
    crowd = Crowd(scratch, lots, ERAS)
    with pytest.raises(MixUp):
        for _ in range(ROUNDS):
            a_round(lots, crowd)

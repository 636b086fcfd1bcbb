"""Calls under a policy: what the guard and the audit log cost a call, and what calls that wait cost other sessions."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

from chain import ECHO, HEARTH, HearthChain, wait_until
from client import request
from measure import Action
from stage import Child, Stage

# Longer than the run: the calls that wait here are never decided.
POLICY = """
default_role = "dev"
approval_wait = 600
notify = false

[roles.dev]
tools = ["**"]

[[rules]]
tool = "echo__add"
decide = "ask_human"
"""
WITHOUT_AUDIT = "\n[audit]\nenabled = false\n"
# Approvals that wait, and the sessions that asked: one may have 20 of them at most.
WAITING, ASKERS = 100, 10
# Chains that are the same differ by a twentieth, for as long as their processes live.
TWINS = 8


def policy_actions(stage: Stage, calls: int) -> dict[str, Action]:
    """One call after another without a policy file, under a policy that allows it, and the same without audit."""
    policies = {"no policy": None, "allowed": POLICY, "allowed, no audit": POLICY + WITHOUT_AUDIT}
    with on_one_core():
        return {
            name: together([ready(chain(stage, f"{name[-6:]}-{index}", policy)) for index in range(TWINS)], calls)
            for name, policy in policies.items()
        }


def pending_actions(stage: Stage, calls: int) -> dict[str, Action]:
    """One call after another where calls of other sessions wait for a person, and where none does."""
    with on_one_core():
        return {
            name: together([beside_askers(stage, f"pending-{each}-{index}", each) for index in range(TWINS)], calls)
            for name, each in (("none", 0), ("waiting", WAITING // ASKERS))
        }


def beside_askers(stage: Stage, name: str, each: int) -> Child:
    """Return a client beside others that have so many calls each that wait for a person."""
    found = chain(stage, name, POLICY)
    child = ready(found)
    for _ in range(ASKERS):
        asker = ready(found)
        for key in range(2, 2 + each):
            line = request(key, "tools/call", {"name": "echo__add", "arguments": {"a": key, "b": 1}})
            os.write(asker.client.to_server, line)
    wait_until(lambda: pending(found) == each * ASKERS, f"{each * ASKERS} approvals to wait")
    return child


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this process, and the children that it starts meanwhile, on one core.

    A call wakes four processes one after the other. Where the kernel happens to put them makes a third of its time.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def together(children: list[Child], calls: int) -> Action:
    """One call after another on each of some chains that are the same; the mean of their medians."""

    def run() -> float:
        with on_one_core():
            return fmean(child.client.median_call_us(HearthChain.tool, calls) for child in children)

    return run


def chain(stage: Stage, name: str, policy: str | None) -> HearthChain:
    """Return a chain, with a policy file if one is given."""
    found = HearthChain(stage, name.replace(" ", ""), ECHO)
    if policy is not None:
        with open(os.path.join(found.env["HOME"], ".config", "hearth", "policy.toml"), "w") as file:
            file.write(policy)
    return found


def ready(found: HearthChain) -> Child:
    """Return a client that has shaken hands."""
    child = found.bridge()
    child.client.open()
    return child


def pending(found: HearthChain) -> int:
    """Return the number of approvals that wait."""
    shown = subprocess.run([HEARTH, "approvals", "--json"], env=found.env, capture_output=True, check=True)
    return len(json.loads(shown.stdout)["approvals"])

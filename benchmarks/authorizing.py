"""Calls under a policy: what the guard and the audit log cost a call, and what calls that wait cost other sessions."""

import json
import os
import subprocess

from chain import ECHO, HEARTH, HearthChain, wait_until
from client import request
from measure import Action
from stage import Child, Stage

# Longer than the run: nobody decides what waits here.
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


def policy_actions(stage: Stage, calls: int) -> dict[str, Action]:
    """One call after another without a policy file, under a policy that allows it, and the same without audit."""
    return {
        "no policy": caller(ready(HearthChain(stage, "policy-none", ECHO)), calls),
        "allowed": caller(ready(held(stage, "policy-on", POLICY)), calls),
        "allowed, no audit": caller(ready(held(stage, "policy-quiet", POLICY + WITHOUT_AUDIT)), calls),
    }


def pending_actions(stage: Stage, calls: int) -> dict[str, Action]:
    """One call after another where calls of other sessions wait for a person, and where none does."""
    quiet, waiting = held(stage, "pending-none", POLICY), held(stage, "pending", POLICY)
    ends = {"none": caller(ready(quiet), calls), "waiting": caller(ready(waiting), calls)}
    # As many sessions on both, so that only the approvals differ.
    for chain, each in ((quiet, 0), (waiting, WAITING // ASKERS)):
        for _ in range(ASKERS):
            asker = ready(chain)
            for key in range(2, 2 + each):
                line = request(key, "tools/call", {"name": "echo__add", "arguments": {"a": key, "b": 1}})
                os.write(asker.client.to_server, line)
    wait_until(lambda: pending(waiting) == WAITING, f"{WAITING} approvals to wait")
    return ends


def held(stage: Stage, name: str, policy: str) -> HearthChain:
    """Return a chain with a policy file."""
    chain = HearthChain(stage, name, ECHO)
    with open(os.path.join(chain.env["HOME"], ".config", "hearth", "policy.toml"), "w") as file:
        file.write(policy)
    return chain


def ready(chain: HearthChain) -> Child:
    """Return a client that has shaken hands."""
    child = chain.bridge()
    child.client.open()
    return child


def caller(child: Child, calls: int) -> Action:
    """One call after another."""
    return lambda: child.client.median_call_us(HearthChain.tool, calls)


def pending(chain: HearthChain) -> int:
    """Return the number of approvals that wait."""
    shown = subprocess.run([HEARTH, "approvals", "--json"], env=chain.env, capture_output=True, check=True)
    return len(json.loads(shown.stdout)["approvals"])

"""Calls under a policy: what the guard and the audit log cost a call, and what calls that wait cost other sessions."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean

from chain import ECHO, HEARTH, HearthChain, wait_until
from client import ARGUMENTS, request
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
# The same with a permission that looks at the arguments.
GRANTING = (
    POLICY.replace('tools = ["**"]', 'tools = ["**"]\ngrants = ["say"]')
    + """
[permissions.say]
tool = "echo__echo"
arguments = { text = "{text}", "path?" = "{path}" }
"""
)
# Arguments as a tool that writes files has them.
LONG = {"path": "src/module.py", "text": "import os  # see src/a.py and https://example.org/docs/page.html\n" * 62}
NAMED = {"path": "docs/benchmarks.md", "text": "what is said is said again"}
# Approvals that wait, and the sessions that asked: one may have 20 of them at most.
WAITING, ASKERS = 100, 10
# Chains that are the same differ by a twentieth, for as long as their processes live.
TWINS = 8
# Of those whose calls take longer, or that are measured for longer.
FEWER_TWINS = 4
# The writer of the audit log comes four times a second: its work is in each sample.
AUDITED_SECONDS = 1.0


class PolicyChains:
    """Chains under one policy each, made when they are first needed, and used by several groups."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._found: dict[str, list[Child]] = {}

    def under(self, name: str, policy: str | None, count: int) -> list[Child]:
        """Return so many clients, each before a daemon of its own."""
        found = self._found.setdefault(name, [])
        with on_one_core():
            while len(found) < count:
                found.append(ready(chain(self._stage, f"{name}-{len(found)}", policy)))
        return found[:count]


def policy_actions(chains: PolicyChains, calls: int) -> dict[str, Action]:
    """One call after another without a policy file, and under a policy that allows it by its name."""
    return {
        "no policy": together(chains.under("free", None, TWINS), calls),
        "allowed": together(chains.under("allowed", POLICY, TWINS), calls),
    }


def policy_text_actions(chains: PolicyChains, calls: int) -> dict[str, Action]:
    """The same with a path and 4 KB of text, which are searched for protected files."""
    return {
        "no policy": together(chains.under("free", None, FEWER_TWINS), calls, LONG),
        "allowed": together(chains.under("allowed", POLICY, FEWER_TWINS), calls, LONG),
    }


def policy_grant_actions(chains: PolicyChains, calls: int) -> dict[str, Action]:
    """The same where a permission looks at the arguments, with a path in them and without."""
    free = chains.under("free", None, FEWER_TWINS)
    granted = chains.under("granted", GRANTING, FEWER_TWINS)
    return {
        "no policy": together(free, calls),
        "granted": together(granted, calls),
        "no policy, path": together(free, calls, NAMED),
        "granted, path": together(granted, calls, NAMED),
    }


def audit_actions(chains: PolicyChains) -> dict[str, Action]:
    """Calls per second under the policy for long enough that rows are written meanwhile, and the same without audit."""
    return {
        "audited": in_turn(chains.under("allowed", POLICY, FEWER_TWINS)),
        "no audit": in_turn(chains.under("unaudited", POLICY + WITHOUT_AUDIT, FEWER_TWINS)),
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


def together(children: list[Child], calls: int, arguments: dict[str, str] = ARGUMENTS) -> Action:
    """One call after another on each of some chains that are the same; the mean of their medians."""

    def run() -> float:
        with on_one_core():
            return fmean(
                child.client.median_call_us(HearthChain.tool, calls, arguments=arguments) for child in children
            )

    return run


def in_turn(children: list[Child]) -> Action:
    """Calls per second, one after the other, on each of some chains that are the same; the mean."""

    def run() -> float:
        with on_one_core():
            return fmean(child.client.calls_in_turn_per_second(HearthChain.tool, AUDITED_SECONDS) for child in children)

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

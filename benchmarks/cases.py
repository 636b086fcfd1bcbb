"""Groups of actions that `make bench` measures."""

import os
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from time import perf_counter_ns

from auditing import durable_actions, record_actions, write_actions
from authorizing import (
    PolicyChains,
    audit_actions,
    pending_actions,
    policy_actions,
    policy_grant_actions,
    policy_text_actions,
)
from chain import BOTH_ERAS, ECHO, FLOODING, MODERN, PYTHON, SWIFT, HearthChain, SocatChain, wait_until
from client import INITIALIZE, ChainError, request
from deciding import decision_actions
from driving import agent_actions, record_memory_actions
from driving import flood_actions as agent_flood_actions
from hooking import hook_actions
from measure import Action, Group, milliseconds
from searching import find_actions, index_actions, question_actions
from stage import Child, Stage, resident_mb

# Sizes of a run: enough for a steady median on a noisy machine, and about a minute in all.
START_ROUNDS = 25
LIST_ROUNDS = 12
# Servers of the crowd, and those of them that take half a minute to start.
CROWD, SLOW = 20, 5
# Three of it never come.
KNOWN = CROWD - 3
CALL_ROUNDS, CALLS_PER_ROUND = 20, 300
# Each on some chains that are the same.
POLICY_ROUNDS, POLICY_CALLS = 30, 100
PIPELINE_ROUNDS, PIPELINED_CALLS = 9, 8000
INDEX_ROUNDS = 11
DECISION_ROUNDS = 7
# Each is a second.
FLOOD_ROUNDS = 7
AUDIT_ROUNDS = 7
SESSIONS = 10
WARMUP_ROUNDS = 2
MEMORY_CALLS = 200
# As it is listed, of the server that speaks both eras.
BOTH_TOOL = "echo__count"


def groups(stage: Stage, names: Collection[str]) -> dict[str, Group]:
    """The groups of these names, over chains that are up and have answered. No others are built."""
    makers = group_makers(stage)
    return {name: make() for name, make in makers.items() if name in names}


def group_makers(stage: Stage) -> dict[str, Callable[[], Group]]:
    """How each group is built. What several of them use is built by the first."""

    @cache
    def warm() -> HearthChain:
        return HearthChain(stage, "warm", ECHO)

    @cache
    def plain() -> dict[str, End]:
        return {"hearth": attached(warm()), "socat": attached(SocatChain(stage, "socat", ECHO))}

    @cache
    def both() -> tuple[BothEras, BothEras]:
        return both_eras(stage, "both-one", 1), both_eras(stage, "both-two", 2, era='"client"')

    def swift() -> dict[str, End]:
        chains = {"hearth": HearthChain(stage, "swift", SWIFT), "socat": SocatChain(stage, "swift-socat", SWIFT)}
        return {name: attached(chain) for name, chain in chains.items()}

    def start() -> dict[str, Action]:
        plain()  # its daemon is the warm one
        return start_actions(stage, warm(), HearthChain(stage, "cold", ECHO))

    def of(
        unit: str, actions: Callable[[], dict[str, Action]], rounds: int, warmup: int = WARMUP_ROUNDS
    ) -> Callable[[], Group]:
        return lambda: Group(unit, actions(), rounds, warmup)

    def each(action: Callable[[End], Action], ends: Callable[[], dict[str, End]]) -> Callable[[], dict[str, Action]]:
        return lambda: {name: action(end) for name, end in ends().items()}

    chains = PolicyChains(stage)
    return {
        "start": of("ms", start, START_ROUNDS),
        "lists": of("ms", lambda: list_actions(stage), LIST_ROUNDS),
        "call": of("µs", each(caller, plain), CALL_ROUNDS),
        "pipeline": of("calls/s", each(piper, plain), PIPELINE_ROUNDS),
        "swift": of("calls/s", each(piper, swift), PIPELINE_ROUNDS),
        "eras": of("µs", lambda: era_actions(HearthChain(stage, "eras", MODERN)), CALL_ROUNDS),
        "flood": of("µs", lambda: flood_actions(stage), CALL_ROUNDS),
        "both": of("µs", lambda: both_actions(*both()), CALL_ROUNDS),
        "both memory": of("MB", lambda: both_memory_actions(*both()), 3, 0),
        "index": of("ms", index_actions, INDEX_ROUNDS),
        "question": of("ms", question_actions, INDEX_ROUNDS),
        "find": of("µs", lambda: find_actions(stage), CALL_ROUNDS),
        "hook": of("ms", lambda: hook_actions(stage), START_ROUNDS),
        "audit entry": of("µs", lambda: record_actions(stage), AUDIT_ROUNDS),
        "audit row": of("µs", lambda: write_actions(stage), AUDIT_ROUNDS),
        "audit decision": of("ms", lambda: durable_actions(stage), AUDIT_ROUNDS),
        "decision": of("µs", lambda: decision_actions(stage), DECISION_ROUNDS),
        "policy": of("µs", lambda: policy_actions(chains, POLICY_CALLS), POLICY_ROUNDS),
        "policy text": of("µs", lambda: policy_text_actions(chains, POLICY_CALLS), POLICY_ROUNDS),
        "policy grant": of("µs", lambda: policy_grant_actions(chains, POLICY_CALLS), POLICY_ROUNDS),
        "audit": of("calls/s", lambda: audit_actions(chains), AUDIT_ROUNDS, 1),
        "pending": of("µs", lambda: pending_actions(stage, POLICY_CALLS), POLICY_ROUNDS),
        "agents": of("ms", lambda: agent_actions(stage), START_ROUNDS),
        "agents flood": of("ms", lambda: agent_flood_actions(stage), FLOOD_ROUNDS),
        "agent records": of("MB", lambda: record_memory_actions(stage), 3, 0),
        "memory": of("MB", lambda: memory_actions(stage), 3, 0),
    }


@dataclass(frozen=True)
class End:
    """The client's end of a chain, and the name under which the tool is found there."""

    child: Child
    tool: str


def attached(chain: HearthChain | SocatChain) -> End:
    """A client that has shaken hands and has seen the tool that it will call."""
    child = chain.bridge()
    child.client.open()
    listed = [found["name"] for found in child.client.ask(1, "tools/list", {})["result"]["tools"]]
    if chain.tool not in listed:
        raise ChainError(f"tools/list shows no {chain.tool}: {listed}")
    return End(child, chain.tool)


def caller(end: End) -> Action:
    """One call after another."""
    return lambda: end.child.client.median_call_us(end.tool, CALLS_PER_ROUND)


def piper(end: End) -> Action:
    """Calls in bulk."""
    return lambda: end.child.client.calls_per_second(end.tool, PIPELINED_CALLS)


def era_actions(chain: HearthChain) -> dict[str, Action]:
    """One call after another on one server of the modern era, by a client of each era."""
    legacy, modern = attached(chain), attached(chain)
    return {
        "translated": caller(legacy),
        "same era": lambda: modern.child.client.median_call_us(modern.tool, CALLS_PER_ROUND, modern=True),
    }


def flood_actions(stage: Stage) -> dict[str, Action]:
    """One call after another on a daemon of its own, and on one where another server floods its output meanwhile."""
    quiet = attached(HearthChain(stage, "quiet", ECHO))
    mark = os.path.join(stage.folder, "flooding")
    flooding = ["/bin/sh", "-c", f"echo $$ >{mark}.new; mv {mark}.new {mark}; exec {' '.join(FLOODING)}"]
    chain = HearthChain(stage, "flood", ECHO, {"flooding": flooding})
    end, victim = attached(chain), attached(chain)
    forever = {"name": "flooding__forever", "arguments": {"kind": "unknown"}}
    os.write(victim.child.client.to_server, request(2, "tools/call", forever))
    with open(mark) as file:
        pid = int(file.read())

    def among_floods() -> float:
        # Only while it is measured: it would slow everything else down.
        os.kill(pid, signal.SIGCONT)
        try:
            return caller(end)()
        finally:
            os.kill(pid, signal.SIGSTOP)

    among_floods()
    return {"flooded": among_floods, "quiet": caller(quiet)}


@dataclass(frozen=True)
class BothEras:
    """A server that speaks both eras, and a client of each that has called it."""

    chain: HearthChain
    legacy: Child
    modern: Child


def both_eras(stage: Stage, name: str, processes: int, **keys: str) -> BothEras:
    """Start it, the modern client first; raise ChainError where it has not so many processes."""
    chain = HearthChain(stage, name, BOTH_ERAS, keys=keys)
    modern, legacy = chain.bridge(), chain.bridge()
    modern.client.median_call_us(BOTH_TOOL, 1, modern=True)
    legacy.client.open()
    legacy.client.median_call_us(BOTH_TOOL, 1)
    if len(found := chain.server_pids()) != processes:
        raise ChainError(f"{name}: {len(found)} processes and not {processes}")
    return BothEras(chain, legacy, modern)


def both_actions(one: BothEras, two: BothEras) -> dict[str, Action]:
    """One call after another by a client of each era, where they share a process and where they do not."""

    def calls(child: Child, modern: bool) -> Action:
        return lambda: child.client.median_call_us(BOTH_TOOL, CALLS_PER_ROUND, modern)

    found: dict[str, Action] = {}
    for words, ends in (("one process", one), ("own process", two)):
        found[f"legacy, {words}"] = calls(ends.legacy, False)
        found[f"modern, {words}"] = calls(ends.modern, True)
    return found


def both_memory_actions(one: BothEras, two: BothEras) -> dict[str, Action]:
    """Resident sizes of all processes of the server."""

    def size(ends: BothEras) -> Action:
        return lambda: sum(map(resident_mb, ends.chain.server_pids()))

    return {"one process": size(one), "a process for each era": size(two)}


def start_actions(stage: Stage, warm: HearthChain, cold: HearthChain) -> dict[str, Action]:
    """From spawn to the first answer, and the interpreter's own floors."""
    return {
        "python -I -S -c pass": floor(stage, [PYTHON, "-I", "-S", "-c", "pass"], warm.env),
        "printed": lambda: first_answer(lambda: warm.bridge(warm.printed)),
        "typed": lambda: first_answer(lambda: warm.bridge(warm.typed)),
        'python -c "import asyncio"': floor(stage, [PYTHON, "-c", "import asyncio"], cold.env),
        "cold": lambda: cold_answer(cold),
    }


def floor(stage: Stage, command: list[str], env: dict[str, str]) -> Action:
    """From spawn to the exit of a program that says nothing."""

    def run() -> float:
        begin = perf_counter_ns()
        child = stage.spawn(command, env)
        os.waitpid(child.pid, 0)
        passed = milliseconds(begin)
        os.close(child.stdin)
        os.close(child.stdout)
        return passed

    return run


def first_answer(start: Callable[[], Child]) -> float:
    """From spawn to the last byte of initialize's answer, which must be the daemon's own."""
    line = request(0, "initialize", INITIALIZE)
    begin = perf_counter_ns()
    child = start()
    answer = child.client.exchange(line)
    passed = milliseconds(begin)
    if b'"hearth/daemonId"' not in answer:
        raise ChainError(f"initialize was not answered by the daemon: {answer[:400]!r}")
    child.leave()
    return passed


def cold_answer(chain: HearthChain) -> float:
    """The first answer where the bridge must start the daemon; the daemon is stopped again."""
    passed = first_answer(chain.bridge)
    chain.stop()
    return passed


def list_actions(stage: Stage) -> dict[str, Action]:
    """From spawn to the list of tools, from the second run on: what the servers offer is known by then."""
    chains = {name: HearthChain(stage, f"alone-{name}", ECHO) for name in ("warm", "cold")}
    crowds = {name: crowded(stage, f"crowd-{name}") for name in ("warm", "cold")}
    for chain, count in [*((chain, 1) for chain in chains.values()), *((chain, KNOWN) for chain in crowds.values())]:
        wait_for_servers(chain, count)
        chain.stop()
    with open(slow_mark(stage), "w"):
        pass
    return {
        "one fast, warm": lambda: listed(chains["warm"], 1),
        "crowd, warm": lambda: listed(crowds["warm"], KNOWN),
        "one fast, cold": lambda: listed(chains["cold"], 1, stop=True),
        "crowd, cold": lambda: listed(crowds["cold"], KNOWN, stop=True),
    }


def crowded(stage: Stage, name: str) -> HearthChain:
    """Twenty servers: five that take half a minute while the stage has a mark, three that never come, and fast ones."""
    echo = " ".join(ECHO)
    slowly = f"if [ -e {slow_mark(stage)} ]; then sleep 30; fi; exec {echo}"
    others = {f"slow{number}": ["/bin/sh", "-c", slowly] for number in range(SLOW)}
    others |= {
        "absent": ["/nowhere/server"],
        "ending": ["/bin/sh", "-c", "exit 3"],
        "silent": ["/bin/cat", "/dev/stdin"],
    }
    others |= {f"fast{number}": ECHO for number in range(CROWD - len(others) - 1)}
    return HearthChain(stage, name, ECHO, others)


def slow_mark(stage: Stage) -> str:
    """While it is there, the slow ones are slow."""
    return os.path.join(stage.folder, "slow")


def wait_for_servers(chain: HearthChain, count: int) -> None:
    """A first run, until it is known of so many servers what they offer."""
    child = chain.bridge()
    child.client.open()
    wait_until(lambda: echoes(child.client.exchange(request(1, "tools/list", {}))) >= count, f"{count} servers")
    child.leave()


def echoes(answer: bytes) -> int:
    """How many servers are on a list of tools: each has one that is called so."""
    return answer.count(b'__echo"')


def listed(chain: HearthChain, count: int, stop: bool = False) -> float:
    """From spawn to the last byte of the list of tools."""
    begin = perf_counter_ns()
    child = chain.bridge()
    child.client.exchange(request(0, "initialize", INITIALIZE))
    answer = child.client.exchange(request(1, "tools/list", {}))
    passed = milliseconds(begin)
    if (found := echoes(answer)) != count:
        raise ChainError(f"{found} servers are listed and not {count}: {answer[-400:]!r}")
    child.leave()
    if stop:
        chain.stop()
    return passed


def memory_actions(stage: Stage) -> dict[str, Action]:
    """Resident sizes after some use, of a daemon that nothing else has used."""
    chain = HearthChain(stage, "memory", ECHO)
    ends: list[End] = []

    def first_pid() -> int:
        while len(ends) < SESSIONS:
            ends.append(attached(chain))
            ends[-1].child.client.median_call_us(chain.tool, MEMORY_CALLS)
        return ends[0].child.pid

    def daemon_pid() -> int:
        first_pid()
        return chain.daemon_pid()

    return {"bridge": lambda: resident_mb(first_pid()), "daemon": lambda: resident_mb(daemon_pid())}

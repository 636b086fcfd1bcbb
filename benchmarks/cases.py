"""What is measured and what it must stay within: the groups of actions and the lines of the table."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from auditing import durable_actions, record_actions, write_actions
from authorizing import WAITING, pending_actions, policy_actions
from chain import BOTH_ERAS, ECHO, FLOODING, MODERN, PYTHON, SWIFT, HearthChain, SocatChain, wait_until
from client import INITIALIZE, ChainError, request
from deciding import RULES, decision_actions
from driving import RECORDS, agent_actions, record_memory_actions
from driving import flood_actions as agent_flood_actions
from hooking import hook_actions
from measure import Action, Group, Line, milliseconds
from searching import TOOLS, find_actions, index_actions, question_actions
from stage import Child, Stage, resident_mb

# Sizes of a run: enough for a steady median on a noisy machine, and about a minute in all.
START_ROUNDS = 25
LIST_ROUNDS = 12
# Servers of the crowd, and those of them that take half a minute to start.
CROWD, SLOW = 20, 5
# Three of it never come.
KNOWN = CROWD - 3
CALL_ROUNDS, CALLS_PER_ROUND = 20, 300
# Each on three chains.
POLICY_ROUNDS, POLICY_CALLS = 30, 100
PIPELINE_ROUNDS, PIPELINED_CALLS = 9, 8000
INDEX_ROUNDS = 11
AUDIT_ROUNDS = 7
SESSIONS = 10
WARMUP_ROUNDS = 2
MEMORY_CALLS = 200
# As it is listed, of the server that speaks both eras.
BOTH_TOOL = "echo__count"

LINES = [
    Line("first answer, daemon warm, printed command", "start", "printed", "python -I -S -c pass", 1.6),
    Line("first answer, daemon warm, `hearth bridge`", "start", "typed", "python -I -S -c pass", 4.0),
    Line("first answer, no daemon running", "start", "cold", 'python -c "import asyncio"', 2.2),
    Line(f"lists of {CROWD} servers, 8 slow or dead, warm", "lists", "crowd, warm", "one fast, warm", 3.0),
    Line(f"lists of {CROWD} servers, 8 slow or dead, no daemon", "lists", "crowd, cold", "one fast, cold", 3.0),
    Line("one call after another, p50", "call", "hearth", "socat", 1.7),
    Line("pipelined calls", "pipeline", "hearth", "socat", 0.45, at_most=False),
    Line("pipelined calls, upstream that costs almost nothing", "swift", "hearth", "socat", None),
    Line("legacy client, modern server, p50", "eras", "translated", "same era", 1.5),
    Line("one call after another beside a server that floods, p50", "flood", "flooded", "quiet", 5.0),
    Line(
        "legacy client beside a modern one, one process, p50",
        "both",
        "legacy, one process",
        "legacy, own process",
        1.15,
    ),
    Line(
        "modern client beside a legacy one, one process, p50",
        "both",
        "modern, one process",
        "modern, own process",
        1.15,
    ),
    Line("server of both eras, clients of both, resident", "both memory", "one process", "a process for each era", 0.6),
    Line(f"index of {TOOLS:,} tools, CPU", "index", "build", None, 100.0),
    Line(f"a question to {TOOLS:,} tools, its words not asked for before, p50", "question", "first", None, 1.0),
    Line(f"the same again, p50 of {TOOLS:,} tools", "question", "again", None, 1.0),
    Line(f"`find_tools` over {TOOLS:,} tools, p50", "find", "find_tools", "direct call", 4.0),
    Line("`hearth hook`, spawn to exit, decided", "hook", "decided", "python -I -S -c pass", 2.5),
    Line("`hearth hook`, spawn to exit, no policy", "hook", "no policy", "python -I -S -c pass", 2.0),
    Line("audit, an entry of the event loop", "audit entry", "record", None, 5.0),
    Line("audit, a row of the writer, CPU", "audit row", "row", None, 40.0),
    Line("audit, a decision until it is on the disk, p50", "audit decision", "decision", "two synced files", 6.0),
    Line(f"a decision by a tool's name among {RULES} rules, CPU", "decision", "name", None, 10.0),
    Line("a decision about a shell command, CPU", "decision", "command", None, 200.0),
    Line("a decision about a path, CPU", "decision", "path", None, 200.0),
    Line("one call after another under a policy, audited, p50", "policy", "allowed", "no policy", 1.1),
    Line("audit of one call after another, p50", "policy", "allowed", "allowed, no audit", 1.1),
    Line(f"one call after another beside {WAITING} that wait for approval, p50", "pending", "waiting", "none", 1.1),
    Line("`create_agent` of an echo agent, first chunk", "agents", "create_agent", "direct", 1.5),
    Line("prompt to an agent beside 10,000 updates a second", "agents flood", "among updates", "alone", 1.5),
    Line(f"{RECORDS} idle agents on record, resident in the daemon", "agent records", "idle", None, 2.0),
    Line("bridge, resident", "memory", "bridge", None, 11.0),
    Line(f"daemon, resident, 1 upstream, {SESSIONS} sessions", "memory", "daemon", None, 30.0),
]


def groups(stage: Stage) -> dict[str, Group]:
    """All groups, over chains that are up and have answered."""
    warm, cold = HearthChain(stage, "warm", ECHO), HearthChain(stage, "cold", ECHO)
    hearth, socat = attached(warm), attached(SocatChain(stage, "socat", ECHO))
    swift = {
        "hearth": attached(HearthChain(stage, "swift", SWIFT)),
        "socat": attached(SocatChain(stage, "swift-socat", SWIFT)),
    }
    plain = {"hearth": hearth, "socat": socat}
    one, two = both_eras(stage, "both-one", 1), both_eras(stage, "both-two", 2, era='"client"')
    return {
        "start": Group("ms", start_actions(stage, warm, cold), START_ROUNDS, WARMUP_ROUNDS),
        "lists": Group("ms", list_actions(stage), LIST_ROUNDS, WARMUP_ROUNDS),
        "call": Group("µs", {name: caller(end) for name, end in plain.items()}, CALL_ROUNDS, WARMUP_ROUNDS),
        "pipeline": Group("calls/s", {name: piper(end) for name, end in plain.items()}, PIPELINE_ROUNDS, WARMUP_ROUNDS),
        "swift": Group("calls/s", {name: piper(end) for name, end in swift.items()}, PIPELINE_ROUNDS, WARMUP_ROUNDS),
        "eras": Group("µs", era_actions(HearthChain(stage, "eras", MODERN)), CALL_ROUNDS, WARMUP_ROUNDS),
        "flood": Group("µs", flood_actions(stage), CALL_ROUNDS, WARMUP_ROUNDS),
        "both": Group("µs", both_actions(one, two), CALL_ROUNDS, WARMUP_ROUNDS),
        "both memory": Group("MB", both_memory_actions(one, two), rounds=3, warmup=0),
        "index": Group("ms", index_actions(), INDEX_ROUNDS, WARMUP_ROUNDS),
        "question": Group("ms", question_actions(), INDEX_ROUNDS, WARMUP_ROUNDS),
        "find": Group("µs", find_actions(stage), CALL_ROUNDS, WARMUP_ROUNDS),
        "hook": Group("ms", hook_actions(stage), START_ROUNDS, WARMUP_ROUNDS),
        "audit entry": Group("µs", record_actions(stage), AUDIT_ROUNDS, WARMUP_ROUNDS),
        "audit row": Group("µs", write_actions(stage), AUDIT_ROUNDS, WARMUP_ROUNDS),
        "audit decision": Group("ms", durable_actions(stage), AUDIT_ROUNDS, WARMUP_ROUNDS),
        "decision": Group("µs", decision_actions(stage), INDEX_ROUNDS, WARMUP_ROUNDS),
        "policy": Group("µs", policy_actions(stage, POLICY_CALLS), POLICY_ROUNDS, WARMUP_ROUNDS),
        "pending": Group("µs", pending_actions(stage, POLICY_CALLS), POLICY_ROUNDS, WARMUP_ROUNDS),
        "agents": Group("ms", agent_actions(stage), START_ROUNDS, WARMUP_ROUNDS),
        "agents flood": Group("ms", agent_flood_actions(stage), LIST_ROUNDS, WARMUP_ROUNDS),
        "agent records": Group("MB", record_memory_actions(stage), rounds=3, warmup=0),
        "memory": Group("MB", memory_actions(stage), rounds=3, warmup=0),
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

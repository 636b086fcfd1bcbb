"""What is measured and what it must stay within: the groups of actions and the lines of the table."""

import os
from collections.abc import Callable
from time import perf_counter_ns

from chain import PYTHON, HearthChain, SocatChain
from client import INITIALIZE, ChainError, request
from measure import Action, Group, Line, milliseconds
from stage import Child, Stage, resident_mb

# Sizes of a run: enough for a steady median on a noisy machine, and about a minute in all.
START_ROUNDS = 25
CALL_ROUNDS, CALLS_PER_ROUND = 20, 300
PIPELINE_ROUNDS, PIPELINED_CALLS = 9, 8000
SESSIONS = 10
WARMUP_ROUNDS = 2
MEMORY_CALLS = 200

LINES = [
    Line("first answer, daemon warm, printed command", "start", "printed", "python -I -S -c pass", 2.0),
    Line("first answer, daemon warm, `hearth bridge`", "start", "typed", "python -I -S -c pass", 4.0),
    Line("first answer, no daemon running", "start", "cold", 'python -c "import asyncio"', 3.0),
    Line("one call after another, p50", "call", "hearth", "socat", 2.0),
    Line("pipelined calls", "pipeline", "hearth", "socat", 0.4, at_most=False),
    Line("bridge, resident", "memory", "bridge", None, 11.0),
    Line(f"daemon, resident, 1 upstream, {SESSIONS} sessions", "memory", "daemon", None, 45.0),
]


def groups(stage: Stage) -> dict[str, Group]:
    """All groups, over chains that are up and have answered."""
    warm, cold, socat = HearthChain(stage, "warm"), HearthChain(stage, "cold"), SocatChain(stage)
    through_hearth, through_socat = opened(warm.bridge()), opened(socat.bridge())
    await_tool(through_hearth, warm.tool)
    hearth, plain = through_hearth.client, through_socat.client
    return {
        "start": Group("ms", start_actions(stage, warm, cold), START_ROUNDS, WARMUP_ROUNDS),
        "call": Group(
            "µs",
            {
                "hearth": lambda: hearth.median_call_us(warm.tool, CALLS_PER_ROUND),
                "socat": lambda: plain.median_call_us(socat.tool, CALLS_PER_ROUND),
            },
            CALL_ROUNDS,
            WARMUP_ROUNDS,
        ),
        "pipeline": Group(
            "calls/s",
            {
                "hearth": lambda: hearth.calls_per_second(warm.tool, PIPELINED_CALLS),
                "socat": lambda: plain.calls_per_second(socat.tool, PIPELINED_CALLS),
            },
            PIPELINE_ROUNDS,
            WARMUP_ROUNDS,
        ),
        "memory": Group("MB", memory_actions(stage), rounds=3, warmup=0),
    }


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


def memory_actions(stage: Stage) -> dict[str, Action]:
    """Resident sizes after some use, of a daemon that nothing else has used."""
    chain = HearthChain(stage, "memory")
    children: list[Child] = []

    def attached() -> list[Child]:
        while len(children) < SESSIONS:
            children.append(opened(chain.bridge()))
            await_tool(children[-1], chain.tool)
            children[-1].client.median_call_us(chain.tool, MEMORY_CALLS)
        return children

    return {
        "bridge": lambda: resident_mb(attached()[0].pid),
        "daemon": lambda: resident_mb(chain.daemon_pid() if attached() else 0),
    }


def opened(child: Child) -> Child:
    """A child that has shaken hands."""
    child.client.open()
    return child


def await_tool(child: Child, tool: str) -> None:
    """List the tools, which starts the upstream, and make sure that the one to be called is there."""
    listed = child.client.ask(1, "tools/list", {})["result"]["tools"]
    if tool not in [found["name"] for found in listed]:
        raise ChainError(f"tools/list shows no {tool}: {[found['name'] for found in listed]}")

"""Agents: what the daemon adds to the start of one and its first words, and what idle ones on record cost it."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from time import monotonic, perf_counter_ns
from typing import Any

import uvloop
from chain import ECHO, HERE, PYTHON, HearthChain, wait_until
from client import ChainError, Client
from measure import Action, milliseconds
from stage import Stage, resident_mb

from hearth.packs.agents import acp
from hearth.packs.agents.acp_connection import AcpConnection

AGENT = os.path.abspath(os.path.join(HERE, "..", "tests", "support", "agents", "echo_agent.py"))
RECORDS = 100
# Agents that run; two of them are measured.
CROWD = 50
PROMPTS = 20
# For so long at least: the rate of the updates is that of the same time.
PROMPT_SECONDS = 1.0
UPDATES_A_SECOND = 10_000
# Fewer are no flood: the run fails.
LEAST_UPDATES_A_SECOND = 9_000
# Far above what a message of the agent has.
LIMITS = (1 << 20, 1 << 20)


def agent_actions(stage: Stage) -> dict[str, Action]:
    """From the call of create_agent to its result, and the same agent to its first chunk without a daemon."""
    chain = with_agents(HearthChain(stage, "agents", ECHO), stage)
    client = opened(chain)
    return {"create_agent": lambda: created(client), "direct": direct(stage)}


def with_agents(chain: HearthChain, stage: Stage, **settings: object) -> HearthChain:
    """Switch the pack on, with the agent of the tests as provider."""
    with open(os.path.join(chain.env["HOME"], ".config", "hearth", "config.toml"), "a") as config:
        config.write("\n[packs.agents]\nenabled = true\n\n[agents]\n")
        config.writelines(f"{key} = {value}\n" for key, value in settings.items())
        config.write(f"\n[agents.providers.echo]\ncommand = '{PYTHON}'\n")
        config.write(f"args = ['-S', '{AGENT}', '--resume', '--state', '{stage.folder}/sessions']\n")
    return chain


def opened(chain: HearthChain) -> Client:
    """A client that has shaken hands and sees the tools of agents."""
    client = chain.bridge().client
    client.open()
    wait_until(lambda: b"agents__create_agent" in str(client.ask(1, "tools/list", {})).encode(), "the pack")
    return client


def call(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured content of a tool's result."""
    result = client.ask(2, "tools/call", {"name": f"agents__{tool}", "arguments": arguments})["result"]
    if result.get("isError"):
        raise ChainError(f"{tool}: {result['content']}")
    found: dict[str, Any] = result["structuredContent"]
    return found


def created(client: Client) -> float:
    """From the call to its result, which comes after the first chunk; the agent is killed again."""
    begin = perf_counter_ns()
    found = call(
        client, "create_agent", {"cwd": "/tmp", "title": "bench", "provider": "echo", "initialPrompt": "hello"}
    )
    passed = milliseconds(begin)
    if "hello" not in (found["lastMessage"] or ""):
        raise ChainError(f"the agent said {found}")
    call(client, "kill_agent", {"agentId": found["agentId"]})
    return passed


def flood_actions(stage: Stage) -> dict[str, Action]:
    """A prompt to one of fifty agents, while all others are idle, and while one sends ten thousand updates a second."""
    chain = with_agents(HearthChain(stage, "agents-flood", ECHO), stage, max_running=CROWD, max_agents=2 * CROWD)
    client = opened(chain)
    wanted = {"cwd": "/tmp", "provider": "echo", "initialPrompt": "hello"}
    ids = [call(client, "create_agent", {**wanted, "title": f"agent {n}"})["agentId"] for n in range(CROWD)]
    calm, noisy = ids[0], ids[-1]
    counted = os.path.join(stage.folder, "updates")

    def prompts() -> float:
        times: list[float] = []
        begun = monotonic()
        while len(times) < PROMPTS or monotonic() - begun < PROMPT_SECONDS:
            begin = perf_counter_ns()
            call(client, "send_agent_prompt", {"agentId": calm, "prompt": "hello"})
            times.append(milliseconds(begin))
        return sorted(times)[len(times) // 2]

    def among_floods() -> float:
        flood = {"agentId": noisy, "prompt": f"pour {UPDATES_A_SECOND} {counted}", "background": True}
        call(client, "send_agent_prompt", flood)
        try:
            return prompts()
        finally:
            call(client, "cancel_agent", {"agentId": noisy})
            check_rate(counted)

    if (up := sum(agent["status"] != "closed" for agent in agents_of(client))) != CROWD:
        raise ChainError(f"{up} agents are up and not {CROWD}")
    return {"among updates": among_floods, "alone": prompts}


def agents_of(client: Client) -> list[dict[str, Any]]:
    """The agents on record."""
    found: list[dict[str, Any]] = call(client, "list_agents", {"limit": 2 * CROWD})["agents"]
    return found


def check_rate(path: str) -> None:
    """Raise ChainError if the agent could not write its updates: then the daemon has read fewer still.

    What is written and not read is bounded by the pipe, which holds a twentieth of a second of them.
    """
    wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, "the agent's count of its updates")
    with open(path) as file:
        count, seconds = map(float, file.read().split())
    os.unlink(path)
    if count / seconds < LEAST_UPDATES_A_SECOND:
        raise ChainError(f"{count / seconds:,.0f} updates a second were sent and not {UPDATES_A_SECOND:,}")


class FirstChunk:
    """Owner of a connection that waits for the agent's first words."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    def updated(self, session_id: str, update: dict[str, Any]) -> None:
        if update.get("sessionUpdate") == "agent_message_chunk":
            self.came.set()

    def permission_asked(self, request: acp.PermissionRequest, answer: Callable[[str | None], None]) -> None:
        answer(None)

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        pass

    def ended(self, why: str) -> None:
        self.came.set()


def direct(stage: Stage) -> Action:
    """From the start of the agent's process to its first chunk, by the same client code, on the same kind of loop."""
    env = stage.env("direct")
    command = [PYTHON, "-S", AGENT, "--resume", "--state", os.path.join(stage.folder, "own-sessions")]
    loop = uvloop.new_event_loop()

    async def run() -> float:
        owner = FirstChunk()
        begin = perf_counter_ns()
        connection = AcpConnection("echo", owner, (command, env, "/tmp"), LIMITS)
        await connection.open()
        await connection.initialize()
        session = await connection.new_session("/tmp", [])
        turn = asyncio.ensure_future(connection.prompt(session.session_id, "hello"))
        await owner.came.wait()
        passed = milliseconds(begin)
        await turn
        await connection.stop()
        return passed

    return lambda: run_in(loop, run)


def run_in(loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[float]]) -> float:
    return loop.run_until_complete(work())


def record_memory_actions(stage: Stage) -> dict[str, Action]:
    """Memory that idle agents on record add to the daemon, after a restart: nothing of their turns is left then."""
    found: list[float] = []

    def added() -> float:
        if not found:
            found.append(records_mb(stage))
        return found[0]

    return {"idle": added}


def records_mb(stage: Stage) -> float:
    """Create the agents, start their daemon again, and compare it with one that has none."""
    plain = with_agents(HearthChain(stage, "no-agents", ECHO), stage)
    full = with_agents(HearthChain(stage, "idle-agents", ECHO), stage, max_agents=2 * RECORDS, idle_close=0.01)
    client = opened(full)
    for number in range(RECORDS):
        wanted = {"cwd": "/tmp", "title": f"agent {number}", "provider": "echo", "initialPrompt": "hello"}
        call(client, "create_agent", wanted)
    if (count := len(call(client, "list_agents", {"limit": 2 * RECORDS})["agents"])) != RECORDS:
        raise ChainError(f"{count} agents are on record and not {RECORDS}")
    full.stop()
    for chain, found in ((plain, 0), (full, 1)):
        if len(call(opened(chain), "list_agents", {"limit": 1})["agents"]) != found:
            raise ChainError("the records were not taken up")
    return resident_mb(full.daemon_pid()) - resident_mb(plain.daemon_pid())

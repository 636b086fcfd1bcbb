"""Processes and memory of agents: what they start ends with them, and what they were costs the daemon nothing."""

import os
import select

import pytest

from support.agents.home import AgentTools, opened, serve
from support.daemon import Daemon, Scratch
from support.kernel import BOUND_SECONDS, until

AT_ONCE = 50
# So many processes take a while to start.
PATIENCE_SECONDS = 120.0
# Allocators keep some memory that others have given back. A leak of the agents' timelines would be 30 MB a round.
GROWTH_LIMIT_KIB = 10 * 1024


def test_commands_in_sessions_of_their_own_end_with_their_agent(scratch: Scratch) -> None:
    serve(scratch)
    tools = opened(scratch)
    others = tools.create("detach")
    created = tools.create("detach")
    descriptor = os.pidfd_open(int(created["lastMessage"]))
    other = os.pidfd_open(int(others["lastMessage"]))
    tools.call("kill_agent", agentId=created["agentId"])
    assert select.select([descriptor], [], [], 0)[0], "the kernel says that it has ended"
    assert not select.select([other], [], [], 0)[0], "that of another agent lives"
    os.close(descriptor)
    os.close(other)


@pytest.mark.parametrize("end", ["exit 3", "kill -9"])
def test_commands_end_also_when_the_agent_ends_by_itself(scratch: Scratch, end: str) -> None:
    serve(scratch)
    tools = opened(scratch)
    created = tools.create("detach")
    descriptor = os.pidfd_open(int(created["lastMessage"]))
    if end == "kill -9":
        os.kill(tools.pid(created["agentId"]), 9)
    else:
        tools.send(created["agentId"], end)
    assert select.select([descriptor], [], [], BOUND_SECONDS)[0], "the kernel says that it has ended"
    os.close(descriptor)


# Two hundred agents start beside the flood, and the machine may be busy with other tests.
@pytest.mark.timeout(400)
def test_the_memory_of_agents_that_ended_is_used_again(scratch: Scratch) -> None:
    daemon = serve(scratch, agents={"max_running": AT_ONCE})
    tools = opened(scratch)
    tools.client.stream.socket.settimeout(PATIENCE_SECONDS)
    rounds = [resident_kib_after_a_round(tools, daemon) for _ in range(4)]
    # The first rounds fill caches and free lists.
    assert rounds[-1] - rounds[1] < GROWTH_LIMIT_KIB, rounds


def resident_kib_after_a_round(tools: AgentTools, daemon: Daemon) -> int:
    """Many agents with long timelines, created and killed; then the size of the daemon."""
    flooder = tools.create("pour 10000", background=True)["agentId"]
    # Each text is an entry of its own; the record of a closed agent keeps the last one.
    prompt = "\n".join([*["huge 60000", "think next"] * 10, "say done"])
    calls = [tools.begin("create_agent", cwd=tools.cwd, initialPrompt=prompt) for _ in range(AT_ONCE - 1)]
    for each in [flooder, *[tools.end(call)["agentId"] for call in calls]]:
        tools.call("kill_agent", agentId=each)
    until(lambda: tools.agents() == [], "all are closed")
    with open(f"/proc/{daemon.pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS:")).split()[1])

"""Attribution: the agent or client that a process descends from, by the kernel's word. A person's has neither.

Agents' processes count with and without a policy, whether or not the agent has a session; processes of clients count
only where there is a policy. Of several, the nearest one counts.
"""

import asyncio

from hearth.errors import Refused
from hearth.hub.agent_directory import MARK, ProcessOwner
from hearth.hub.hub import Hub
from hearth.hub.sessions import Proven, Session
from hearth.hub.sinks import NullSink

# Wire of the session that stands for an agent without one.
_PROCESS = "process"
_NEEDS_TOKEN = "a process below an agent needs the agent's token: `--token-file PATH` of the bridge"


class Attribution:
    """Attribution of processes to the sessions and agents of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def attributed(self, pid: int | None) -> Session | None:
        """Return the session that a process counts as; None for a person. Raises Refused.

        For an agent without a session it is one that is not open, and has no client.
        """
        owner = await self.owner_of(pid)
        if owner.agent is None or owner.sessions:
            return next(iter(owner.sessions), None)
        stand_in = Session(NullSink(), _PROCESS)
        self._hub.policy.prove(stand_in, self._proven(owner.agent))
        return stand_in

    async def agent_above(self, pid: int | None) -> str | None:
        """Return the agent that a process descends from, if there is one. Raises Refused."""
        if pid is None or not self._agents():
            return None
        return (await self.owner_of(pid)).agent

    async def owner_of(self, pid: int | None) -> ProcessOwner:
        """Return the agent or the client that is the nearest ancestor of a process.

        Raises Refused for a process that has ended: its ancestors are unknown, and it would count as a person.
        """
        agents, is_ruled = self._agents(), self._hub.policy.guard is not None
        if pid is None or not (agents or is_ruled):
            return ProcessOwner([])
        sessions = [each for each in self._hub.sessions if is_ruled and each.pid is not None]
        wires = [(session.pid or 0, session.wire == "frames") for session in sessions]
        family, clients, agent = await asyncio.to_thread(_relatives, pid, wires, agents, self._marks())
        if not family:
            raise Refused(
                f"the process {pid} that asks has ended, so nothing tells whether it is a person's; ask again"
            )
        if agent is not None:
            return ProcessOwner([each for each in self._hub.sessions if each.proven[1] == agent], agent)
        owned: dict[int | None, list[Session]] = {}
        for session, client in zip(sessions, clients, strict=True):
            for each in {client, session.pid}:
                owned.setdefault(each, []).append(session)
        return ProcessOwner(next((owned[each] for each in family if each in owned), []))

    def origin(self, pid: int | None, token: str | None) -> Proven | None:
        """Return the agent that a connection comes from below; None for any other connection. Raises Refused.

        A token does not change where a process comes from: `PolicySeam.admit` takes none but that agent's. With a
        policy a connection below an agent must have one. Without a policy it acts as the agent, whose own client may
        have Hearth in its config, too. Below a client that has proved an agent's id by a role token, any good token
        will do.

        Reads /proc in the loop, a millisecond, and only while there are agents: a session must not begin before.
        """
        if pid is None:
            return None
        is_ruled, agents = self._hub.policy.guard is not None, self._agents()
        sessions = [each for each in self._hub.sessions if is_ruled and each.is_agent and each.pid is not None]
        if not sessions and not agents:
            return None
        wires = [(session.pid or 0, session.wire == "frames") for session in sessions]
        family, clients, agent = _relatives(pid, wires, agents, self._marks())
        if not family or (is_ruled and agent and token is None):
            raise Refused(_NEEDS_TOKEN)
        if agent:
            return self._proven(agent)
        if is_ruled and token is None and not {*family}.isdisjoint({*clients, *(session.pid for session in sessions)}):
            raise Refused(_NEEDS_TOKEN)
        return None

    def _proven(self, agent: str) -> Proven:
        identity = self._hub.agents.identity(agent) if self._hub.agents else None
        return identity.role if identity else None, agent

    def _agents(self) -> dict[int, str]:
        return self._hub.agents.processes() if self._hub.agents else {}

    def _marks(self) -> dict[str, str]:
        return self._hub.agents.marks() if self._hub.agents else {}


def _relatives(
    pid: int, wires: list[tuple[int, bool]], agents: dict[int, str], marks: dict[str, str]
) -> tuple[list[int], list[int | None], str | None]:
    """Return the ancestors of a process, nearest first, the client's process of each connection, and the nearest agent.

    A process whose parent has ended has lost its ancestors; the mark of its agent is in its environment. Reads /proc.
    """
    from hearth.host import process_table

    family = process_table.ancestors(pid)
    agent = next((found for each in family if (found := agents.get(each) or _marked(each, marks))), None)
    return family, [process_table.client_of(*wire) for wire in wires], agent


def _marked(pid: int, marks: dict[str, str]) -> str | None:
    from hearth.host import marked_processes

    return marks.get(marked_processes.started_with(pid, MARK) or "") if marks else None

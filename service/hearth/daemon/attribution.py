"""Attribution: the agent or client that a process descends from, by the kernel's word. A person's has neither.

Agents' processes count with and without a policy, whether or not the agent has a session; processes of clients count
only where there is a policy. Of several, the nearest one counts.

With a policy a process below the daemon itself never counts as a person: the daemon starts MCP servers, and a tool of
one runs commands for any client. An instance that belongs to one session counts as that session. Ancestors of the
daemon are left out: the client whose bridge started it is not the one that calls. A server's process that has left the
line of descent is known by a variable in its environment.

A session over HTTP has no connection of its own: the processes that made its recent requests are its clients.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from hearth.errors import PersonRequired, Refused
from hearth.host import processes
from hearth.hub.agent_directory import MARK, ProcessOwner
from hearth.hub.hub import Hub
from hearth.hub.sessions import Proven, Session
from hearth.hub.sinks import ClientSink

# Processes of one session over HTTP that are remembered, the latest ones: clients that share a session, and commands
# such as curl.
CALLERS_LIMIT = 32
# Wire of the session that stands for an agent without one.
_PROCESS = "process"
_SERVED = (
    "this is for a person, and runs below an MCP server or another program of the daemon here; type it in a terminal of"
    " your own"
)
_STRAY = (
    "this process was started by an agent whose own process has ended, so it counts as no person and no agent; start"
    " it again in a terminal of your own"
)
_NEEDS_TOKEN = "a process below an agent needs the agent's token: `--token-file PATH` of the bridge"


class Attribution:
    """Attribution of processes to the sessions and agents of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        # Processes that made requests of sessions over HTTP, with the times of their starts, the latest last.
        self._callers: WeakKeyDictionary[Session, dict[int, int]] = WeakKeyDictionary()

    def called_by(self, session: Session, pid: int) -> None:
        """Remember a process that makes a request of a session over HTTP."""
        known, since = self._callers.setdefault(session, {}), processes.start_time(pid)
        if since is not None:
            known.pop(pid, None)
            known[pid] = since
            while len(known) > CALLERS_LIMIT:
                del known[next(iter(known))]

    def callers(self, session: Session) -> list[int]:
        """Return the processes that made the recent requests of a session over HTTP; some may have ended."""
        return list(self._callers.get(session, ()))

    async def attributed(self, pid: int | None) -> Session | None:
        """Return the session that a process counts as; None for a person. Raises Refused, also below a shared server.

        For an agent without a session it is one that is not open, and has no client.
        """
        owner = await self.owner_of(pid)
        if owner.is_served and not owner.sessions:
            raise PersonRequired(_SERVED)
        if owner.agent is None or owner.sessions:
            return next(iter(owner.sessions), None)
        stand_in = Session(ClientSink(), _PROCESS)
        self._hub.policy.prove(stand_in, self._proven(owner.agent))
        return stand_in

    async def agent_above(self, session: Session) -> str | None:
        """Return the agent that a session's client descends from, if there is one. Raises Refused."""
        for wire in self._wires([session]) if self._agents() else ():
            if wire.has_ended():
                continue
            if (agent := (await self.owner_of(wire.pid)).agent) is not None:
                return agent
        return None

    async def sessions_above(self, session: Session) -> list[Session]:
        """Return the sessions of the clients that a session's client descends from; not those of that client itself."""
        wires = self._wires(self._hub.sessions)
        own = [wire for wire in wires if wire.session is session]
        return await asyncio.to_thread(_above, own, wires) if own else []

    async def owner_of(self, pid: int | None) -> ProcessOwner:
        """Return the agent or the client that is the nearest ancestor of a process.

        Raises Refused for a process that has ended, whose ancestors are unknown, and for what an agent has left behind:
        both would count as a person.
        """
        agents, is_ruled = self._agents(), self._hub.policy.guard is not None
        agent_of_mark = self._agent_of_mark()
        if pid is None or not (is_ruled or agents):
            if pid is not None and agent_of_mark and await asyncio.to_thread(_marked, pid, agent_of_mark) is not None:
                raise Refused(_STRAY)
            return ProcessOwner([])
        wires = self._wires(self._hub.sessions if is_ruled else ())
        found = await asyncio.to_thread(_relatives, pid, wires, agents, agent_of_mark, is_ruled)
        if not found.family:
            raise Refused(
                f"the process {pid} that asks has ended, so nothing tells whether it is a person's; ask again"
            )
        if found.is_stray:
            raise Refused(_STRAY)
        if (agent := found.agent) is not None:
            return ProcessOwner([each for each in self._hub.sessions if each.proven[1] == agent], agent)
        owned: dict[int, list[Session]] = {}
        for wire, clients in zip(wires, found.clients, strict=True):
            for each in clients:
                owned.setdefault(each, []).append(wire.session)
        nearest = next((owned[each] for each in found.family if each in owned), None)
        if nearest is not None or not (is_ruled and found.is_served):
            return ProcessOwner(nearest or [])
        user = self._user_of(found.child)
        return ProcessOwner([user] if user else [], is_served=True)

    def origin(self, pid: int | None, token: str | None) -> Proven | None:
        """Return the agent that a connection comes from below; None for any other connection. Raises Refused.

        A token does not change where a process comes from: `PolicySeam.admit` takes none but that agent's. With a
        policy a connection below an agent must have one. Without a policy it acts as the agent, whose own client may
        have Hearth in its config, too. Below a client that has proved an agent's id by a role token, any good token
        will do.

        Reads /proc in the loop, one or two milliseconds, only while agents run or a policy and the pack `agents` are in
        force: a session must not begin before.
        """
        if pid is None or (pid == 0 and token is not None):
            # 0 is a process that this PID namespace does not have: those below an agent are in it, or in one below.
            return None
        is_ruled, agents = self._hub.policy.guard is not None, self._agents()
        wires = self._wires(each for each in self._hub.sessions if is_ruled and each.is_agent)
        if not (wires or agents or (is_ruled and self._hub.agents)):
            return None
        found = _relatives(pid, wires, agents, self._agent_of_mark(), has_servers=False)
        if found.is_stray:
            raise Refused(_STRAY)
        if not found.family and pid:
            raise Refused(f"the process {pid} that connects has ended, so nothing tells whether it was an agent's")
        if not found.family or (is_ruled and found.agent and token is None):
            raise Refused(_NEEDS_TOKEN)
        if found.agent:
            return self._proven(found.agent)
        if is_ruled and token is None:
            user = self._user_of(found.child)
            if (user and user.is_agent) or not set().union(*found.clients).isdisjoint(found.family):
                raise Refused(_NEEDS_TOKEN)
        return None

    def _wires(self, sessions: Iterable[Session]) -> "list[_Wire]":
        """Return the processes at the other ends of sessions, as far as they are known."""
        found = []
        for session in sessions:
            if session.pid is not None:
                found.append(_Wire(session, session.pid))
            found += [_Wire(session, *caller) for caller in self._callers.get(session, {}).items()]
        return found

    def _user_of(self, child: int | None) -> Session | None:
        """Return the session that an instance of a server belongs to, by its process; None for any other process."""
        if child is not None:
            for server in self._hub.servers.values():
                for instance in server.instances.values():
                    if child in instance.pids and isinstance(owner := instance.owner, Session) and not owner.left:
                        return owner
        return None

    def _proven(self, agent: str) -> Proven:
        identity = self._hub.agents.identity(agent) if self._hub.agents else None
        return identity.role if identity else None, agent

    def _agents(self) -> dict[int, str]:
        return self._hub.agents.processes() if self._hub.agents else {}

    def _agent_of_mark(self) -> Callable[[str], str | None] | None:
        """Return what finds the agent of a mark, "" for one of this profile that has ended; None without agents."""
        if (agents := self._hub.agents) is None:
            return None
        marks, has_made = agents.marks(), agents.has_made
        return lambda mark: marks.get(mark, "" if has_made(mark) else None)


class _Wire(NamedTuple):
    """Session with a process at its other end. `since` is the start of one whose connection may have ended."""

    session: Session
    pid: int
    since: int | None = None

    def has_ended(self) -> bool:
        """Tell whether the process is known to have ended; another one may have the pid by now."""
        return self.since is not None and not processes.is_alive(self.pid, self.since)

    def clients(self) -> set[int]:
        """Return the processes of the client: a bridge's is the one that started it. Reads /proc."""
        from hearth.host.process_table import client_of

        if self.has_ended():
            return set()
        client = client_of(self.pid, self.session.wire == "frames")
        return {self.pid} if client is None else {self.pid, client}


class _Relatives(NamedTuple):
    """Process with its ancestors below the daemon, nearest first, and what is known of them.

    `clients` are the clients' processes of each connection, `agent` is the nearest agent. `child` is the child of the
    daemon that the process descends from; `is_served`: there is one, or one of the family has a server's mark.
    `is_stray`: the nearest agent's process has ended.
    """

    family: list[int]
    clients: list[set[int]]
    agent: str | None
    child: int | None
    is_served: bool
    is_stray: bool


def _relatives(
    pid: int,
    wires: list[_Wire],
    agents: dict[int, str],
    agent_of_mark: Callable[[str], str | None] | None,
    has_servers: bool,
) -> _Relatives:
    """Find the relatives of a process; its family is empty if it has ended. Reads /proc.

    A process whose parent has ended has lost its ancestors; the mark of its agent or server is in its environment.
    """
    from hearth.host import process_table
    from hearth.host.marked_processes import SERVER_MARK, started_with

    family, child = process_table.ancestors(pid), None
    if (daemon := os.getpid()) in family[1:]:
        at = family.index(daemon, 1)
        family, child = family[:at], family[at - 1]
    finds = (agents.get(each) or _marked(each, agent_of_mark) for each in family)
    agent = next((found for found in finds if found is not None), None)
    is_served = child is not None
    if has_servers and not is_served and not agent:
        is_served = any(started_with(each, SERVER_MARK) is not None for each in family)
    return _Relatives(family, [wire.clients() for wire in wires], agent or None, child, is_served, agent == "")


def _above(own: list[_Wire], wires: list[_Wire]) -> list[Session]:
    """Find the sessions whose clients are above those of some connections. Reads /proc."""
    from hearth.host import process_table

    above: set[int] = set()
    for wire in own:
        if clients := wire.clients():
            above.update(set(process_table.ancestors(wire.pid)) - clients)
    return [wire.session for wire in wires if not above.isdisjoint(wire.clients())]


def _marked(pid: int, agent_of_mark: Callable[[str], str | None] | None) -> str | None:
    from hearth.host import marked_processes

    mark = marked_processes.started_with(pid, MARK) if agent_of_mark else None
    return agent_of_mark(mark) if agent_of_mark and mark else None

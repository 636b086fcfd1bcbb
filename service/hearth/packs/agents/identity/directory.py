"""Agents as the hub sees them: who holds a token, who is above whom, which processes are whose."""

from typing import TYPE_CHECKING

from hearth.hub.agent_directory import AgentIdentity
from hearth.packs.agents.process import launch

if TYPE_CHECKING:
    from hearth.hub.authorization.pending import PendingItem
    from hearth.hub.hub import Hub
    from hearth.packs.agents.service import AgentService
    from hearth.policy.stop_checks import StopFacts


# Wires whose sessions are connections: they show a token once, as they begin.
_CONNECTIONS = ("frames", "lines")


def end_sessions(hub: "Hub", agent_id: str) -> None:
    """End the sessions of an agent that was closed: a process that outlives it has nothing of its role any more."""
    for session in hub.sessions:
        if session.proven[1] == agent_id and session.wire in _CONNECTIONS:
            session.sink.close()
            hub.close_session(session)


class Directory:
    """Directory of one daemon's agents. Implements `hub.agent_directory.AgentDirectory`."""

    def __init__(self, service: "AgentService") -> None:
        self._service = service

    def holder(self, token: str) -> tuple[str | None, str] | None:
        """Return the role and the id of the agent whose token this is; None for any other text."""
        agent_id = self._service.tokens.holder(token)
        agent = self._service.agents.get(agent_id) if agent_id else None
        return (agent.record.role, agent.id) if agent and not agent.is_closed else None

    def identity(self, agent_id: str) -> AgentIdentity | None:
        """Return an agent; None for one that is closed or unknown."""
        agent = self._service.agents.get(agent_id)
        if agent is None or agent.is_closed:
            return None
        return AgentIdentity(agent.record.role, agent.record.cwd, agent.record.provider)

    def ancestors(self, agent_id: str) -> list[str]:
        """Return the ids of the agents above an agent, nearest first; none for an unknown one."""
        return [*self._service.ancestors(agent_id)]

    def processes(self) -> dict[int, str]:
        """Return the agents' ids by the pids of their processes."""
        return {each.pid: agent.id for agent in self._service.agents.values() for each in agent.sessions}

    def marks(self) -> dict[str, str]:
        """Return the agents' ids by the values of MARK in their processes' environments."""
        return {each.mark: agent.id for agent in self._service.agents.values() for each in agent.sessions}

    def has_made(self, mark: str) -> bool:
        """Tell whether a value of MARK is of an agent of this profile, also of one that a former daemon ran."""
        return mark.startswith(launch.mark_prefix(self._service.places))

    def stop_facts(self, agent_id: str) -> "StopFacts":
        """Return what is known of an agent that stops."""
        from hearth.packs.team.stop_facts import AgentStopFacts
        from hearth.policy.stop_checks import NoFacts

        service, agent = self._service, self._service.agents.get(agent_id)
        if agent is None:
            return NoFacts()
        # The facts are read from the store.
        agent.flush()
        return AgentStopFacts(service, agent.record, bool(service.hub.config.team.file_pr))

    def lead_asked(self, lead: str, item: "PendingItem") -> None:
        """Tell a lead agent that a request of an agent below it waits for its decision."""
        asker = getattr(item, "asker", None)
        if asker is not None and asker.agent:
            self._service.delivery.post(lead, asker.agent, "permission")

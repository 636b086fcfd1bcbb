"""Leads: the session or agent that is asked first about a call, and the ones that may not be.

The lead of an agent's request is the nearest agent above it whose role has `lead`. Else, and for every other client,
the lead is the one lead session of the same workspace. A lead that is an agent is asked under its id: its sessions come
and go, and it is there until it is closed.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hearth.hub.agent_directory import AgentDirectory
from hearth.hub.authorization.pending import Asker
from hearth.hub.sessions import Session, Sessions
from hearth.policy.model import Role
from hearth.policy.trust import workspace_of

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard


class Lead(NamedTuple):
    """Lead that is asked: an agent by its id, or a session by its own."""

    agent: str | None = None
    session: str | None = None


class Leads:
    """Leads of one daemon. `roles` is the guard, and `agents` returns the directory of agents, if there is one."""

    def __init__(
        self, sessions: Sessions, agents: Callable[[], AgentDirectory | None], roles: "Callable[[], Guard]"
    ) -> None:
        self._sessions = sessions
        self._agents = agents
        self._roles = roles

    def find(self, asker: Asker) -> Lead | None:
        """Return the lead that is asked about a call; None if a person is."""
        for ancestor in self._above(asker.agent):
            if self._leads(ancestor):
                return Lead(agent=ancestor)
        found = {
            session.principal: Lead(agent) if (agent := self._agent_of(session)) else Lead(session=session.id)
            for session in self._sessions
            if session.active and self._is_lead_session(session) and not self.is_below(session, asker)
            if session.principal != asker.principal and workspace_of(session.cwd) == workspace_of(asker.workspace)
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def is_there(self, lead: Lead) -> bool:
        """Tell whether a lead can still decide: it has neither left nor been closed, and its role has `lead`."""
        if lead.agent is not None:
            return self._leads(lead.agent)
        session = self._sessions.get(lead.session or "")
        return session is not None and self._is_lead_session(session)

    def speaks_for(self, session: Session, lead: Lead) -> bool:
        """Tell whether a session is the lead's, or one of a lead agent's."""
        return session.proven[1] == lead.agent if lead.agent is not None else session.id == lead.session

    def is_below(self, session: Session, asker: Asker) -> bool:
        """Tell whether a session belongs to an agent that the asker, an agent itself, stands above."""
        agent = session.proven[1]
        return agent is not None and bool(asker.agent) and asker.agent in self._above(agent)

    def _above(self, agent: str) -> list[str]:
        agents = self._agents()
        return agents.ancestors(agent) if agents and agent else []

    def _agent_of(self, session: Session) -> str | None:
        """Return the agent of a session; None for an id that only a role token has, whose client is no agent here."""
        agents, agent = self._agents(), session.proven[1]
        return agent if agents and agent is not None and agents.identity(agent) else None

    def _leads(self, agent: str) -> bool:
        agents = self._agents()
        identity = agents.identity(agent) if agents else None
        if identity is None:
            return False
        policy = self._roles().policy
        return _is_lead(policy.roles.get(identity.role or policy.default_role))

    def _is_lead_session(self, session: Session) -> bool:
        roles = self._roles()
        return _is_lead(roles.policy.roles.get(roles.role_name(session)))


def _is_lead(role: Role | None) -> bool:
    return role is not None and role.lead

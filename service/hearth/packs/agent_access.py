"""Agents of this daemon as the packs `self-id` and `team` see them: the caller of a tool, and the agents around it."""

from typing import TYPE_CHECKING, Protocol

from hearth.packs.agents.model import AgentRecord
from hearth.upstreams.pack_api import CallContext, ToolError

if TYPE_CHECKING:
    from hearth.hub.hub import Hub
    from hearth.packs.agents.service import AgentService


class AgentServices(Protocol):
    """Protocol for the daemon, as the packs of agents see it."""

    hub: "Hub"

    def agents(self) -> "AgentService":
        """Return the agents of this daemon."""


def caller_of(services: AgentServices, context: CallContext) -> AgentRecord:
    """Return the agent that calls a tool. Raises ToolError unless its session's token proves who it is."""
    session = services.hub.sessions.get(context.session_id or "")
    agent_id = session.proven[1] if session else None
    if agent_id is None:
        raise ToolError("NOT_ALLOWED: this tool is for agents that Hearth runs; the token of each proves who it is")
    agent = services.agents().agents.get(agent_id)
    if agent is None:
        raise ToolError(f"Agent {agent_id} not found")
    if agent.record.status == "closed":
        raise ToolError(f"NOT_ALLOWED: agent {agent_id} is closed")
    return agent.record

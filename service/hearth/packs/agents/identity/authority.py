"""Authority over agents: the caller of a command, and the agents on which it may act. No I/O.

An agent acts on its descendants only; the proof of its identity is its token, never a claim. Any other client acts on
all agents: its role decides which tools it has. A person at the command line acts on all agents as well.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import Refused

if TYPE_CHECKING:
    from hearth.hub.sessions import Session
    from hearth.packs.agents.model import AgentRecord

# Names of clients, which may be anything, in records.
NAME_CHARACTERS = 80


class UnknownAgent(Refused):
    """Error for an id that no agent has."""

    def __init__(self, agent_id: str) -> None:
        super().__init__(f"Agent {agent_id} not found")


class Recorded(Protocol):
    """Protocol for an agent, as far as its record is concerned."""

    record: "AgentRecord"


class AgentCaller(NamedTuple):
    """AgentCaller of a command: an agent by its proven id, another client, or a person."""

    agent_id: str | None = None
    # Name of the client, as it gives it.
    name: str = ""
    cwd: str | None = None
    is_person: bool = False
    # Session that asks; None for a person at the command line.
    session: "Session | None" = None

    @classmethod
    def of(cls, session: "Session | None", cwd: str | None, is_person: bool) -> "AgentCaller":
        """Return the caller at a session, or at the command line."""
        if session is None:
            return cls(None, "hearth" if is_person else "", cwd, is_person)
        name = session.client.get("name", "")[:NAME_CHARACTERS]
        return cls(session.proven[1], name, cwd or session.cwd, is_person and not session.is_agent, session)


def ancestors(agents: Mapping[str, Recorded], agent_id: str) -> list[str]:
    """Return the ancestors of an agent, nearest first, also those that are closed."""
    found: list[str] = []
    agent = agents.get(agent_id)
    while agent is not None and (parent := agent.record.parent_id) is not None and parent not in found:
        found.append(parent)
        agent = agents.get(parent)
    return found


def may_act(caller: AgentCaller, agents: Mapping[str, Recorded], agent_id: str) -> bool:
    """Tell whether a caller may act on an agent."""
    return caller.agent_id is None or caller.agent_id in ancestors(agents, agent_id)


def check(caller: AgentCaller, agents: Mapping[str, Recorded], agent_id: str) -> None:
    """Raise Refused unless the agent exists and the caller may act on it."""
    if agent_id not in agents:
        raise UnknownAgent(agent_id)
    if not may_act(caller, agents, agent_id):
        raise Refused(
            f"Agent {agent_id} is not a descendant of agent {caller.agent_id}: an agent acts on the agents that it"
            " created, and on theirs; list_agents shows them"
        )


# --- modes of children

# Modes of the built-in providers that mean the same. The first of each is the one that stands for all.
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("plan", "read-only"),
    ("default", "auto", "acceptEdits", "autoEdit", "auto_edit", "build"),
    ("bypassPermissions", "full-access", "yolo"),
)


def inherited_mode(mode: str | None, available: list[str]) -> str | None:
    """Return the mode of a child for its parent's mode; None: the child begins in its own default mode.

    Providers name their modes differently: plan and read-only, default and auto, bypassPermissions and full-access.
    """
    if mode is None or mode in available:
        return mode
    level = next((level for level in _LEVELS if mode in level), ())
    return next((each for each in level if each in available), None)

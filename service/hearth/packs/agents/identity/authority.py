"""Authority over agents: the caller of a command, and the agents on which it may act. No I/O.

An agent acts on its descendants only; the proof of its identity is its token, never a claim. Any other client acts on
all agents: its role decides which tools it has. A person at the command line acts on all agents as well.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import Refused
from hearth.packs.agents.providers import never_asks
from hearth.upstreams.pack_api import CallContext, ToolError

if TYPE_CHECKING:
    from hearth.hub.sessions import Session
    from hearth.packs import PackServices
    from hearth.packs.agents.model import AgentRecord
    from hearth.packs.agents.providers import Provider

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
    """Caller of a command: an agent by its proven id, another client, or a person."""

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

# Modes of the built-in providers, by how much they ask: those of one line ask alike, those of a later line ask less.
_LEVELS: tuple[tuple[str, ...], ...] = (
    # Before anything but reading; the agent is told not to try anything else.
    ("plan", "read-only"),
    # Before each change and each command. `dontAsk` refuses what the others ask about.
    ("default", "dontAsk"),
    # Before each command, and not before changes of files.
    ("acceptEdits", "autoEdit", "auto_edit"),
    # Before a command that needs more than its sandbox.
    ("workspace-write",),
    # Modes that never ask: a model judges in these, and in the next nothing does.
    ("auto", "agent"),
    ("bypassPermissions", "agent-full-access", "full-access", "yolo"),
)
_LEVEL_OF = {mode: level for level, modes in enumerate(_LEVELS) for mode in modes}
_DEFAULT, _NEVER, _FULL = _LEVEL_OF["default"], _LEVEL_OF["auto"], _LEVEL_OF["yolo"]


def inherited_mode(
    parent: tuple[str, str | None], child: "Provider", available: Sequence[str], current: str | None
) -> str | None:
    """Return the mode of a child for its parent's provider and mode: the one that asks as much, or else more.

    If every mode that is known asks less, it is the one among them that asks most. `current` is the mode that the child
    has begun in; None is for a child without modes. Raises Refused if no mode is known to ask.
    """
    provider, mode = parent
    if not available or (provider == child.name and mode in available):
        return mode if mode in available else None
    # A mode that is not known asks about everything, perhaps.
    wanted = _LEVEL_OF.get(mode or "", _DEFAULT)
    levels = {each: level for each in available if (level := _level(child, each)) is not None}
    as_strict = [level for level in levels.values() if level <= wanted]
    asking = [level for level in levels.values() if level < _NEVER]
    if not as_strict and not asking:
        raise Refused(
            f"no mode of {child.name!r} is known to ask as much as yours ({mode or 'none'}): give one of its modes"
            f" (mode): {', '.join(available)}"
        )
    level = max(as_strict) if as_strict else min(asking)
    return (
        current if current and levels.get(current) == level else next(each for each in levels if levels[each] == level)
    )


def _level(provider: "Provider", mode: str) -> int | None:
    """Return how little an agent asks in a mode; None if that is not known."""
    level = _LEVEL_OF.get(mode)
    if never_asks(provider, mode):
        return level if level is not None and level >= _NEVER else _FULL
    return level


def caller_of(services: "PackServices", context: CallContext) -> "AgentRecord":
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

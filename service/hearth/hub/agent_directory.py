"""Agents as the hub knows them: tokens, ancestry, processes. The pack `agents` installs its directory as `hub.agents`.

Without the pack there is none: nothing is asked, and nothing is loaded. An agent shows who it is by the token that it
was started with, or by its processes; an id that is only claimed proves nothing. Does no I/O.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from hearth.errors import Refused, RoleRefused
from hearth.hub.sessions import Proven, Session

if TYPE_CHECKING:
    from hearth.hub.authorization.pending import PendingItem
    from hearth.policy.stop_checks import StopFacts

# Beginning of every agent's token, by which it is told from a role token.
TOKEN_PREFIX = "hearth-agent-"
# Variable by which every process that an agent starts is found: at the agent's end, and when it asks for something.
# Commands have sessions of their own, and outlive their parents.
MARK = "HEARTH_AGENT"


class AgentIdentity(NamedTuple):
    """Agent that is not closed. `role` is None for the default role, `cwd` the folder that it was given.

    `client` is the name under which people see it, such as that of its provider.
    """

    role: str | None = None
    cwd: str | None = None
    client: str = ""


class AgentDirectory(Protocol):
    """Protocol for the agents of this daemon. All methods are called in the loop, and none of them waits."""

    def holder(self, token: str) -> tuple[str | None, str] | None:
        """Return the role and the id of the agent whose token this is; None for any other text."""

    def identity(self, agent_id: str) -> AgentIdentity | None:
        """Return an agent; None for one that is closed or unknown."""

    def ancestors(self, agent_id: str) -> list[str]:
        """Return the ids of the agents above an agent, nearest first; none for an unknown one."""

    def processes(self) -> dict[int, str]:
        """Return the agents' ids by the pids of their processes; descendants of these processes count as well."""

    def marks(self) -> dict[str, str]:
        """Return the agents' ids by the values of MARK in their processes' environments."""

    def has_made(self, mark: str) -> bool:
        """Tell whether a value of MARK is of an agent of this profile, also of one that a former daemon ran."""

    def stop_facts(self, agent_id: str) -> "StopFacts":
        """Return what is known of an agent that stops. Its methods are called in another thread."""

    def lead_asked(self, lead: str, item: "PendingItem") -> None:
        """Take note that something waits for the decision of a lead agent, which is to hear of it."""


class ProcessOwner(NamedTuple):
    """Client or agent that a process descends from: the sessions of the nearest one, the first one first.

    `agent` is the nearest agent whose process is above. A person's process has neither. `is_served`: neither is nearer
    than the daemon itself, so that a tool of an MCP server runs the process; then `sessions` has the one session that
    the server's instance belongs to, if there is one.
    """

    sessions: list[Session]
    agent: str | None = None
    is_served: bool = False


def proven_by(agents: AgentDirectory | None, token: str | None) -> Proven | None:
    """Return the role and the id that an agent's token proves; None for no agent's token. Raises RoleRefused."""
    if token is None or not token.startswith(TOKEN_PREFIX):
        return None
    holder = agents.holder(token) if agents else None
    if holder is None:
        what = "the agent token is unknown: it ended with its agent's process, or with the daemon"
        raise RoleRefused(f"{what}; a client of your own needs a token of `hearth role token ROLE`", "unknown")
    return holder


def check_claim(proven: str | None, claimed: str | None) -> None:
    """Raise Refused for a client that claims another agent's id than the one that it proves."""
    if proven is not None and claimed is not None and claimed != proven:
        what = f"this client is agent {proven!r}, and not {claimed[:200]!r}"
        raise Refused(f"NOT_ALLOWED: {what}; leave --agent-id out, or give the token of that agent")


def check_origin(proven: Proven | None, origin: Proven | None, is_ruled: bool) -> None:
    """Raise Refused for a token, shown below an agent, that proves another one; with a policy also for no agent's."""
    if origin is None or (proven is None and not is_ruled):
        return
    if proven is None or proven[1] != origin[1]:
        what = f"this process is below agent {origin[1]!r}, and its token is not that agent's"
        raise Refused(f"NOT_ALLOWED: {what}; the bridge that Hearth gave to the agent has the right one")

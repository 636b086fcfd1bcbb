"""Agents of this daemon as the packs `self-id` and `team` see them: the caller of a tool, and the agents around it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hearth.packs.agents.model import AgentRecord, NoticeKind, PullRequest, Task, TaskStatus, TeamMessage
from hearth.upstreams.pack_api import CallContext, ToolError

if TYPE_CHECKING:
    from hearth.hub.hub import Hub
    from hearth.packs.agents.notices.outbox import Notices


class TeamStore(Protocol):
    """Protocol for the store, as far as teams use it. Every method raises FileAccessError if the disk refuses."""

    async def add_message(self, message: TeamMessage) -> None:
        """Keep a message. Raises Refused for a recipient with too many unread ones."""

    async def messages(self, recipient: str, unread_only: bool, limit: int) -> Sequence[TeamMessage]:
        """Return the oldest unread messages for an agent, or the newest of all, the oldest first."""

    async def mark_read(self, ids: Iterable[str]) -> None:
        """Note that messages were read."""

    async def put_task(self, task: Task) -> None:
        """Keep a task, new or changed. Raises Refused for a workspace with too many."""

    async def tasks(self, workspace: str | None, status: TaskStatus | None = None) -> Sequence[Task]:
        """Return the tasks of a workspace, the oldest first."""

    async def task(self, id: str) -> Task | None:
        """Return a task."""

    async def add_pull_request(self, request: PullRequest) -> None:
        """Keep a pull request."""

    async def pull_requests(self, agent_id: str) -> Sequence[PullRequest]:
        """Return the pull requests that an agent has filed."""

    async def timeline(self, agent_id: str, limit: int | None = None, after: int = 0) -> Sequence[Any]:
        """Return the items of an agent's timeline, the oldest first."""


class RecordedAgent(Protocol):
    """Protocol for an agent, as far as its record is concerned."""

    @property
    def record(self) -> AgentRecord:
        """Record of the agent."""


class NoticeSource(Protocol):
    """Protocol for the delivery of notices."""

    @property
    def notices(self) -> "Notices":
        """Undelivered notices of all agents."""


class AgentSource(Protocol):
    """Protocol for the service of the pack `agents`."""

    @property
    def hub(self) -> "Hub":
        """Hub, which knows the sessions."""

    @property
    def agents(self) -> Mapping[str, RecordedAgent]:
        """Agents by their ids, closed ones included."""

    @property
    def store(self) -> TeamStore:
        """Store of messages, tasks and pull requests."""

    @property
    def delivery(self) -> NoticeSource:
        """Delivery of notices to agents."""

    def record_changed(self, record: AgentRecord) -> None:
        """Keep a record that was changed, and tell of the change."""

    async def notify(self, recipient_id: str, child_id: str, kind: NoticeKind) -> None:
        """Tell an agent that something of another one waits for it."""

    def take_message_notices(self, recipient_id: str) -> Sequence[str]:
        """Take back the notices of messages that wait for an agent; return the senders."""


class AgentServices(Protocol):
    """Protocol for the daemon, as the packs of agents see it."""

    hub: "Hub"

    def agents(self) -> AgentSource:
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

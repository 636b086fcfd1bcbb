"""Data of agents, as they are stored and shown. Pure.

An agent is a coding agent that the daemon runs as a child and drives over the Agent Client Protocol. Statuses:

    initializing   its process starts, or its session is being opened or resumed
    idle           no turn runs; the process may have been given back, if the session can be resumed
    running        a turn runs
    error          the last turn failed; the next prompt tries again
    closed         killed, or lost for good; the reason is kept
"""

import os
import time
from typing import Literal

import msgspec

Status = Literal["initializing", "idle", "running", "error", "closed"]
NoticeKind = Literal["finished", "errored", "cancelled", "closed", "permission", "message"]
# Why an agent requires attention: its last turn has ended, or it asks for a permission.
AttentionReason = Literal["finished", "error", "permission"]
TaskStatus = Literal["pending", "in_progress", "completed", "cancelled"]

# Order of `list_agents`: those that work come first.
STATUS_ORDER: tuple[Status, ...] = ("running", "initializing", "idle", "error", "closed")
# Titles are for one line of a table.
TITLE_CHARACTERS = 60
_ID_BYTES = 6
_ROW_ID_BYTES = 4


def new_agent_id() -> str:
    """Return a new agent id: a letter first, so that no id looks like a number."""
    return "a" + os.urandom(_ID_BYTES).hex()


def new_row_id() -> str:
    """Return a new id of a notice, message, task or pull request."""
    return os.urandom(_ROW_ID_BYTES).hex()


class Mode(msgspec.Struct, frozen=True):
    """Session mode of an agent, as the agent names it."""

    id: str
    label: str
    description: str | None = None


class Worktree(msgspec.Struct, frozen=True):
    """Git worktree that Hearth made for one agent. `repository` is the main working tree, `base` the branch it began
    at, and `branch` the one that was made with it.
    """

    path: str
    repository: str
    name: str
    branch: str
    base: str
    # Folder below `path` where the agent works, if its worktree was requested in a folder below the top.
    subfolder: str = ""
    # Sentences for the creator, such as that uncommitted work is not in the worktree.
    note: str | None = None

    @property
    def cwd(self) -> str:
        """Folder in which the agent works."""
        return os.path.join(self.path, self.subfolder) if self.subfolder else self.path


class AgentRecord(msgspec.Struct, kw_only=True):
    """State of one agent that outlives its process and the daemon. Times are seconds since 1970."""

    id: str
    provider: str
    cwd: str
    title: str | None = None
    # Whether the agent or its creator named it; else the title is the first line of the first prompt.
    has_own_title: bool = False
    role: str | None = None
    mode: str | None = None
    # Mode that an authorized caller has set; the agent may have switched itself to another one since.
    chosen_mode: str | None = None
    modes: list[Mode] = []
    parent_id: str | None = None
    # Name of the client that created it, and the folder of that client's session.
    creator: str = ""
    workspace: str | None = None
    worktree: Worktree | None = None
    labels: dict[str, str] = {}
    status: Status = "initializing"
    created_at: float = msgspec.field(default_factory=time.time)
    updated_at: float = msgspec.field(default_factory=time.time)
    last_user_message_at: float | None = None
    # Session of the Agent Client Protocol, and the ways in which a new process can continue it.
    session_id: str | None = None
    can_load: bool = False
    can_resume: bool = False
    model: str | None = None
    # Model that its creator has named; each process is told.
    wanted_model: str | None = None
    usage: dict[str, float] | None = None
    last_error: str | None = None
    last_message: str | None = None
    # Number of turns so far: notices of two turns are two notices.
    turn: int = 0
    closed_reason: str | None = None
    closed_at: float | None = None
    # Whether the parent is told when a turn of this agent ends.
    notify: bool = True
    # Distance from the agent that no agent has created.
    depth: int = 0
    attention: AttentionReason | None = None
    attention_at: float | None = None

    @property
    def is_resumable(self) -> bool:
        """Whether a new process can continue the session."""
        return self.session_id is not None and (self.can_load or self.can_resume)


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Notice for a parent that a child ended a turn or needs a decision. Holds only what the daemon itself made."""

    parent_id: str
    child_id: str
    kind: NoticeKind
    turn: int
    # Title of the child, untrusted.
    title: str = ""
    id: str = msgspec.field(default_factory=new_row_id)
    created: float = msgspec.field(default_factory=time.time)


class TeamMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Message between agents. `content` and `summary` are untrusted text of the sender."""

    sender: str
    recipient: str
    content: str
    summary: str = ""
    id: str = msgspec.field(default_factory=new_row_id)
    created: float = msgspec.field(default_factory=time.time)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Task of a team. `owner` is the agent that works on it."""

    subject: str
    description: str = ""
    status: TaskStatus = "pending"
    owner: str | None = None
    active_form: str = ""
    workspace: str | None = None
    created_by: str = ""
    id: str = msgspec.field(default_factory=new_row_id)
    created: float = msgspec.field(default_factory=time.time)
    updated: float = msgspec.field(default_factory=time.time)


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Pull request that an agent filed through `file_pr`."""

    agent_id: str
    title: str
    url: str = ""
    base: str = ""
    id: str = msgspec.field(default_factory=new_row_id)
    created: float = msgspec.field(default_factory=time.time)

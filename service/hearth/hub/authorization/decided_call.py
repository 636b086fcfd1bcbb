"""Decision about one call, from the moment it is made to the row of the audit trail."""

import hashlib
from time import monotonic, time
from typing import TYPE_CHECKING, Protocol

import msgspec

from hearth.hub.authorization.approvals import Approval
from hearth.hub.authorization.pending import Asker, Settlement
from hearth.hub.sessions import Session
from hearth.mcp.messages import AROUND_ID_BYTES
from hearth.policy.audit_files import AuditEntry
from hearth.policy.grants import CallGrant, GrantKey
from hearth.policy.model import Decision, Policy

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard
    from hearth.policy.decision import ByName

# Arguments up to this size are kept until the audit trail's thread makes their digest. Its queue has 20,000 entries.
LATE_DIGEST_BYTES = 512

# Tools of one session; names come from servers, so that there must be a bound.
KNOWN_LIMIT = 4096

# Name of a server, empty for a client's own tool, and the tool's own name there.
ToolName = tuple[str, str]


class Recorder(Protocol):
    """Protocol for the audit trail, as the guard uses it."""

    def call(self, permit: "Permit") -> None:
        """Record a finished or refused call. Never blocks."""

    async def approval(self, approval: Approval, outcome: Settlement) -> None:
        """Record a decision of a lead or a person; return when it is on disk. Raises FileAccessError."""


class Standing:
    """Role and policy by which calls are decided, kept with the session until one of them changes.

    `base` and `projects` are what the guard had then: as long as it has the same, `policy` is the one in force.
    """

    __slots__ = ("base", "by_name", "guard", "policy", "projects", "recorder", "role", "who")

    def __init__(self, guard: "Guard", policy: Policy, who: Session | Asker, role: str) -> None:
        self.guard = guard
        self.recorder = guard.recorder
        self.base = guard.policy
        self.projects = guard.projects
        self.policy = policy
        self.who = who
        self.role = role
        # Tools whose calls are allowed by their names: most calls need no more than a look here.
        self.by_name: dict[ToolName, ByName] = {}

    def know(self, name: ToolName, decision: "ByName | None") -> None:
        """Keep the decision about a tool, if its name alone allows it."""
        if decision is not None:
            if len(self.by_name) >= KNOWN_LIMIT:
                self.by_name.clear()
            self.by_name[name] = decision

    @property
    def asker(self) -> Asker:
        """Principal that makes the calls, in the role that is decided about."""
        return self.who if isinstance(self.who, Asker) else self.guard.asker(self.who)._replace(role=self.role)


class Permit(msgspec.Struct, eq=False):
    """Decision about one call, kept with the call until its answer, and then the entry of the audit trail about it.

    Every call makes one, so that it holds what is at hand, and the audit trail's thread asks for the rest. A struct is
    made without running Python code.
    """

    standing: Standing
    name: ToolName
    # Arguments, or their digest if they are long.
    arguments: bytes | str
    decision: Decision
    started: float
    grant: CallGrant | None = None
    key: GrantKey | None = None
    outcome: str = ""
    # End of the call, by the clock that `started` is of, and by the calendar.
    stopped: float = 0.0
    ended: float = 0.0

    @property
    def asker(self) -> Asker:
        """Principal that makes the call, in the role that was decided about."""
        return self.standing.asker

    @property
    def role(self) -> str:
        """Role that was decided about."""
        return self.standing.role

    @property
    def server(self) -> str:
        """Name of the server; empty for a client's own tool."""
        return self.name[0]

    @property
    def tool(self) -> str:
        """Name of the tool at its server."""
        return self.name[1]

    @property
    def digest(self) -> str:
        """Digest of the arguments."""
        return self.arguments if isinstance(self.arguments, str) else digest_of(self.arguments)

    def fits(self, standing: Standing, name: ToolName) -> bool:
        """Tell whether the decision still holds. A grant may have been revoked since, and its tool have changed."""
        return self.standing.policy is standing.policy and self.grant is None and self.name == name

    def finished(self, payload: bytes, id: bytes) -> None:
        """Record that the call was answered, by the payload."""
        # As `end` does it, without a call of it: every call ends here.
        self.outcome = "error" if payload.startswith(b'"error"', AROUND_ID_BYTES + len(id)) else "answered"
        self.stopped = monotonic()
        self.ended = time()
        self.standing.recorder.call(self)

    def cancelled(self) -> None:
        """Record that the client has cancelled the call."""
        self.end("cancelled")

    def end(self, outcome: str) -> None:
        """Record the end of the call, or that it was not made."""
        self.outcome = outcome
        self.stopped = monotonic()
        self.ended = time()
        self.standing.recorder.call(self)

    def made(self) -> AuditEntry:
        """Return the entry of the audit trail."""
        asker, grant, decision = self.asker, self.grant, self.decision
        return AuditEntry(
            self.ended,
            "call" if self.server else "hook",
            asker.session,
            asker.client,
            asker.agent,
            asker.role,
            self.server,
            self.tool,
            self.digest,
            decision.outcome,
            grant.decided_by if grant else decision.source,
            f"grant {grant.id}" if grant else "policy",
            decision.reason,
            self.outcome,
            round(self.stopped - self.started, 6),
        )


def digest_of(data: bytes) -> str:
    """Return the digest of raw arguments or of a definition."""
    return hashlib.sha256(data).hexdigest()

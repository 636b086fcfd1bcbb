"""Decision about one call, from the moment it is made to the row of the audit trail."""

import hashlib
import time
from typing import TYPE_CHECKING, Protocol

from hearth.hub.authorization.approvals import Approval
from hearth.hub.authorization.pending import Asker, Settlement
from hearth.hub.sessions import Session
from hearth.policy.audit_files import AuditEntry
from hearth.policy.grants import CallGrant, GrantKey
from hearth.policy.model import Decision, Policy

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard

# Arguments up to this size are kept until the audit trail's thread makes their digest. Its queue has 20,000 entries.
LATE_DIGEST_BYTES = 512


class Recorder(Protocol):
    """Protocol for the audit trail, as the guard uses it."""

    def call(self, permit: "Permit") -> None:
        """Record a finished or refused call. Never blocks."""

    async def approval(self, approval: Approval, outcome: Settlement) -> None:
        """Record a decision of a lead or a person; return when it is on disk. Raises FileAccessError."""


class Permit:
    """Decision about one call, kept with the call until its answer, and then the entry of the audit trail about it.

    Every call has one, so that it holds what is at hand; the audit trail's thread asks for the rest.
    """

    __slots__ = (
        "_arguments", "_digest", "_who", "decision", "ended", "grant", "guard", "key", "outcome", "policy", "role",
        "seconds", "server", "started", "tool",
    )  # fmt: skip

    def __init__(
        self,
        guard: "Guard",
        policy: Policy,
        who: Session | Asker,
        role: str,
        server: str,
        tool: str,
        arguments: bytes,
        decision: Decision,
    ) -> None:
        self.guard = guard
        self.policy = policy
        self._who = who
        self.role = role
        self.server = server
        self.tool = tool
        is_short = len(arguments) <= LATE_DIGEST_BYTES
        self._arguments = arguments if is_short else b""
        self._digest = "" if is_short else digest_of(arguments)
        self.decision = decision
        self.grant: CallGrant | None = None
        self.key: GrantKey | None = None
        self.started = time.monotonic()

    @property
    def asker(self) -> Asker:
        """Principal that makes the call, in the role that was decided about."""
        who = self._who
        return who if isinstance(who, Asker) else self.guard.asker(who)._replace(role=self.role)

    @property
    def digest(self) -> str:
        """Digest of the arguments."""
        return self._digest or digest_of(self._arguments)

    def fits(self, policy: Policy, server: str, tool: str) -> bool:
        """Tell whether the decision still holds. A grant may have been revoked since, and its tool have changed."""
        return self.policy is policy and self.grant is None and (self.server, self.tool) == (server, tool)

    def finished(self, payload: bytes | None) -> None:
        """Record the end of the call; without a payload its client cancelled it."""
        self.end("cancelled" if payload is None else "error" if payload.find(b'"error":', 0, 200) >= 0 else "answered")

    def end(self, outcome: str) -> None:
        """Record the end of the call, or that it was not made."""
        self.outcome = outcome
        self.seconds = time.monotonic() - self.started
        self.ended = time.time()
        self.guard.recorder.call(self)

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
            round(self.seconds, 6),
        )


def digest_of(data: bytes) -> str:
    """Return the digest of raw arguments or of a definition."""
    return hashlib.sha256(data).hexdigest()

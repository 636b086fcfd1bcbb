"""Rows of the audit trail that the guard writes: calls, decisions, hooks. Off the path of a call.

Without `[audit] enabled` only decisions of leads and people are recorded: those are on disk before they take effect.
"""

import logging
import time
from collections.abc import Callable

from hearth.daemon.client_connection import COUNTERS
from hearth.hub.authorization.approvals import Approval
from hearth.hub.authorization.decided_call import Permit
from hearth.hub.authorization.pending import Asker, Settlement
from hearth.policy.audit import AuditLog
from hearth.policy.audit_files import AuditEntry
from hearth.policy.model import AuditSettings

log = logging.getLogger(__name__)


class AuditRecorder:
    """Recorder of the guard on an audit log."""

    def __init__(self, log: AuditLog, settings: AuditSettings) -> None:
        self._log = log
        self.apply(settings)

    def apply(self, settings: AuditSettings) -> None:
        """Apply the settings of the policy in force."""
        self._is_enabled = settings.enabled
        # Records a finished or refused call; every call ends here.
        self.call: Callable[[Permit], None] = self._log.record if settings.enabled else _forget
        self._log.set_limits(settings.days, settings.size)

    async def approval(self, approval: Approval, outcome: Settlement) -> None:
        """Record the end of an approval; return when it is on disk. Raises FileAccessError."""
        asker, key = approval.asker, approval.key
        await self._log.record_durably(
            AuditEntry(
                time.time(),
                "decision",
                asker.session,
                asker.client,
                asker.agent,
                asker.role,
                key.server,
                key.tool,
                key.digest,
                outcome.verdict,
                outcome.decided_by,
                outcome.channel,
                outcome.reason,
                f"approval {approval.id}",
                round(time.time() - approval.created, 3),
            )
        )

    def event(self, asker: Asker, name: str, outcome: str = "") -> None:
        """Record an event of a hook that decides nothing, or the outcome of a stop check."""
        if not self._is_enabled:
            return
        self._log.record(
            AuditEntry(
                time.time(),
                "stop" if outcome else "hook",
                asker.session,
                asker.client,
                asker.agent,
                asker.role,
                tool=name,
                outcome=outcome,
            )
        )

    def refused(self, asker: Asker, server: str, tool: str, reason: str) -> None:
        """Record a hook whose token or agent id was refused: in the log and the counters, as for a session, too."""
        log.info("hook refused client=%.40s tool=%.80s reason=%s", asker.client, tool, reason)
        COUNTERS.connections_refused += 1
        if self._is_enabled:
            self._log.record(
                AuditEntry(
                    time.time(),
                    "hook",
                    client=asker.client,
                    role=asker.role,
                    server=server,
                    tool=tool,
                    decision="deny",
                    reason=reason,
                    outcome="denied",
                )
            )


def _forget(permit: Permit) -> None:
    """Record nothing."""

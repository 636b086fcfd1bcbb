"""Tools that no call of the hub carries: clients' own tools behind hooks, permission requests and modes of agents.

The rules:

1. The caller is an `Asker`; no session is needed. Each question is decided by the policy, as a call would be, and
   recorded.
2. A question that must be asked waits for its approval: as long as the caller says, else until the approval's own end.
   The caller hears of the approval as soon as there is one.
3. An agent's client asks about one call in several ways, at the same time or one after the other: by its hook, and by a
   permission request. One approval serves each way once, within `JOIN_SECONDS`; a second question of the same way is
   another call.
4. A grant for a tool of a client is good in the repository, or the folder, that its caller began in: the same command
   does another thing elsewhere.
5. A mode in which an agent never asks is granted by `agent_mode(ID)`, or a person is asked; never a lead. So it is with
   a folder in which the creator of an agent may not work itself.
"""

import asyncio
import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from hearth.errors import FileAccessError, Refused
from hearth.hub.authorization.approvals import Approval
from hearth.hub.authorization.decided_call import Permit, Standing, digest_of
from hearth.hub.authorization.pending import HUMAN, Asker
from hearth.policy.agent_modes import FOR_PERSON, for_person
from hearth.policy.decision import decide
from hearth.policy.grants import ONCE, CallGrant, GrantKey
from hearth.policy.model import Decision
from hearth.policy.trust import workspace_of

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard

# A client asks in its second way right after the first; the wait for a person is over by then.
JOIN_SECONDS = 60.0
# Approvals that were used and may be joined; the oldest goes first. A busy team makes a few a second.
REMEMBERED_LIMIT = 1000
# Ways in which a client asks about a tool of its own.
HOOK, PERMISSION = "hook", "permission"

# Takes the approval of a question as soon as there is one.
OnAsked = Callable[[Approval], None]


class OwnTools:
    """Decisions about own tools under the guard's policy."""

    def __init__(self, guard: "Guard", now: Callable[[], float] = monotonic) -> None:
        self._guard = guard
        self._used = _UsedApprovals(now)

    async def obtain(
        self,
        asker: Asker,
        server: str | None,
        tool: str,
        arguments: bytes,
        seconds: float | None,
        on_asked: OnAsked | None = None,
        way: str = HOOK,
        must_ask: bool = False,
    ) -> tuple[bool, str]:
        """Decide a question, and wait for an approval; return whether it is allowed, and the reason if not."""
        standing = Standing(self._guard, self._guard.policy_for(asker.origin), asker, asker.role)
        decision = decide(standing.policy, asker.role, server, tool, arguments, asker.workspace)
        if must_ask and decision.outcome == "allow":
            decision = Decision("ask", "lead", "the tool is not known", decision.source)
        if server is None and tool in FOR_PERSON:
            decision = for_person(decision)
        permit = Permit(standing, (server or "", tool), digest_of(arguments), decision, monotonic())
        allowed, reason = decision.outcome == "allow", denied(decision.reason)
        if decision.outcome == "ask":
            allowed, reason = await self._approved(permit, arguments, seconds, on_asked, way)
        permit.end("allowed" if allowed else "denied")
        return allowed, "" if allowed else reason

    async def _approved(
        self, permit: Permit, arguments: bytes, seconds: float | None, on_asked: OnAsked | None, way: str
    ) -> tuple[bool, str]:
        place = workspace_of(permit.asker.origin) if not permit.server and permit.tool not in FOR_PERSON else None
        definition = digest_of(os.fsencode(place)) if place else ""
        key = permit.key = GrantKey(permit.asker.principal, permit.server, permit.tool, definition, permit.digest)
        approvals = self._guard.approvals
        try:
            if self._use_grant(permit, way):
                return True, ""
            approval = approvals.request(permit.asker, key, permit.decision, arguments)
            if on_asked:
                on_asked(approval)
            try:
                outcome = await approval.wait(seconds)
            except asyncio.CancelledError:
                # The caller has gone: nothing that could be approved will run.
                self._guard.leave(approval)
                raise
            if outcome is None:
                return False, f"pending approval {approval.id}; try again unchanged once it is approved"
            if outcome.verdict == "withdrawn":
                return False, f"not run: {outcome.reason}"
            if outcome.verdict != "approved":
                return False, denied(outcome.reason, outcome.decided_by)
            return self._use_grant(permit, way), "the approval was used by another call"
        except (FileAccessError, Refused) as exc:
            return False, str(exc)

    def _use_grant(self, permit: Permit, way: str) -> bool:
        """Use a grant that fits, or one that the same call has used in another way. Raises FileAccessError."""
        assert permit.key is not None
        is_for_person = permit.decision.level == HUMAN
        grant = self._used.join(permit.key, way)
        if grant is None or grant.role != permit.role or (is_for_person and not grant.is_persons):
            grant = self._guard.approvals.grants.take(permit.key, permit.role, is_for_person)
            if grant is not None and grant.scope == ONCE:
                self._used.keep(permit.key, way, grant)
        permit.grant = grant
        return grant is not None


class _UsedApprovals:
    """Approvals that were used in one way, each kept for the same call's other ways."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[GrantKey, tuple[float, CallGrant, set[str]]] = {}

    def keep(self, key: GrantKey, way: str, grant: CallGrant) -> None:
        self._kept.pop(key, None)
        self._kept[key] = self._now() + JOIN_SECONDS, grant, {way}
        while len(self._kept) > REMEMBERED_LIMIT:
            del self._kept[next(iter(self._kept))]

    def join(self, key: GrantKey, way: str) -> CallGrant | None:
        """Return the approval that the call was given in another way, once for each way."""
        until, grant, ways = self._kept.get(key, (0.0, None, set()))
        if self._now() >= until or way in ways:
            return None
        ways.add(way)
        return grant


def denied(reason: str, by: str = "") -> str:
    """Return the sentence that tells a client of a denial."""
    who = f"denied by {by}" if by else "denied by policy"
    return f"{who}: {reason}" if reason else who

"""Approvals: the cascade of a call that the policy asks about, from the lead to the person.

The rules:

1. There is one approval per (principal, server, tool, arguments). A repeated call joins it.
2. An approval at level `lead` is for the one lead session of the same workspace. Without one, with several, when the
   lead leaves or escalates, or after `lead_timeout`, it is the person's. So is a call whose arguments are too large to
   be decided by a policy; they are not kept.
3. A lead decides only what its own role may do unasked, and never its own request. A lead gives grants for one call.
4. The person decides by `hearth approve`, or by elicitation in a session of a `human` role; never in a session of the
   principal that asks. A person may grant a call once, for the session, or always.
5. Without a decision within `approval_timeout` the call is denied.
6. A decision is in the audit trail and on disk before it takes effect. If it cannot be written, it does not count.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from hearth.errors import HearthError, Refused
from hearth.hub.authorization.pending import Pending, PendingItem, Settlement
from hearth.hub.client_requests import ClientRequests
from hearth.hub.events import EVENTS, ApprovalDecided, ApprovalRequested
from hearth.hub.sessions import Session, Sessions
from hearth.masking import escaped, everywhere
from hearth.policy.decision import ARGUMENTS_LIMIT_BYTES, decide
from hearth.policy.grants import ALWAYS, ONCE, SESSION, CallGrant, GrantKey, GrantStore
from hearth.policy.model import Decision, Policy
from hearth.policy.trust import workspace_of
from hearth.wire import json, values

log = logging.getLogger(__name__)

LEAD, HUMAN = "lead", "human"
# Arguments beyond this size are shown by their size and digest: a person cannot judge them here.
SHOWN_BYTES = 16 * 1024
# Reasons of deciders, which models read.
REASON_CHARACTERS = 1000
# Names of clients, which must not push the question itself out of sight.
NAME_CHARACTERS = 80

_CHOICES = {"Allow once": ONCE, "Allow for this session": SESSION, "Allow always": ALWAYS}
_SCHEMA = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": [*_CHOICES, "Deny"], "default": "Deny"},
        "reason": {"type": "string", "title": "Reason, for the agent", "maxLength": REASON_CHARACTERS},
    },
    "required": ["decision"],
}


class Asker(NamedTuple):
    """Principal that makes a call, with what is shown of it. `session` is empty for a hook without a session.

    Paths are relative to `workspace`. `origin` is the folder that the session began in: an agent that moves elsewhere
    stays under the policy of its project.
    """

    principal: str
    role: str
    session: str = ""
    client: str = ""
    agent: str = ""
    workspace: str | None = None
    origin: str | None = None


class Approver(NamedTuple):
    """Lead or person that decides, and the channel: `tool`, `cli`, `elicitation`, `http`, `timeout`."""

    name: str
    channel: str
    session: Session | None = None

    @classmethod
    def at(cls, session: Session, channel: str) -> "Approver":
        """Return the one that decides at a session, under its client's name, which models and people read."""
        return cls(_shown_name(session.client.get("name")) or session.id, channel, session)

    @property
    def is_person(self) -> bool:
        """Whether a person decides: every channel but a lead's tools."""
        return self.channel != "tool"


class Approval(PendingItem):
    """Call that waits for a decision. `shown` are its arguments for people, masked and escaped."""

    kind = "approval"

    def __init__(self, asker: Asker, key: GrantKey, decision: Decision, arguments: bytes, expires: float) -> None:
        super().__init__(asker.principal, expires)
        self.asker = asker
        self.key = key
        self.reason = decision.reason
        self.source = decision.source
        is_large = len(arguments) > ARGUMENTS_LIMIT_BYTES
        self.level = HUMAN if is_large else decision.level or LEAD
        # For the question whether a lead's own role may do this; a person is shown the digest.
        self.arguments = b"" if is_large else arguments
        self.size = len(self.arguments)
        self.shown = shown_arguments(arguments)
        self.lead: str | None = None
        # Whether a decision is on its way to the disk.
        self.is_being_decided = False

    def describe(self) -> dict[str, object]:
        """Return the approval for `hearth approvals --json` and for the tools of leads."""
        asker = self.asker
        return {
            "id": self.id,
            "session": asker.session or None,
            "client": asker.client or None,
            "agent": asker.agent or None,
            "role": asker.role,
            "server": self.key.server or None,
            "tool": self.key.tool,
            "arguments": self.shown,
            "digest": self.key.digest,
            "reason": self.reason,
            "level": self.level,
            "workspace": asker.workspace,
            "created": round(self.created, 3),
            "expires": round(self.expires, 3),
        }


def shown_arguments(arguments: bytes) -> str:
    """Return arguments for people: secrets masked, control and bidi characters escaped, never cut silently."""
    if len(arguments) > SHOWN_BYTES:
        return f"({len(arguments)} bytes, too many to show; the digest identifies them)"
    return escaped(everywhere(arguments.decode("utf-8", "replace"))).replace("\n", "\\n")


class RoleSource(Protocol):
    """Protocol for the guard, as far as approvals ask it."""

    policy: Policy

    def role_name(self, session: Session) -> str:
        """Return the name of a session's role."""

    def policy_for(self, origin: str | None) -> Policy:
        """Return the policy for sessions that began in a folder, narrowed by that of a trusted project."""


# Writes one decision to the audit trail; returns when it is on disk.
Record = Callable[[Approval, Settlement], Awaitable[None]]


class Approvals:
    """Approvals of one daemon. `record` writes decisions to the audit trail, `notify` shows them on the desktop."""

    def __init__(
        self,
        pending: Pending,
        sessions: Sessions,
        questions: ClientRequests,
        grants: GrantStore,
        record: Record,
        spawn: Callable[[Coroutine[Any, Any, object]], None],
        notify: Callable[[str, str], None],
    ) -> None:
        self.pending = pending
        self._sessions = sessions
        self._questions = questions
        self.grants = grants
        # Set by the guard.
        self.roles: RoleSource
        self._record = record
        self._spawn = spawn
        self._notify = notify
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._asked: dict[str, set[asyncio.Task[None]]] = {}

    def open(self) -> "list[Approval]":
        """Return the approvals that wait for a decision, the oldest first."""
        return [item for item in self.pending if isinstance(item, Approval)]

    def get(self, id: str) -> Approval:
        """Return an open approval. Raises Refused."""
        item = self.pending.get(id)
        if not isinstance(item, Approval):
            raise Refused(f"no approval {id!r} is pending; `hearth approvals` lists them")
        return item

    # --- requests

    def request(self, asker: Asker, key: GrantKey, decision: Decision, arguments: bytes) -> Approval:
        """Return the approval of a call, a new one unless it is already asked. Raises NoRoom, FileAccessError."""
        for each in self.open():
            if each.key == key:
                if decision.level == HUMAN:
                    self.escalate(each, "the policy asks a person now")
                return each
        policy = self.roles.policy
        approval = Approval(asker, key, decision, arguments, time.time() + policy.approval_timeout)
        self.pending.add(approval)
        try:
            self.grants.wait(key, approval.id)
        except HearthError:
            self.pending.settle(approval, Settlement("withdrawn"))
            raise
        log.info("approval requested id=%s role=%s server=%s tool=%s", approval.id, asker.role, key.server, key.tool)
        EVENTS.emit(
            ApprovalRequested(
                id=approval.id, session=asker.session, role=asker.role, server=key.server, tool=key.tool,
                level=approval.level,
            )
        )  # fmt: skip
        lead = self._lead(asker) if approval.level == LEAD else None
        if lead is None:
            self._ask_person(approval)
        else:
            approval.lead = lead.id
            self._later(approval, policy.lead_timeout, functools.partial(self.escalate, approval, "the lead is silent"))
        return approval

    def _lead(self, asker: Asker) -> Session | None:
        """Return the one lead session of the asker's workspace, if there is exactly one."""
        leads = {}
        for session in self._sessions:
            role = self.roles.policy.roles.get(self.roles.role_name(session))
            if not role or not role.lead or not session.active or session.principal == asker.principal:
                continue
            if workspace_of(session.cwd) == workspace_of(asker.workspace):
                leads[session.principal] = session
        return next(iter(leads.values())) if len(leads) == 1 else None

    def withdraw(self, approval: Approval) -> None:
        """Withdraw an approval whose call was cancelled."""
        self._end(approval, Settlement("withdrawn", "the call was cancelled"))

    def drain(self, reason: str = "the daemon shuts down; call again unchanged") -> None:
        """Withdraw everything that waits, because it can no longer be decided."""
        for approval in self.open():
            self._end(approval, Settlement("withdrawn", reason))

    def session_left(self, session: Session) -> None:
        """Put the questions of a lead that left to the person."""
        for approval in self.open():
            if approval.lead == session.id:
                self.escalate(approval, "the lead has left")

    def policy_changed(self) -> None:
        """Put the questions of sessions to the person whose role is no lead's any more."""
        for approval in self.open():
            lead = self._sessions.get(approval.lead) if approval.lead else None
            role = self.roles.policy.roles.get(self.roles.role_name(lead)) if lead else None
            if approval.lead and not (role and role.lead):
                self.escalate(approval, "the lead's role is no lead any more")

    # --- decisions

    def escalate(self, approval: Approval, why: str) -> None:
        """Put an approval to the person."""
        if approval.outcome is None and approval.level == LEAD:
            log.info("approval escalated id=%s reason=%s", approval.id, why)
            self._ask_person(approval)

    async def decide(self, id: str, action: str, by: Approver, reason: str = "", scope: str = ONCE) -> str:
        """Decide an approval: `approve`, `deny` or `escalate`. Raises Refused; FileAccessError if it does not count."""
        approval = self.get(id)
        reason = escaped(reason)[:REASON_CHARACTERS]
        self._check(approval, action, by, scope)
        if action == "escalate":
            self.escalate(approval, reason or "the lead escalates")
            return f"approval {id} is the person's now"
        verdict = "approved" if action == "approve" else "denied"
        outcome = Settlement(verdict, reason, by.name, by.channel)
        if approval.is_being_decided:
            raise Refused(f"approval {id} is being decided at this moment; see `hearth approvals`")
        approval.is_being_decided = True
        try:
            await self._record(approval, outcome)
        finally:
            approval.is_being_decided = False
        if approval.outcome is not None:
            raise Refused(f"approval {id} was {approval.outcome.verdict} in the meantime")
        if action == "approve":
            role, key = approval.asker.role, approval.key
            self.grants.give(CallGrant(approval.id, scope, role, key, by.name, is_persons=by.is_person))
        self._end(approval, outcome)
        return f"approval {id} is {verdict}"

    def _check(self, approval: Approval, action: str, by: Approver, scope: str) -> None:
        """Raise Refused if this decider may not decide this."""
        if action not in ("approve", "deny", "escalate") or scope not in (ONCE, SESSION, ALWAYS):
            raise Refused("a decision is approve, deny or escalate; a grant is for once, session or always")
        if by.session is not None and by.session.principal == approval.principal:
            raise Refused("a session does not decide its own requests")
        if by.is_person:
            return
        assert by.session is not None
        policy, role = self.roles.policy, self.roles.role_name(by.session)
        if role not in policy.roles or not policy.roles[role].lead:
            raise Refused(f"role {role!r} decides nothing; `lead = true` in the policy makes it a lead")
        if action == "escalate":
            return
        if approval.level != LEAD or (approval.lead is not None and approval.lead != by.session.id):
            raise Refused(f"approval {approval.id} is not this lead's to decide")
        if action == "approve":
            if scope != ONCE:
                raise Refused("a lead approves one call; for the session or for always, a person does")
            key, asker = approval.key, approval.asker
            policy = self.roles.policy_for(asker.origin)
            own = decide(policy, role, key.server or None, key.tool, approval.arguments, asker.workspace)
            if own.outcome != "allow":
                raise Refused(f"role {role!r} may not do this unasked itself: escalate it, or deny it")

    def _end(self, approval: Approval, outcome: Settlement) -> None:
        timer = self._timers.pop(approval.id, None)
        if timer:
            timer.cancel()
        for task in self._asked.pop(approval.id, ()):
            if task is not asyncio.current_task():
                task.cancel()
        # A file that cannot be written leaves the request as waiting, which at worst asks once more.
        with contextlib.suppress(HearthError):
            self.grants.settle(approval.key)
        if self.pending.settle(approval, outcome):
            log.info("approval %s id=%s by=%s", outcome.verdict, approval.id, outcome.decided_by or "-")
            EVENTS.emit(ApprovalDecided(id=approval.id, verdict=outcome.verdict, by=outcome.decided_by or None))

    # --- the person

    def _ask_person(self, approval: Approval) -> None:
        approval.level, approval.lead = HUMAN, None
        left = max(0.0, approval.expires - time.time())
        self._later(approval, left, functools.partial(self._expire, approval))
        self.pending.changed()
        policy = self.roles.policy
        if policy.notify:
            self._notify(
                f"{_name_of(approval.asker)} asks to use {escaped(approval.key.tool)}",
                f"hearth approve {approval.id}, or hearth deny {approval.id}",
            )
        for session in self._sessions:
            role = policy.roles.get(self.roles.role_name(session))
            if not role or not role.human or session.is_agent or session.principal == approval.principal:
                continue
            if session.can_be_asked():
                task = asyncio.get_running_loop().create_task(self._elicit(approval, session))
                self._asked.setdefault(approval.id, set()).add(task)

    async def _elicit(self, approval: Approval, session: Session) -> None:
        """Ask a person who sits at another client."""
        key, asker = approval.key, approval.asker
        tool = escaped(f"{key.server}__{key.tool}" if key.server else key.tool)
        text = f"{_name_of(asker)} (role {asker.role}) asks to call {tool} with {approval.shown}"
        why = f"\n{approval.reason}" if approval.reason else ""
        params = json.dumps({"message": f"{text}{why}", "requestedSchema": _SCHEMA})
        try:
            answer = await self._questions.ask(
                session, "elicitation/create", params, max(1.0, approval.expires - time.time())
            )
            content = values.members(answer.get("content"))
            if values.text(answer.get("action")) != "accept":
                return
            choice = values.text(content.get("decision")) or "Deny"
            action = "approve" if choice in _CHOICES else "deny"
            by = Approver.at(session, "elicitation")
            reason = values.text(content.get("reason")) or ""
            await self.decide(approval.id, action, by, reason, _CHOICES.get(choice, ONCE))
        except HearthError as exc:
            # Another channel was faster, or this client has left: the approval stays with the other channels.
            log.info("approval not decided by elicitation id=%s reason=%s", approval.id, exc)

    def _later(self, approval: Approval, seconds: float, act: Callable[[], None]) -> None:
        timer = self._timers.pop(approval.id, None)
        if timer:
            timer.cancel()
        self._timers[approval.id] = asyncio.get_running_loop().call_later(seconds, act)

    def _expire(self, approval: Approval) -> None:
        outcome = Settlement("expired", "there was no decision in time", "", "timeout")
        self._spawn(self._record(approval, outcome))  # type: ignore[arg-type]  # every recorder is a coroutine function
        self._end(approval, outcome)


def _name_of(asker: Asker) -> str:
    return _shown_name(asker.client) or "An agent"


def _shown_name(name: str | None) -> str:
    """Return a client's name for people: a client may call itself anything, also several lines."""
    shown = escaped(name or "").replace("\n", "\\n")
    return shown if len(shown) <= NAME_CHARACTERS else f"{shown[:NAME_CHARACTERS]}…"

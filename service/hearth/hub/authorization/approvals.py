"""Approvals: the cascade of a call that the policy asks about, from the lead to the person.

The rules:

1. There is one approval per (principal, server, tool, arguments). A repeated call joins it.
2. An approval at level `lead` is for one lead (`leads`): the nearest lead agent above an agent, else the one lead
   session of the same workspace. Without one, with several, when the lead leaves, is closed or escalates, or after
   `lead_timeout`, it is the person's. So is a call whose arguments are too large to be decided by a policy; they are
   not kept.
3. A lead decides only what its own role may do unasked, and never its own request; an agent neither decides those of
   the agents above it. A lead gives grants for one call.
4. The person decides by `hearth approve`, or by elicitation in a session of a `human` role; never in a session of the
   principal that asks, in one of an agent, or in one below an agent's process or below the client that asks. A person
   may grant a call once, for the session, or always.
5. Without a decision within `approval_timeout` the call is denied.
6. A decision is in the audit trail and on disk before it takes effect. If it cannot be written, it does not count.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hearth.errors import HearthError, Refused
from hearth.hub.agent_directory import AgentDirectory
from hearth.hub.authorization.leads import Lead, Leads
from hearth.hub.authorization.pending import (
    HUMAN,
    LEAD,
    REASON_CHARACTERS,
    Approver,
    Asker,
    Pending,
    PendingCall,
    Settlement,
)
from hearth.hub.client_requests import ClientRequests
from hearth.hub.sessions import Session, Sessions
from hearth.masking import escaped
from hearth.policy.decision import ARGUMENTS_LIMIT_BYTES, decide
from hearth.policy.grants import ALWAYS, ONCE, SESSION, CallGrant, GrantKey, GrantStore
from hearth.policy.model import Decision
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard

log = logging.getLogger(__name__)

_CHOICES = {"Allow once": ONCE, "Allow for this session": SESSION, "Allow always": ALWAYS}
_SCHEMA = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "title": "Decision", "enum": [*_CHOICES, "Deny"], "default": "Deny"},
        "reason": {"type": "string", "title": "Reason, for the agent", "maxLength": REASON_CHARACTERS},
    },
    "required": ["decision"],
}

# Decides an approval: its action, the one that decides, the reason and the scope.
Decide = Callable[["Approval", str, Approver, str, str], Awaitable[str]]


class Approval(PendingCall):
    """Call that the policy asks about."""

    kind = "approval"

    def __init__(
        self, asker: Asker, key: GrantKey, decision: Decision, arguments: bytes, expires: float, decide_it: Decide
    ) -> None:
        super().__init__(asker, key.server, key.tool, arguments, decision.reason, expires, key.digest)
        self.key = key
        self.source = decision.source
        is_large = len(arguments) > ARGUMENTS_LIMIT_BYTES
        self.level = HUMAN if is_large else decision.level or LEAD
        # For the question whether a lead's own role may do this; a person is shown the digest.
        self.arguments = b"" if is_large else arguments
        self.size = len(self.arguments)
        # The lead that is asked, as long as it is.
        self.asked: Lead | None = None
        # Whether a decision is on its way to the disk.
        self.is_being_decided = False
        self._decide = decide_it

    def ask(self, lead: Lead | None) -> None:
        """Put the call to a lead, or to a person."""
        self.asked = lead
        self.level = LEAD if lead else HUMAN
        self.lead = lead.agent if lead else None

    async def decide(self, action: str, by: Approver, reason: str = "", scope: str = ONCE) -> str:
        """Decide the call: `approve`, `deny` or `escalate`."""
        return await self._decide(self, action, by, reason, scope)


# Writes one decision to the audit trail; returns when it is on disk.
Record = Callable[[Approval, Settlement], Awaitable[None]]


class Approvals:
    """Approvals of one daemon. `record` writes decisions to the audit trail, `notify` shows them on the desktop.

    `agents` returns the directory of agents, `agent_above` the id of the agent that a session's client descends from,
    `sessions_above` the sessions of the clients that a session's client descends from.
    """

    def __init__(
        self,
        pending: Pending,
        sessions: Sessions,
        questions: ClientRequests,
        grants: GrantStore,
        record: Record,
        spawn: Callable[[Coroutine[Any, Any, object]], None],
        notify: Callable[[str, str], None],
        agents: Callable[[], AgentDirectory | None] = lambda: None,
        agent_above: Callable[[Session], Awaitable[str | None]] | None = None,
        sessions_above: Callable[[Session], Awaitable[list[Session]]] | None = None,
    ) -> None:
        self.pending = pending
        self._sessions = sessions
        self._questions = questions
        self.grants = grants
        # Set by the guard.
        self.roles: Guard
        self.leads = Leads(sessions, agents, lambda: self.roles)
        self._agents = agents
        self._agent_above = agent_above
        self._sessions_above = sessions_above
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
        approval = Approval(asker, key, decision, arguments, time.time() + policy.approval_timeout, self._decide)
        lead = self.leads.find(asker) if approval.level == LEAD else None
        approval.ask(lead)
        self.pending.add(approval)
        try:
            self.grants.wait(key, approval.id)
        except HearthError:
            self.pending.settle(approval, Settlement("withdrawn"))
            raise
        if lead is None:
            self._ask_person(approval)
        else:
            self._later(approval, policy.lead_timeout, functools.partial(self.escalate, approval, "the lead is silent"))
            if lead.agent is not None and (agents := self._agents()):
                agents.lead_asked(lead.agent, approval)
        return approval

    def withdraw(self, approval: Approval) -> None:
        """Withdraw an approval whose call was cancelled."""
        self._end(approval, Settlement("withdrawn", "the call was cancelled"))

    def drain(self, reason: str = "the daemon shuts down; call again unchanged") -> None:
        """Withdraw everything that waits, because it can no longer be decided."""
        for approval in self.open():
            self._end(approval, Settlement("withdrawn", reason))

    def session_left(self, session: Session) -> None:
        """Put the questions of a lead that left to the person."""
        self._leave(Lead(session=session.id), "the lead has left")

    def agent_closed(self, agent: str) -> None:
        """Withdraw the questions of an agent that was closed, and put those that waited for it to the person."""
        for approval in self.open():
            if approval.asker.agent == agent:
                self._end(approval, Settlement("withdrawn", "the agent was closed"))
        self._leave(Lead(agent), "the lead was closed")

    def _leave(self, lead: Lead, why: str) -> None:
        for approval in self.open():
            if approval.asked == lead:
                self.escalate(approval, why)

    def policy_changed(self) -> None:
        """Put the questions of leads to the person whose role is no lead's any more."""
        for approval in self.open():
            if approval.asked and not self.leads.is_there(approval.asked):
                self.escalate(approval, "the lead's role is no lead any more")

    # --- decisions

    def escalate(self, approval: Approval, why: str) -> None:
        """Put an approval to the person."""
        if approval.outcome is None and approval.level == LEAD:
            log.info("approval escalated id=%s reason=%s", approval.id, why)
            self._ask_person(approval)

    async def decide(self, id: str, action: str, by: Approver, reason: str = "", scope: str = ONCE) -> str:
        """Decide an approval: `approve`, `deny` or `escalate`. Raises Refused; FileAccessError if it does not count."""
        return await self.pending.decide(self.get(id).id, action, by, reason, scope)

    async def _decide(self, approval: Approval, action: str, by: Approver, reason: str, scope: str) -> str:
        self._check(approval, action, by, scope)
        if action == "escalate":
            self.escalate(approval, reason or "the lead escalates")
            return f"approval {approval.id} is the person's now"
        verdict = "approved" if action == "approve" else "denied"
        outcome = Settlement(verdict, reason, by.name, by.channel)
        if approval.is_being_decided:
            raise Refused(f"approval {approval.id} is being decided at this moment; see `hearth approvals`")
        approval.is_being_decided = True
        try:
            await self._record(approval, outcome)
        finally:
            approval.is_being_decided = False
        if approval.outcome is not None:
            raise Refused(f"approval {approval.id} was {approval.outcome.verdict} in the meantime")
        if action == "approve":
            role, key = approval.asker.role, approval.key
            self.grants.give(CallGrant(approval.id, scope, role, key, by.name, is_persons=by.is_person))
        self._end(approval, outcome)
        return f"approval {approval.id} is {verdict}"

    def _check(self, approval: Approval, action: str, by: Approver, scope: str) -> None:
        """Raise Refused if this decider may not decide this."""
        if by.session is not None and by.session.principal == approval.principal:
            raise Refused("a session does not decide its own requests")
        if by.session is not None and self.leads.is_below(by.session, approval.asker):
            raise Refused("an agent does not decide the requests of agents above it")
        if by.is_person:
            return
        assert by.session is not None
        policy, role = self.roles.policy, self.roles.role_name(by.session)
        if role not in policy.roles or not policy.roles[role].lead:
            raise Refused(f"role {role!r} decides nothing; `lead = true` in the policy makes it a lead")
        if action == "escalate":
            return
        if not self.is_for(approval, by.session):
            raise Refused(f"approval {approval.id} is not this lead's to decide")
        if action == "approve":
            if scope != ONCE:
                raise Refused("a lead approves one call; for the session or for always, a person does")
            key, asker = approval.key, approval.asker
            policy = self.roles.policy_for(asker.origin)
            own = decide(policy, role, key.server or None, key.tool, approval.arguments, asker.workspace)
            if own.outcome != "allow":
                raise Refused(f"role {role!r} may not do this unasked itself: escalate it, or deny it")

    def is_for(self, approval: Approval, session: Session) -> bool:
        """Tell whether a session speaks for the lead that is asked about a call."""
        return approval.asked is not None and self.leads.speaks_for(session, approval.asked)

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
        self.pending.settle(approval, outcome)

    # --- the person

    def _ask_person(self, approval: Approval) -> None:
        approval.ask(None)
        self._later(approval, _left(approval), functools.partial(self._expire, approval))
        self.pending.changed()
        policy = self.roles.policy
        if policy.notify:
            self._notify(
                f"{approval.asker.name} asks to use {escaped(approval.key.tool)}",
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
        """Ask a person who sits at another client, which is neither an agent's nor runs below one."""
        key, asker = approval.key, approval.asker
        tool = escaped(f"{key.server}__{key.tool}" if key.server else key.tool)
        text = f"{asker.name} (role {asker.role}) asks to call {tool} with {approval.shown}"
        why = f"\n{approval.reason}" if approval.reason else ""
        params = json.dumps({"message": f"{text}{why}", "requestedSchema": _SCHEMA})
        try:
            if self._agent_above and await self._agent_above(session) is not None:
                return
            if self._sessions_above and any(
                each.principal == approval.principal for each in await self._sessions_above(session)
            ):
                return
            answer = await self._questions.ask(session, "elicitation/create", params, max(1.0, _left(approval)))
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


def _left(approval: Approval) -> float:
    """Return the seconds until an approval ends."""
    return max(0.0, (approval.expires or 0.0) - time.time())

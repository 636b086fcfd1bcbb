"""Permission requests of agents: decided by the policy, or put to those who may decide them.

The rules:

1. A request is mapped to uses of tools by the agent's own name for its tool, else by its kind and raw input; never by
   its title, which is text for display. A request that maps to nothing is asked about.
2. With a policy every use is decided as any other call, and what must be asked is an approval. Without a policy the
   request waits in `hub.pending`, for an agent above the one that asks, another client, or a person.
3. "Allow" picks the option of kind `allow_once`; where there is none, the request is denied. Nothing picks an option
   that allows more than this one use.
4. An agent has at most PERMISSIONS_LIMIT open requests; more are cancelled at once. The end of the turn cancels all.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from hearth.errors import HearthError, NoRoom, Refused
from hearth.hub.authorization.pending import Approver, Asker, Pending, PendingCall, PendingItem, Settlement
from hearth.hub.sessions import agent_principal
from hearth.masking import escaped, everywhere
from hearth.packs.agents import acp
from hearth.packs.agents.permissions.tool_uses import ToolUse, is_own_tool, uses_of
from hearth.packs.agents.process.session import Answer

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard
    from hearth.hub.hub import Hub
    from hearth.packs.agents.agent import Agent

log = logging.getLogger(__name__)

# Open requests of one agent. A person would not read more of them.
PERMISSIONS_LIMIT = 20
# Parts of a request that are shown; the agent has the whole.
SHOWN_CHARACTERS = 16 * 1024
_KINDS = {"switch_mode": "plan"}

# Tells whether the first agent is above the second one.
IsAbove = Callable[[str, str], bool]


class AgentPermission(PendingCall):
    """Permission request without a policy: any client that may act on the agent decides it."""

    kind = "permission"

    def __init__(self, asker: Asker, use: ToolUse, is_above: IsAbove, pending: Pending) -> None:
        super().__init__(asker, "", use.tool, use.arguments)
        self._is_above = is_above
        self._pending = pending
        self.size = len(use.arguments)

    async def decide(self, action: str, by: Approver, reason: str = "", scope: str = "once") -> str:
        """Decide the request; return a sentence. Raises Refused."""
        agent = by.session.proven[1] if by.session is not None else None
        if agent is not None and not self._is_above(agent, self.asker.agent):
            raise Refused("an agent decides the requests of its descendants only")
        if action == "escalate":
            raise Refused("without a policy there are no levels: approve the request, or deny it")
        if scope != "once":
            raise Refused("without a policy a permission is given once; `hearth policy init` writes a policy")
        verdict = "approved" if action == "approve" else "denied"
        if not self._pending.settle(self, Settlement(verdict, reason, by.name, by.channel)):
            raise Refused(f"request {self.id} was settled in the meantime")
        return f"request {self.id} is {verdict}"


class OpenPermission:
    """Open permission request of an agent. `item` is what waits in the table of pending decisions."""

    def __init__(self, agent: "Agent", request: acp.PermissionRequest, answer: Answer, item: PendingItem) -> None:
        self.agent = agent
        self.request = request
        self.item = item
        self.id = item.id
        self.created = time.time()
        title = request.tool_call.get("title")
        # The agent's text, and often the command itself.
        self._title = _of_one_line(title) if isinstance(title, str) else None
        self._input = _shown(request.tool_call.get("rawInput"))
        self._answer = answer
        self.task: asyncio.Task[None] | None = None
        # False while the policy alone decides, and no lead or person is asked.
        self.is_asked = True
        # Called once, when the request is settled.
        self.on_end: Callable[[OpenPermission], None] = lambda permission: None

    def reply(self, option: str | None) -> None:
        """Answer the agent, once; None means that the turn was cancelled."""
        if self.agent.permissions.pop(self.id, None) is not None:
            self._answer(option)
            self.on_end(self)

    def withdraw(self, reason: str) -> None:
        """End the request without a decision."""
        task, self.task = self.task, None
        self.reply(None)
        if task is not None:
            task.cancel()

    def describe(self) -> dict[str, Any]:
        """Return the request as tools and snapshots have it."""
        call = self.request.tool_call
        kind = call.get("kind")
        actions = [
            {"id": option.id, "label": option.name, "behavior": "allow" if option.kind == "allow_once" else "deny"}
            for option in self.request.options
            if option.kind in ("allow_once", "reject_once", "reject_always")
        ]
        return {
            "id": self.id,
            "provider": self.agent.record.provider,
            "name": acp.tool_name(call) or (kind if isinstance(kind, str) else "tool"),
            "kind": _KINDS.get(str(kind), "tool"),
            "title": self._title,
            "input": self._input,
            "actions": actions,
        }


class Permissions:
    """Decisions about the permission requests of one daemon's agents.

    `asked` is called for each request that waits for a decision, `answered` for an agent that was answered.
    """

    def __init__(
        self,
        hub: "Hub",
        is_above: IsAbove,
        asked: "Callable[[Agent, OpenPermission], None]",
        answered: "Callable[[Agent], None]",
    ) -> None:
        self._hub = hub
        self._is_above = is_above
        self._asked = asked
        self._answered = answered
        self._tasks: set[asyncio.Task[None]] = set()

    def request(self, agent: "Agent", tool_client: str, request: acp.PermissionRequest, answer: Answer) -> None:
        """Decide a request, or put it to those who may decide."""
        guard = self._hub.policy.guard
        packs = None if guard else self._hub.config.packs
        if is_own_tool(tool_client, request.tool_call, packs, partial(self._has_tool, agent.id)):
            answer(acp.choose_option(request.options, allow=True))
            return
        if len(agent.permissions) >= PERMISSIONS_LIMIT:
            answer(None)
            agent.note_error(f"a permission request was cancelled: {PERMISSIONS_LIMIT} are open already")
            return
        try:
            uses = uses_of(tool_client, request.tool_call, agent.record.cwd)
        except HearthError as exc:
            agent.note_error(f"a permission request was denied: {exc}")
            answer(acp.choose_option(request.options, allow=False))
            return
        if guard is None:
            self._wait(agent, request, answer, uses)
        else:
            self._decide(guard, agent, request, answer, uses)

    def _has_tool(self, agent: str, name: str) -> bool:
        """Tell whether a session of an agent has a tool: the name alone could be another server's."""
        sessions = [session for session in self._hub.sessions if session.proven[1] == agent]
        return any(self._hub.has_tool(session, name) for session in sessions)

    def _asker(self, agent: "Agent", role: str) -> Asker:
        record = agent.record
        # The project's policy is that of the agent's own folder, as it is for the agent's sessions and hooks.
        return Asker(agent_principal(agent.id), role, "", record.provider, agent.id, record.cwd, record.cwd)

    # --- without a policy

    def _wait(self, agent: "Agent", request: acp.PermissionRequest, answer: Answer, uses: list[ToolUse]) -> None:
        use = uses[0] if uses else _unknown(request)
        item = AgentPermission(self._asker(agent, ""), use, self._is_above, self._hub.pending)
        try:
            self._hub.pending.add(item)
        except NoRoom as exc:
            answer(None)
            agent.note_error(f"a permission request was cancelled: {exc}")
            return
        permission = OpenPermission(agent, request, answer, item)
        permission.on_end = self._withdraw_item
        permission.task = self._spawn(self._settle(permission))
        self._announce(permission)

    async def _settle(self, permission: OpenPermission) -> None:
        outcome = await permission.item.wait(None)
        permission.task = None
        if outcome is None or outcome.verdict == "withdrawn":
            permission.reply(None)
        else:
            self._reply(permission, outcome.verdict == "approved", outcome.reason)

    def _withdraw_item(self, permission: OpenPermission) -> None:
        self._hub.pending.settle(permission.item, Settlement("withdrawn", "the agent's turn has ended"))
        permission.agent.note_change()

    # --- with a policy

    def _decide(
        self,
        guard: "Guard",
        agent: "Agent",
        request: acp.PermissionRequest,
        answer: Answer,
        uses: list[ToolUse],
    ) -> None:
        # Held among the agent's requests from now on, so that the bound counts requests that are being decided.
        holder = OpenPermission(agent, request, answer, PendingItem(agent_principal(agent.id)))
        holder.is_asked = False
        agent.permissions[holder.id] = holder
        holder.task = self._spawn(self._obtain(guard, holder, uses or [_unknown(request)], is_known=bool(uses)))

    async def _obtain(self, guard: "Guard", holder: OpenPermission, uses: list[ToolUse], is_known: bool) -> None:
        agent = holder.agent

        def asked(approval: PendingItem) -> None:
            agent.permissions.pop(holder.id, None)
            holder.item, holder.id, holder.is_asked = approval, approval.id, True
            self._announce(holder)

        asker = self._asker(agent, agent.record.role or guard.policy.default_role)
        allowed, reason = True, ""
        try:
            for use in uses:
                allowed, reason = await guard.obtain(
                    asker, None, use.tool, use.arguments, None, asked, "permission", must_ask=not is_known
                )
                if not allowed:
                    break
        except Exception:
            # The agent must be answered, whatever fails.
            log.exception("unhandled exception while deciding a permission agent=%s", agent.id)
            allowed, reason = False, "the decision failed; `hearth logs` has the reason"
        holder.task = None
        self._reply(holder, allowed, reason)
        agent.note_change()

    # --- both

    def _announce(self, permission: OpenPermission) -> None:
        agent = permission.agent
        agent.permissions[permission.id] = permission
        agent.note_change()
        self._asked(agent, permission)

    def _reply(self, permission: OpenPermission, allowed: bool, reason: str) -> None:
        option = acp.choose_option(permission.request.options, allow=allowed)
        if allowed and option is None:
            option = acp.choose_option(permission.request.options, allow=False)
            reason = "the agent offers no option that allows this once"
        if reason and (not allowed or "offers no option" in reason):
            permission.agent.note_error(f"permission denied: {reason}")
        permission.reply(option)
        self._answered(permission.agent)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _unknown(request: acp.PermissionRequest) -> ToolUse:
    """Return the use that stands for a tool that is not known: never the title, only what the agent will do."""
    from hearth.wire import json

    raw = json.dumps(request.tool_call.get("rawInput") or {})
    kind = request.tool_call.get("kind")
    return ToolUse(acp.tool_name(request.tool_call) or (kind if isinstance(kind, str) else "") or "unknown", raw)


def _of_one_line(text: str) -> str:
    """Return a text for display: secrets masked, characters that do not show escaped, on one line."""
    return escaped(everywhere(text[:SHOWN_CHARACTERS])).replace("\n", "\\n")


def _shown(raw: object) -> object:
    """Return the raw input of a tool without secrets, or its size where it is too long."""
    from hearth.wire import json

    if raw is None:
        return None
    encoded = json.dumps(raw)
    if len(encoded) <= SHOWN_CHARACTERS:
        # A number that is a secret leaves no JSON behind.
        with contextlib.suppress(HearthError, ValueError):
            shown = json.loads(everywhere(encoded.decode()).encode())
            return shown if isinstance(shown, dict) else {"value": shown}
    return {"bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()}

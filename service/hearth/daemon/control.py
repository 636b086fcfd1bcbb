"""Commands about the daemon itself, and the control frames that carry them.

`answer_frame` turns a control frame into a command of `ControlApi` and its outcome into the frame that answers it,
`http/api.py` does so for `/api/v1`. A frontend authorizes its client first: every request that reaches this module
comes from the daemon's own user. The frontend passes the session that asks, if there is one: its request is put to
the owner.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.errors import FrameError, HearthError, MessageError, PersonRequired, Refused
from hearth.hub import events
from hearth.hub.authorization.pending import Approver
from hearth.hub.events import EVENTS, KEPT_EVENTS, HubEvent, Subscription
from hearth.hub.sessions import Session
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.agent_control import AgentCommands
    from hearth.daemon.daemon import Daemon
    from hearth.hub.authorization.guard import Guard
    from hearth.hub.authorization.hooks import HookService
    from hearth.policy.hook_formats import HookAnswer

# Longest sentence in a header: a header has at most 64 KiB.
SENTENCE_LIMIT = 8000
# Events in one frame; between two frames the reader may fall behind, and the queue drops instead of the connection.
EVENTS_PER_FRAME = 100

# The session below whose client a command was typed, or the one that stands for an agent; None for a person.
Attribution = Awaitable[Session | None]
# The header and the payload of an answer.
Answer = tuple[dict[str, Any], bytes]


class BadArgument(Refused):
    """Error for an argument of a command that is missing, unknown or of another kind."""

    exit_code = 2


def refuse_agents(session: Session | None, what: str) -> None:
    """Raise PersonRequired if a command was typed below an agent."""
    if session is not None:
        name = repr(session.client.get("name") or session.id)
        if session.is_agent:
            name = f"agent {session.agent_id!r}"
        raise PersonRequired(f"{what} is for a person, and runs below {name} here; type it in a terminal of your own")


class EventFeed(NamedTuple):
    """Kept events, the oldest first, and the subscription that continues right after them, if one was requested."""

    kept: list[HubEvent]
    subscription: Subscription | None


class ControlApi:
    """Commands of a running daemon. One that changes something returns a sentence; all may raise HearthError."""

    def __init__(self, services: "Daemon") -> None:
        self._services = services
        # Service that answers hooks; None without a policy.
        self.hooks = self._hooks

    def cmd_status(self) -> dict[str, Any]:
        """Return the status document."""
        return self._services.status()

    def cmd_sessions(self) -> list[dict[str, Any]]:
        """Return the sessions as the status document has them."""
        found: list[dict[str, Any]] = self._services.status()["sessions"]
        return found

    async def cmd_tools(self, query: str = "", server: str | None = None, limit: object = None) -> bytes:
        """Return the known tools, or the tools that match a query, as a JSON document. Starts no server."""
        return await self._services.hub.tools(query, server, limit)

    def cmd_events(self, follow: bool = False, count: int | None = None) -> EventFeed:
        """Return the newest `count` kept events (all without it) and, to `follow`, a subscription to close.

        No event is between the two.
        """
        kept = EVENTS.kept(KEPT_EVENTS if count is None else count)
        return EventFeed(kept, EVENTS.subscribe() if follow else None)

    def cmd_approved(self) -> str:
        """Read again which tools a person approved, and tell clients."""
        # The owner is not asked: these approvals are read from files that only a person's own commands write.
        return self._services.hub.approved()

    def check_typed(self, asker: Session | None) -> None:
        """Raise Refused for an owner's command that was typed below a client, if no other session can be asked.

        Refused below an agent, even if another session could be asked.
        """
        owner = self._services.hub.sessions.owner
        if owner is None or owner is asker or not owner.can_be_asked() or (asker is not None and asker.is_agent):
            refuse_agents(asker, "this")

    async def cmd_reload(self, asker: Session | None = None) -> str:
        """Read the config again. Raises ConfigError, in which case the former config stays, or Refused by the owner."""
        await self._services.hub.obtain_owner_approval(asker, "reload")
        return self._services.reload()

    async def cmd_restart(self, server: str, asker: Session | None = None) -> str:
        """Restart one MCP server when its calls are done. Raises Refused, also for an unknown name."""
        await self._services.hub.obtain_owner_approval(asker, "restart")
        return self._services.hub.restart(server)

    async def cmd_shutdown(self, restart: bool = False, when_quiet: bool = False, asker: Session | None = None) -> str:
        """Shut the daemon down soon; with `restart` bridges reconnect at once. Raises Refused by the owner."""
        await self._services.hub.obtain_owner_approval(asker, "shutdown")
        loop = asyncio.get_running_loop()
        # Soon, not now: the answer has to be written first.
        if restart and when_quiet:
            loop.call_soon(self._services.shut_down_when_quiet, "it was asked to restart when quiet")
            return "shutting down as soon as no call is in flight and no agent at work"
        loop.call_soon(self._services.shut_down, "it was asked to", restart)
        return "shutting down"

    def cmd_approvals(self) -> dict[str, Any]:
        """Return what waits for a lead or a person, and the grants that are good; without a policy there are none."""
        hub = self._services.hub
        grants = hub.policy.guard.approvals.grants.list() if hub.policy.guard else []
        return {
            "approvals": [each.describe() for each in hub.pending],
            "grants": [each.describe() for each in grants],
        }

    async def cmd_decide(
        self, id: str, action: str, scope: str, reason: str, channel: str, asker: Session | None = None
    ) -> str:
        """Decide what waits, for a person: `approve` or `deny`. Raises Refused, also below an agent."""
        refuse_agents(asker, f"`hearth {action}`")
        return await self._services.hub.pending.decide(id, action, Approver("person", channel), reason, scope)

    def cmd_revoke(self, id: str, asker: Session | None = None) -> str:
        """Revoke the grants of an approval. Raises Refused, also below an agent."""
        refuse_agents(asker, "revoking a grant")
        if not self._guard().approvals.grants.revoke(id):
            raise Refused(f"there is no grant {id!r}; `hearth approvals --granted` lists them")
        return f"grant {id} is revoked"

    def cmd_policy_apply(self, digest: str, asker: Session | None = None) -> str:
        """Put a change of the policy in force that waits. Raises Refused, also below an agent that is no lead."""
        guard = self._guard()
        role = guard.role(asker) if asker else None
        if role is None or not role.lead:
            refuse_agents(asker, "`hearth policy apply`")
        return self._services.policy.apply(digest)

    def _agents(self) -> "AgentCommands":
        # Loaded with the first command about agents.
        from hearth.daemon.agent_control import AgentCommands

        return AgentCommands(self._services)

    async def cmd_agents(self, include_closed: bool = False, asker: Session | None = None) -> list[dict[str, Any]]:
        """Return the agents that a caller may see, those that work first. Raises Refused without the pack."""
        return await self._agents().snapshots(include_closed, asker)

    async def cmd_agent(self, verb: str, arguments: Mapping[str, Any], asker: Session | None = None) -> dict[str, Any]:
        """Run a command about agents and return its result; docs/http.md has them. Raises Refused, AgentError."""
        return await self._agents().run(verb, arguments, asker)

    def cmd_agent_log(
        self, arguments: Mapping[str, Any], asker: Session | None = None
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """Yield entries of an agent's timeline, and to `follow` those to come. Raises Refused at the first one."""
        return self._agents().log(arguments, asker)

    def _hooks(self) -> "HookService | None":
        return self._services.policy.hooks()

    def _guard(self) -> "Guard":
        guard = self._services.hub.policy.guard
        if guard is None:
            raise Refused("there is no policy, so nothing is granted by one; `hearth policy init` writes one")
        return guard

    async def cmd_hook(
        self, client: str, event: str, payload: bytes, pid: int | None, token: str | None, agent: str | None = None
    ) -> "HookAnswer | None":
        """Return the answer to a client's hook; None without a policy. Raises nothing.

        `token` is a role token or an agent's, `agent` the id of the agent that the caller claims to be.
        """
        service = self.hooks()
        if service is None:
            return None
        answering = service.answer(client, event, payload, pid, token, agent)
        answer, _ = await asyncio.gather(answering, self._services.policy.heard.hear(pid))
        return answer


# --- control frames


async def answer_frame(
    api: ControlApi, header: dict[str, Any], session: Session | None, attributed: Callable[[], Attribution]
) -> Answer:
    """Return the answer to a control frame, its own refusals included.

    `session` is the one that asks by itself; `attributed` finds the one below whose client a command was typed.
    """
    answer: dict[str, Any] = {"type": header["type"], "re": integer(header, "seq")}
    try:
        asker = session
        if session is None and header["type"] in PERSONS_COMMANDS:
            asker = await attributed()
            if header["type"] in OWNERS_COMMANDS:
                api.check_typed(asker)
        more, payload = await _run(api, header, asker)
    except HearthError as exc:
        return {**answer, "ok": False, "message": str(exc)[:SENTENCE_LIMIT]}, b""
    return {**answer, **more}, payload


async def _run(api: ControlApi, header: dict[str, Any], asker: Session | None) -> Answer:
    match header["type"]:
        case "status":
            return {}, json.dumps(api.cmd_status())
        case "tools":
            wanted = string(header, "query") or "", string(header, "server"), header.get("limit")
            return {"ok": True}, await api.cmd_tools(*wanted)
        case "approved":
            message = api.cmd_approved()
        case "reload":
            message = await api.cmd_reload(asker)
        case "restart":
            message = await api.cmd_restart(string(header, "server") or "", asker)
        case "shutdown":
            restart, when_quiet = header.get("restart") is True, header.get("whenQuiet") is True
            message = await api.cmd_shutdown(restart, when_quiet, asker)
        case "approvals":
            return {"ok": True}, json.dumps(api.cmd_approvals())
        case "decide":
            id, action, scope = (string(header, key) or "" for key in ("id", "action", "scope"))
            message = await api.cmd_decide(id, action, scope or "once", string(header, "reason") or "", "cli", asker)
        case "revoke":
            message = api.cmd_revoke(string(header, "id") or "", asker)
        case "applyPolicy":
            message = api.cmd_policy_apply(string(header, "digest") or "", asker)
        case "person":
            # For commands that change files by themselves: role tokens, trust.
            refuse_agents(asker, string(header, "what") or "this")
            message = "a person"
        case kind:
            raise FrameError(f"unknown frame type {kind!r}")
    return {"ok": True, "message": message}, b""


# The control frame that may get many.
EVENTS_FRAME = "events"
# The control frame with a payload: `hooks` answers it.
HOOK_FRAME = "hook"
# Control frames about agents, with arguments in the payload: `agent_control` answers them.
AGENTS_FRAME, AGENT_LOG_FRAME = "agents", "agentLog"
AGENT_FRAMES = frozenset({AGENTS_FRAME, "agent", AGENT_LOG_FRAME})
POLICY_FRAMES = frozenset({"approvals", "decide", "revoke", "applyPolicy", "person"})
# Commands that a session other than the owner may not give by itself.
OWNERS_COMMANDS = frozenset({"reload", "restart", "shutdown"})
# Commands for which it matters whether a person typed them.
PERSONS_COMMANDS = OWNERS_COMMANDS | POLICY_FRAMES - {"approvals"}
CONTROL_TYPES = frozenset({"status", "tools", "approved", EVENTS_FRAME, HOOK_FRAME})
CONTROL_TYPES |= POLICY_FRAMES | OWNERS_COMMANDS | AGENT_FRAMES


async def answer_events(
    api: ControlApi,
    header: dict[str, Any],
    send: Callable[[dict[str, Any], bytes], None],
    drained: Callable[[], Awaitable[None]],
) -> None:
    """Send the kept events and, where `follow` asks for it, all later ones until the daemon shuts down.

    `drained` waits until the reader has taken what was sent: a slow reader loses events, not its connection.
    """
    seq, count = integer(header, "seq"), header.get("count")
    feed = api.cmd_events(header.get("follow") is True, count if type(count) is int else None)
    answer = {"type": EVENTS_FRAME, "re": seq}
    if feed.subscription is None:
        send({**answer, "ok": True, "more": False}, _array(feed.kept))
        return
    with feed.subscription as subscription:
        send({**answer, "ok": True, "more": True}, _array(feed.kept))
        while not subscription.is_closed:
            await drained()
            found = await subscription.wait()
            for start in range(0, len(found), EVENTS_PER_FRAME):
                send({**answer, "more": True}, _array(found[start : start + EVENTS_PER_FRAME]))
    send({**answer, "more": False}, _array([]))


def _array(found: list[HubEvent]) -> bytes:
    return b"[%b]" % b",".join(map(events.encode, found))


# --- reading headers


def integer(header: dict[str, Any], name: str) -> int:
    """Return a whole number of a header. Raises FrameError where there is none."""
    value = header.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FrameError(f"a {header.get('type')} frame without a whole number as {name!r}")
    return value


def string(header: dict[str, Any], name: str) -> str | None:
    """Return a string of a header, or None for anything else."""
    value = header.get(name)
    return value if isinstance(value, str) else None


def parse(payload: bytes, what: str = "arguments") -> dict[str, Any]:
    """Return the arguments of a command: a JSON object, or nothing. Raises BadArgument, which says `what` they are."""
    if not payload.strip():
        return {}
    try:
        found = json.loads(payload)
    except (MessageError, ValueError) as exc:
        raise BadArgument(f"the {what} must be a JSON object, or nothing") from exc
    if not isinstance(found, dict):
        raise BadArgument(f"the {what} must be a JSON object, or nothing")
    return found

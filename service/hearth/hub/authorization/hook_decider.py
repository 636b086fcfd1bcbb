"""Decider of the hooks: roles, approvals and the audit trail behind a client's own tools.

The caller of a hook is the agent whose token it shows, or whose process is above the hook's; else it is identified by
its role token, else by the session whose client is an ancestor of the hook's process, else it has the default role. An
agent's client may have the user's own hooks, with a role token: the agent stays the agent. The ids in a payload are the
client's, and prove nothing.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from hearth.errors import Refused
from hearth.hub.agent_directory import ProcessOwner, check_claim, proven_by
from hearth.hub.authorization.guard import Guard
from hearth.hub.authorization.hooks import HookCaller, HookSettings
from hearth.hub.authorization.pending import Asker
from hearth.hub.sessions import Session, agent_principal, digest
from hearth.policy.hook_formats import HookCall, HookVerdict
from hearth.policy.hook_tools import BRIDGE_NAME, RESOURCE_TOOLS, plain_name

if TYPE_CHECKING:
    from hearth.policy.stop_checks import StopFacts

# Finds the client or agent that a process descends from.
OwnerOf = Callable[[int | None], Awaitable[ProcessOwner]]
# Tells whether a tool is a session's to call, by its name there.
HasTool = Callable[[Session, str], bool]
# Seconds that a decision has less than the hook, which has to write its answer.
MARGIN_SECONDS = 2.0


class HookRecorder(Protocol):
    """Protocol for the audit trail, as far as hooks use it."""

    def event(self, asker: Asker, name: str, outcome: str = "") -> None:
        """Record an event that decides nothing, or the outcome of a stop check."""

    def refused(self, asker: Asker, server: str, tool: str, reason: str) -> None:
        """Record a caller whose token or agent id was refused; `tool` is the one that it wanted, or the event."""


class HookDecider:
    """Decisions of the policy in force for clients' hooks."""

    def __init__(self, guard: Guard, recorder: HookRecorder, owner_of: OwnerOf, has_tool: HasTool) -> None:
        self._guard = guard
        self._recorder = recorder
        self._owner_of = owner_of
        self._has_tool = has_tool

    def settings(self) -> HookSettings:
        """Return the settings of the policy in force."""
        policy = self._guard.policy
        return HookSettings(policy.hook_wait, policy.hooks_on_error, policy.max_blocks)

    async def reaches_hearth(self, who: HookCaller, server: str, tool: str) -> bool:
        """Tell whether a client's MCP server is a bridge to this daemon: its calls are decided here already.

        The name alone proves nothing, since a client may give its own server any name: it must have a session here, and
        that session the tool. `mcp__hearth__x__run` may be `run` of a server `hearth__x`. Clients change
        characters of names, so that both are compared as the one that changes the most would write them.
        """
        found = await self._owner_of(who.pid)
        # A client below an MCP server of a session is another client than the session's.
        return not found.is_served and any(
            plain_name(session.server or BRIDGE_NAME) == plain_name(server)
            and (tool in RESOURCE_TOOLS or self._has_tool(session, tool))
            for session in found.sessions
        )

    async def decide_tool(
        self, who: HookCaller, server: str | None, tool: str, arguments: bytes, workspace: str | None
    ) -> HookVerdict:
        """Decide a client's own tool, and wait for an approval if one is needed."""
        try:
            asker = await self._identified(who, server or "", tool)
        except Refused as exc:
            return HookVerdict("deny", str(exc))
        wait = max(0.0, self._guard.policy.hook_wait - MARGIN_SECONDS)
        allowed, reason = await self._guard.obtain(asker, server, tool, arguments, wait)
        return HookVerdict("allow") if allowed else HookVerdict("deny", reason)

    async def stop_verdict(self, who: HookCaller, call: HookCall) -> HookVerdict:
        """Run the stop checks of the caller's role."""
        from hearth.policy import stop_checks

        asker = await self._identified(who, "", call.event)
        checks = self._guard.policy_for(asker.origin).stop_checks
        facts = self._facts(asker.agent) or stop_checks.NoFacts()
        # An agent may have changed into a folder without work of its own, or say that it has.
        folder = (asker.origin if asker.agent else None) or who.cwd
        failed = await stop_checks.run(checks, asker.role, folder, facts)
        verdict = stop_checks.verdict(failed, call.stop_hook_active)
        self._recorder.event(asker, call.event, verdict.kind)
        return verdict

    def noticed(self, who: HookCaller, call: HookCall) -> None:
        """Record an event that needs no answer."""
        self._recorder.event(self._unidentified(who), call.event)

    def _facts(self, agent: str) -> "StopFacts | None":
        """Return what is known of an agent of this daemon; None for any other caller."""
        agents = self._guard.agents()
        return agents.stop_facts(agent) if agents and agent and agents.identity(agent) else None

    def _unidentified(self, who: HookCaller) -> Asker:
        return Asker(_principal(who), self._guard.policy.default_role, client=who.client)

    async def _identified(self, who: HookCaller, server: str, tool: str) -> Asker:
        """Identify the caller of a hook, and record one that is refused. Raises Refused."""
        try:
            return await self._asker(who)
        except Refused as exc:
            self._recorder.refused(self._unidentified(who), server, tool, str(exc))
            raise

    async def _asker(self, who: HookCaller) -> Asker:
        """Identify the caller of a hook. Raises Refused for a token that proves nothing, and for another's agent id."""
        owner = await self._owner_of(who.pid)
        proven = proven_by(self._guard.agents(), who.token)
        if proven is not None or owner.agent is not None:
            agent = self._guard.admit(None, who.token, proven)[1] if proven else owner.agent
            assert agent is not None
            check_claim(agent, who.claimed)
            check_claim(agent, owner.agent)
            id = owner.sessions[0].id if owner.agent and owner.sessions else ""
            return self._guard.agent_asker(agent, who.client, who.cwd or None)._replace(session=id)
        session = next(iter(owner.sessions), None)
        if who.token:
            role, agent = self._guard.admit(None, who.token)
            check_claim(agent, who.claimed)
            name = role or self._guard.policy.default_role
            principal = agent_principal(agent) if agent else session.principal if session else _principal(who)
            id, origin = (session.id, session.cwd) if session else ("", who.cwd or None)
            return Asker(principal, name, id, who.client, agent or "", who.cwd or None, origin)
        if session:
            check_claim(session.proven[1], who.claimed)
            return self._guard.asker(session)._replace(workspace=who.cwd or session.cwd)
        return Asker(
            _principal(who), self._guard.policy.default_role, "", who.client, "", who.cwd or None, who.cwd or None
        )


def _principal(who: HookCaller) -> str:
    """Return the name of a caller without a session, for approvals: the client's own session."""
    return digest(f"hook {who.client} {who.session_id}")

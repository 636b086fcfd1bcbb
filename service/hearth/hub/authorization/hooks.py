"""Hooks of clients: each call is read, decided by the `Decider`, and answered in the client's own form.

    frame `hook`, POST /hooks/EVENT ─▶ HookService.answer ─▶ hook_formats.parse ─▶ Decider ─▶ hook_formats.answer

The service adds to a decision: the time limit, the deny for whatever goes wrong, one decision for one call (Codex and
Claude Code ask twice, by PreToolUse and by PermissionRequest), and the bound of blocked stops. Loaded with the first
policy; roles, approvals and the audit trail are the decider's.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple, Protocol

from hearth.errors import HearthError, HookFormatError
from hearth.policy import hook_formats
from hearth.policy.hook_formats import SILENT, HookAnswer, HookCall, HookVerdict
from hearth.policy.hook_tools import ToolUse

log = logging.getLogger(__name__)

# A client that asks by PermissionRequest does so right after PreToolUse; a person's answer is between the two.
REUSE_SECONDS = 60.0
# Decisions and counts of blocked stops that are remembered; the oldest goes first. A busy team makes a few a second.
REMEMBERED_LIMIT = 1000


class HookCaller(NamedTuple):
    """Process that called a hook. The decider finds its role: by token, else by the process tree, else the default."""

    client: str  # "claude", "codex" or "gemini"
    session_id: str  # the client's own id of its session
    pid: int | None  # of the hook's process, by the kernel's word; None over HTTP on a port
    token: str | None  # role token, or that of an agent
    cwd: str
    agent_id: str = ""  # the client's own name of a subagent; says nothing about Hearth's agents
    claimed: str | None = None  # id of the agent of Hearth's that the caller claims to be


class HookSettings(NamedTuple):
    """Settings of the policy for hooks."""

    wait: float = 50.0  # seconds for one decision (hook_wait)
    on_error: str = "deny"  # or "pass"
    max_blocks: int = 5  # blocked stops in a row


class Decider(Protocol):
    """Decisions behind the hooks."""

    def settings(self) -> HookSettings:
        """Return the settings of the policy in force."""

    async def reaches_hearth(self, who: HookCaller, server: str, tool: str) -> bool:
        """Tell whether a tool of the client's MCP server is the bridge's: this daemon decides its calls."""

    async def decide_tool(
        self, who: HookCaller, server: str | None, tool: str, arguments: bytes, workspace: str | None
    ) -> HookVerdict:
        """Return "allow" or "deny" for a client's own tool. Is cancelled after `settings().wait` seconds.

        `server` is None: a tool of an MCP server that is not Hearth's has its client's name, `mcp__SERVER__TOOL`.
        """

    async def stop_verdict(self, who: HookCaller, call: HookCall) -> HookVerdict:
        """Return "block" with the reason if a stop check fails, else "allow". Has the same time limit."""

    def noticed(self, who: HookCaller, call: HookCall) -> None:
        """Record an event that needs no answer, such as SessionStart."""


class HookService:
    """Service that answers hooks, whichever way they arrive. Without a policy there is none."""

    def __init__(self, decider: Decider, now: Callable[[], float] = monotonic) -> None:
        self._decider = decider
        self._decisions = _RecentDecisions(now)
        # Blocked stops in a row, by client and session.
        self._blocks: dict[tuple[str, str], int] = {}

    async def answer(
        self, client: str, event: str, payload: bytes, pid: int | None, token: str | None, agent: str | None = None
    ) -> HookAnswer:
        """Return the answer to one call of a hook. Raises nothing: a call that cannot be decided is denied.

        `agent` is the id of the agent that the caller claims to be.
        """
        settings = self._decider.settings()
        try:
            call = hook_formats.parse(client, event, payload)
            who = HookCaller(client, call.session_id, pid, token or None, call.cwd, call.agent_id, agent or None)
            async with asyncio.timeout(settings.wait):
                verdict = await self._verdict(who, call, settings)
            return hook_formats.answer(client, event, verdict)
        except TimeoutError:
            reason = f"Hearth's policy: there was no decision within {settings.wait:g} s (hook_wait)"
        except HookFormatError as exc:
            reason = f"Hearth's policy: {exc}"
        except HearthError as exc:
            reason = f"Hearth's policy: no decision was possible: {exc}"
        except Exception:
            # Whatever fails here must end as a deny, not as an error of the connection, which the client would pass.
            log.exception("unhandled exception while deciding a hook client=%.20s event=%.40s", client, event)
            reason = "Hearth's policy: the decision failed; `hearth logs` has why"
        log.warning("hook not decided client=%.20s event=%.40s reason=%.200s", client, event, reason)
        return HookAnswer(b"") if settings.on_error == "pass" else hook_formats.failure(client, event, reason)

    async def _verdict(self, who: HookCaller, call: HookCall, settings: HookSettings) -> HookVerdict:
        if call.name in hook_formats.DECIDING:
            return await self._decide(who, call)
        if call.name in hook_formats.STOPPING:
            return await self._stop(who, call, settings)
        self._decider.noticed(who, call)
        return SILENT

    # --- tools

    async def _decide(self, who: HookCaller, call: HookCall) -> HookVerdict:
        if call.mcp is not None and await self._decider.reaches_hearth(who, *call.mcp):
            return SILENT
        former = self._decisions.take(call)
        if former is not None:
            return former
        verdict = HookVerdict("allow")
        for use in _uses(call):
            verdict = await self._decider.decide_tool(who, None, use.tool, use.arguments, call.cwd or None)
            if verdict.kind != "allow":
                break
        self._decisions.keep(call, verdict)
        return verdict

    # --- stops

    async def _stop(self, who: HookCaller, call: HookCall, settings: HookSettings) -> HookVerdict:
        verdict = await self._decider.stop_verdict(who, call)
        key = (call.client, call.session_id)
        blocked = self._blocks.pop(key, 0)
        if verdict.kind not in ("block", "deny"):
            return verdict
        if blocked >= settings.max_blocks:
            log.warning("stop passed after %d blocks client=%s session=%.80s", blocked, *key)
            return HookVerdict("allow")
        self._blocks[key] = blocked + 1
        while len(self._blocks) > REMEMBERED_LIMIT:
            del self._blocks[next(iter(self._blocks))]
        return verdict


def _uses(call: HookCall) -> tuple[ToolUse, ...]:
    if call.mcp is None:
        return call.uses
    return (ToolUse("mcp__{}__{}".format(*call.mcp), call.arguments),)


class _RecentDecisions:
    """Decisions of PreToolUse, each kept a minute for the PermissionRequest about the same call, and used once.

    A second PreToolUse is another call, and is decided by itself: what was approved once must not serve twice.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._kept: dict[tuple[str, ...], tuple[float, HookVerdict]] = {}

    def keep(self, call: HookCall, verdict: HookVerdict) -> None:
        if call.name != "PreToolUse" or not call.session_id:
            return
        self._kept[_key(call)] = self._now() + REUSE_SECONDS, verdict
        while len(self._kept) > REMEMBERED_LIMIT:
            del self._kept[next(iter(self._kept))]

    def take(self, call: HookCall) -> HookVerdict | None:
        if call.name != "PermissionRequest":
            return None
        until, verdict = self._kept.pop(_key(call), (0.0, SILENT))
        return verdict if self._now() < until else None


def _key(call: HookCall) -> tuple[str, ...]:
    digest = hashlib.sha256(b"\0".join(use.tool.encode() + b"\0" + use.arguments for use in _uses(call)))
    return call.client, call.session_id, call.agent_id, digest.hexdigest()

"""Formats of clients' hooks: reading the JSON that a client gives to its hook, writing the answer it expects. No I/O.

    client   deciding events               allow                          deny
    claude   PreToolUse                    permissionDecision "allow"     permissionDecision "deny" with a reason
             PermissionRequest             behavior "allow"               behavior "deny" with a message
    codex    PreToolUse                    silence                        permissionDecision "deny" with a reason
             PermissionRequest             behavior "allow"               behavior "deny" with a message
    gemini   BeforeTool                    decision "allow"               decision "deny" with a reason

Stop, SubagentStop (claude, codex) are blocked by decision "block", AfterAgent (gemini) by decision "deny", each with a
reason that the model reads. Every other event is answered by silence. "ask" is never said: Codex would run the command,
and Claude Code without a terminal would deny it without the reason.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from hearth.errors import HookFormatError
from hearth.policy import hook_tools
from hearth.policy.hook_tools import ToolUse

# Largest payload that is decided: a file that Write creates travels in it, and such files are seldom over 1 MiB.
PAYLOAD_LIMIT_BYTES = 4 * 1024 * 1024
# Longest reason for a model or a person to read; a page of text.
REASON_LIMIT_CHARACTERS = 4000
_DEFAULT_REASON = "denied by Hearth's policy"
_SHOWN_CHARACTERS = 80

CLIENTS = ("claude", "codex", "gemini")
TITLES = {"claude": "Claude Code", "codex": "Codex", "gemini": "Gemini CLI"}

# Names of events on the command line, with the name that each client has for it.
EVENTS: dict[str, dict[str, str]] = {
    "claude": {
        "pre-tool-use": "PreToolUse",
        "post-tool-use": "PostToolUse",
        "post-tool-use-failure": "PostToolUseFailure",
        "permission-request": "PermissionRequest",
        "permission-denied": "PermissionDenied",
        "notification": "Notification",
        "user-prompt-submit": "UserPromptSubmit",
        "stop": "Stop",
        "subagent-start": "SubagentStart",
        "subagent-stop": "SubagentStop",
        "pre-compact": "PreCompact",
        "post-compact": "PostCompact",
        "session-start": "SessionStart",
        "session-end": "SessionEnd",
    },
    "codex": {
        "pre-tool-use": "PreToolUse",
        "post-tool-use": "PostToolUse",
        "permission-request": "PermissionRequest",
        "user-prompt-submit": "UserPromptSubmit",
        "stop": "Stop",
        "subagent-start": "SubagentStart",
        "subagent-stop": "SubagentStop",
        "pre-compact": "PreCompact",
        "post-compact": "PostCompact",
        "session-start": "SessionStart",
        "session-end": "SessionEnd",
    },
    "gemini": {
        "before-tool": "BeforeTool",
        "after-tool": "AfterTool",
        "before-agent": "BeforeAgent",
        "after-agent": "AfterAgent",
        "before-model": "BeforeModel",
        "after-model": "AfterModel",
        "before-tool-selection": "BeforeToolSelection",
        "pre-compress": "PreCompress",
        "notification": "Notification",
        "session-start": "SessionStart",
        "session-end": "SessionEnd",
        # The names of the other clients for the same moments.
        "pre-tool-use": "BeforeTool",
        "post-tool-use": "AfterTool",
        "user-prompt-submit": "BeforeAgent",
        "stop": "AfterAgent",
        "pre-compact": "PreCompress",
    },
}
# Event of Hearth's own agents, which has no name in any client.
WORKER_EXIT = "worker-exit"
DECIDING = frozenset({"PreToolUse", "BeforeTool", "PermissionRequest"})
STOPPING = frozenset({"Stop", "SubagentStop", "AfterAgent"})
_ANSWERS_ALLOW = {("claude", "PreToolUse"), ("gemini", "BeforeTool")}


class HookCall(NamedTuple):
    """One call of a hook, as the client described it."""

    client: str
    event: str  # as on the command line
    session_id: str  # the client's own, not Hearth's
    cwd: str
    tool: str | None  # canonical name; None for events without a tool
    mcp: tuple[str, str] | None  # the client's name of an MCP server, and the tool there
    arguments: bytes
    stop_hook_active: bool
    tool_use_id: str = ""
    agent_id: str = ""  # the client's name of a subagent
    also: tuple[ToolUse, ...] = ()  # further uses in the same call: the other files of a patch

    @property
    def name(self) -> str:
        """The client's own name of the event."""
        return own_name(self.client, self.event)

    @property
    def uses(self) -> tuple[ToolUse, ...]:
        """Every use of a tool in this call; all of them must be allowed."""
        return () if self.tool is None else (ToolUse(self.tool, self.arguments), *self.also)


class HookVerdict(NamedTuple):
    """Verdict on a hook call: "allow", "deny" (a tool), "block" (a stop) or "silent" (no opinion)."""

    kind: str
    reason: str = ""


SILENT = HookVerdict("silent")


class HookAnswer(NamedTuple):
    """Output and exit code of a hook process."""

    stdout: bytes
    exit_code: int = 0
    stderr: bytes = b""


# --- events


def own_name(client: str, event: str) -> str:
    """Return the client's own name of an event. Raises HookFormatError."""
    if client not in EVENTS:
        raise HookFormatError(f"there is no client {_shown(client)}; known: {', '.join(CLIENTS)}")
    if event == WORKER_EXIT:
        return ""
    if event not in EVENTS[client]:
        raise HookFormatError(f"{TITLES[client]} has no event {_shown(event)}; known: {', '.join(EVENTS[client])}")
    return EVENTS[client][event]


def decides(client: str, event: str) -> bool:
    """Tell whether the answer decides over a tool. An unknown event might, so it counts as deciding."""
    try:
        return own_name(client, event) in DECIDING
    except HookFormatError:
        return True


def stops(client: str, event: str) -> bool:
    """Tell whether the event is the end of a turn, which a stop check can block."""
    try:
        return own_name(client, event) in STOPPING
    except HookFormatError:
        return False


# --- calls


def parse(client: str, event: str, payload: bytes) -> HookCall:
    """Read the JSON of a hook. Raises HookFormatError for anything that is not known to mean what it says."""
    name = own_name(client, event)
    found = _decoded(payload)
    said = found.get("hook_event_name")
    if name and said is not None and said != name:
        raise HookFormatError(f"the hook for {name} was called for {_shown(said)}; `hearth connect --hooks` repairs it")
    call = HookCall(
        client,
        event,
        _text(found, "session_id"),
        _text(found, "cwd"),
        None,
        None,
        b"{}",
        found.get("stop_hook_active") is True,
        _text(found, "tool_use_id"),
        _text(found, "agent_id"),
    )
    if "tool_name" not in found and name not in DECIDING:
        return call
    return _with_tool(call, found)


def _decoded(payload: bytes) -> dict[str, Any]:
    if len(payload) > PAYLOAD_LIMIT_BYTES:
        raise HookFormatError(f"the hook's input has {len(payload)} bytes; the limit is {PAYLOAD_LIMIT_BYTES}")
    try:
        found = json.loads(payload.decode(), object_pairs_hook=_unique, parse_constant=_refused)
    except (ValueError, RecursionError) as exc:
        raise HookFormatError(f"the hook's input is not JSON: {str(exc)[:_SHOWN_CHARACTERS]}") from exc
    if not isinstance(found, dict):
        raise HookFormatError("the hook's input is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. Two values of one key mean different things to different readers, so they are refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if value is not None and not isinstance(value, str):
        raise HookFormatError(f"{key!r} in the hook's input is not a text")
    return value or ""


def _with_tool(call: HookCall, found: Mapping[str, Any]) -> HookCall:
    tool = _text(found, "tool_name")
    arguments = found.get("tool_input", found.get("tool_parameters", {}))
    if not tool:
        raise HookFormatError("the hook's input names no tool ('tool_name')")
    if not isinstance(arguments, dict):
        if call.name in DECIDING:
            raise HookFormatError(f"the arguments of {_shown(tool)} are not an object")
        arguments = {}
    mcp = hook_tools.mcp_tool(call.client, tool, arguments, found.get("mcp_context"))
    if mcp is not None:
        return call._replace(tool=tool, mcp=mcp, arguments=hook_tools.encoded(arguments))
    first, *also = hook_tools.uses(call.client, tool, arguments, call.cwd)
    return call._replace(tool=first.tool, arguments=first.arguments, also=tuple(also))


# --- answers


def answer(client: str, event: str, verdict: HookVerdict) -> HookAnswer:
    """Return the output by which a client learns a verdict. Raises HookFormatError for an unknown client or event."""
    name = own_name(client, event)
    if verdict.kind not in ("allow", "deny", "block", "silent"):
        raise HookFormatError(f"there is no verdict {_shown(verdict.kind)}")
    refused = verdict.kind in ("deny", "block")
    if verdict.kind == "silent" or name not in DECIDING | STOPPING:
        return HookAnswer(b"")
    if name in STOPPING:
        word = "deny" if client == "gemini" else "block"
        return _said({"decision": word, "reason": _reason(verdict)}) if refused else HookAnswer(b"")
    if name == "PermissionRequest":
        decision = {"behavior": "deny", "message": _reason(verdict)} if refused else {"behavior": "allow"}
        return _said({"hookSpecificOutput": {"hookEventName": name, "decision": decision}})
    if not refused and (client, name) not in _ANSWERS_ALLOW:
        # Codex takes "allow" only together with a rewritten input, and reports anything else as a failed hook.
        return HookAnswer(b"")
    word = "deny" if refused else "allow"
    if client == "gemini":
        return _said({"decision": word, **({"reason": _reason(verdict)} if refused else {})})
    decided = {"hookEventName": name, "permissionDecision": word}
    if refused or verdict.reason:
        decided["permissionDecisionReason"] = _reason(verdict)
    return _said({"hookSpecificOutput": decided})


def failure(client: str, event: str, reason: str) -> HookAnswer:
    """Return the answer of a hook that could not be decided: a deny where the event decides, else silence.

    A stop is not held up: an agent that cannot stop for a reason that it cannot mend would work on for ever.
    """
    if not decides(client, event):
        return HookAnswer(b"")
    try:
        return answer(client, event, HookVerdict("deny", reason))
    except HookFormatError:
        # Exit code 2 with the reason on standard error is a deny to every client.
        return HookAnswer(b"", 2, reason[:REASON_LIMIT_CHARACTERS].encode() + b"\n")


def _reason(verdict: HookVerdict) -> str:
    # An empty reason makes Codex take a deny for a failed hook, and run the tool.
    return verdict.reason.strip()[:REASON_LIMIT_CHARACTERS] or _DEFAULT_REASON


def _said(document: Mapping[str, object]) -> HookAnswer:
    return HookAnswer(json.dumps(document, separators=(",", ":")).encode() + b"\n")


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN_CHARACTERS]

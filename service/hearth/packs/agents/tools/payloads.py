"""Agents as tools and frontends show them: snapshots, list items and permission requests. Pure.

The names are those of `schemas`. Times are ISO 8601 in UTC.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hearth.packs.agents.model import AttentionReason, Mode

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent

# Label that names the parent of an agent.
PARENT_LABEL = "hearth.parent-agent-id"
_SHORT_ID_CHARACTERS = 7
# Tokens of the last turn; cost and context window of the session.
USAGE = (
    *("inputTokens", "cachedInputTokens", "outputTokens"),
    *("totalCostUsd", "contextWindowMaxTokens", "contextWindowUsedTokens"),
)


def timestamp(seconds: float | None) -> str | None:
    """Return a time as text."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def modes(found: list[Mode]) -> list[dict[str, Any]]:
    """Return modes as entries."""
    return [
        {"id": each.id, "label": each.label, **({"description": each.description} if each.description else {})}
        for each in found
    ]


def attention_reason(agent: "Agent") -> AttentionReason | None:
    """Return why an agent requires attention; None if it does not, as when it is closed."""
    if agent.is_closed:
        return None
    return "permission" if agent.asked() else agent.record.attention


def item(agent: "Agent") -> dict[str, Any]:
    """Return an agent for a list."""
    record = agent.record
    reason, asked = attention_reason(agent), agent.asked()
    return {
        "id": agent.id,
        "shortId": agent.id[:_SHORT_ID_CHARACTERS],
        "title": record.title,
        "provider": record.provider,
        "model": record.model,
        "status": record.status,
        "cwd": record.cwd,
        "role": record.role,
        "createdAt": timestamp(record.created_at),
        "updatedAt": timestamp(record.updated_at),
        "lastUserMessageAt": timestamp(record.last_user_message_at),
        "requiresAttention": reason is not None,
        "attentionReason": reason,
        "attentionTimestamp": timestamp((asked[0].created if asked else record.attention_at) if reason else None),
        "archivedAt": timestamp(record.closed_at),
        "labels": dict(record.labels),
        "parentAgentId": record.parent_id,
        "worktree": worktree(agent),
    }


def worktree(agent: "Agent") -> dict[str, Any] | None:
    """Return the git worktree of an agent, if it has one of its own."""
    found = agent.record.worktree
    if found is None:
        return None
    return {
        "path": found.path,
        "branch": found.branch,
        "base": found.base,
        "repository": found.repository,
        "note": found.note,
    }


def usage(found: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the numbers of the last turn and of the session; None if the agent has told none."""
    return {name: found[name] for name in USAGE if name in found} or None if found else None


def snapshot(agent: "Agent") -> dict[str, Any]:
    """Return everything about an agent."""
    record = agent.record
    persistence = {"provider": record.provider, "sessionId": record.session_id} if record.session_id else None
    return {
        **item(agent),
        "capabilities": {
            "supportsStreaming": True,
            "supportsSessionPersistence": record.is_resumable,
            "supportsDynamicModes": bool(record.modes),
            "supportsMcpServers": True,
            "supportsReasoningStream": True,
            "supportsToolInvocations": True,
        },
        "currentModeId": record.mode,
        "availableModes": modes(record.modes),
        "pendingPermissions": [each.describe() for each in agent.asked()],
        "persistence": persistence,
        "lastUsage": usage(record.usage),
        "lastError": record.last_error,
        "lastMessage": record.last_message,
        "closedReason": record.closed_reason,
        "turn": record.turn,
        "pid": agent.session.pid if agent.session else None,
    }

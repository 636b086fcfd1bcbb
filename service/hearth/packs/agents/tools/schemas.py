"""Schemas of the tools of the pack `agents`, for arguments and results. Pure.

Some arguments have two names: `agentType` and `provider`, `initialMode`, `sessionMode` and `mode`.
"""

from typing import Any, get_args

from hearth.packs.agents.model import TITLE_CHARACTERS, AttentionReason, NoticeKind, Status
from hearth.packs.agents.tools.payloads import USAGE

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer"}
STATUS: Schema = {"type": "string", "enum": [*get_args(Status)]}
_OBJECT: Schema = {"type": "object"}


def described(schema: Schema, description: str) -> Schema:
    """Return a schema with a description for the model."""
    return {**schema, "description": description}


def obj(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def array(items: Schema) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


# --- results

MODE = obj({"id": TEXT, "label": TEXT}, {"description": TEXT})
ACTION = obj({"id": TEXT, "label": TEXT, "behavior": {"type": "string", "enum": ["allow", "deny"]}})
_PERMISSION_MEMBERS: dict[str, Schema] = {
    "id": TEXT,
    "provider": TEXT,
    "name": TEXT,
    "kind": {"type": "string", "enum": ["tool", "plan", "question", "mode", "other"]},
}
_PERMISSION_OPTIONAL: dict[str, Schema] = {
    "title": TEXT_OR_NULL,
    "input": {"type": ["object", "null"]},
    "actions": array(ACTION),
}
PERMISSION = obj(_PERMISSION_MEMBERS, _PERMISSION_OPTIONAL)
PERMISSION_OR_NULL: Schema = {**PERMISSION, "type": ["object", "null"]}
ATTENTION = array(obj({"agentId": TEXT, "kind": {"type": "string", "enum": [*get_args(NoticeKind)]}, "title": TEXT}))
WORKTREE_OR_NULL: Schema = {
    **obj({"path": TEXT, "branch": TEXT, "base": TEXT, "repository": TEXT, "note": TEXT_OR_NULL}),
    "type": ["object", "null"],
}
_ITEM: dict[str, Schema] = {
    "id": TEXT,
    "shortId": TEXT,
    "title": TEXT_OR_NULL,
    "provider": TEXT,
    "model": TEXT_OR_NULL,
    "status": STATUS,
    "cwd": TEXT,
    "role": TEXT_OR_NULL,
    "createdAt": TEXT,
    "updatedAt": TEXT,
    "lastUserMessageAt": TEXT_OR_NULL,
    "requiresAttention": FLAG,
    "attentionReason": {"type": ["string", "null"], "enum": [*get_args(AttentionReason), None]},
    "attentionTimestamp": TEXT_OR_NULL,
    "archivedAt": TEXT_OR_NULL,
    "labels": _OBJECT,
    "parentAgentId": TEXT_OR_NULL,
    "worktree": WORKTREE_OR_NULL,
}
_CAPABILITIES = obj(
    dict.fromkeys(
        (
            *("supportsStreaming", "supportsSessionPersistence", "supportsDynamicModes", "supportsMcpServers"),
            *("supportsReasoningStream", "supportsToolInvocations"),
        ),
        FLAG,
    )
)
SNAPSHOT = obj(
    {
        **_ITEM,
        "capabilities": _CAPABILITIES,
        "currentModeId": TEXT_OR_NULL,
        "availableModes": array(MODE),
        "pendingPermissions": array(PERMISSION),
        "persistence": {**obj({"provider": TEXT, "sessionId": TEXT}), "type": ["object", "null"]},
        "lastUsage": {**obj({}, {key: {"type": "number"} for key in USAGE}), "type": ["object", "null"]},
        "lastError": TEXT_OR_NULL,
        "lastMessage": TEXT_OR_NULL,
        "closedReason": TEXT_OR_NULL,
        "turn": COUNT,
        "pid": {"type": ["integer", "null"]},
    },
    {"providerUnavailable": FLAG},
)
WAITED: dict[str, Schema] = {"lastMessage": TEXT_OR_NULL, "permission": PERMISSION_OR_NULL, "attention": ATTENTION}
CREATED = obj(
    {
        "agentId": TEXT,
        "type": TEXT,
        "status": STATUS,
        "cwd": TEXT,
        "currentModeId": TEXT_OR_NULL,
        "availableModes": array(MODE),
    },
    {**WAITED, "worktree": WORKTREE_OR_NULL, "guidance": TEXT},
)
AWAITED = obj(
    {"agentId": TEXT, "status": STATUS, "permission": PERMISSION_OR_NULL, "lastMessage": TEXT_OR_NULL},
    {"attention": ATTENTION},
)
PROMPTED = obj({"success": FLAG, "status": STATUS}, {**WAITED, "guidance": TEXT})
STATUS_RESULT = obj({"status": STATUS, "snapshot": SNAPSHOT})
LIST_RESULT = obj({"agents": array(obj(_ITEM))})
SUCCESS = obj({"success": FLAG})
ACTIVITY_RESULT = obj({"agentId": TEXT, "updateCount": COUNT, "currentModeId": TEXT_OR_NULL, "content": TEXT})
MODE_RESULT = obj({"success": FLAG, "newMode": TEXT})
PERMISSIONS_RESULT = obj({"permissions": array(obj({"agentId": TEXT, "status": STATUS, "request": PERMISSION}))})
PROVIDERS_RESULT = obj(
    {
        "providers": array(
            obj({"name": TEXT, "title": TEXT, "installed": FLAG, "isDefault": FLAG}, {"installHint": TEXT_OR_NULL})
        )
    }
)

# --- arguments

NOTHING = obj({})
AGENT_ID = described({**TEXT, "minLength": 1}, "Id of the agent, as create_agent and list_agents give it.")
_PROMPT = {**TEXT, "minLength": 1}
_LABELS = described(_OBJECT, "Labels of the agent, texts by name.")
_PROVIDER = (
    "Provider of the agent, such as claude, codex, gemini or opencode; list_providers has all of them. A model that the"
    " provider offers may follow after a slash: codex/MODEL. Default: yours."
)
_MODE = "Mode that the session begins in, such as plan or default; without it the provider's default."
BACKGROUND = described(
    {**FLAG, "default": False}, "Return at once, instead of waiting until the agent has finished or asks for something."
)
_NOTIFY = described(FLAG, "Whether you are told when the agent finishes, fails or needs a permission. Default: true.")
CREATE = obj(
    {},
    {
        "cwd": described(
            TEXT, "Folder in which the agent works: absolute, relative to yours, or with ~. Default: yours."
        ),
        "title": described(
            {**TEXT, "minLength": 1, "maxLength": TITLE_CHARACTERS},
            "Short title for people. Default: the first line of the prompt.",
        ),
        "agentType": described(TEXT, _PROVIDER),
        "provider": described(TEXT, _PROVIDER),
        "initialPrompt": described(_PROMPT, "Task of the agent. Without it the agent waits for send_agent_prompt."),
        "initialMode": described(TEXT, _MODE),
        "mode": described(TEXT, _MODE),
        "role": described(
            TEXT, "Role of the agent in the policy. Default: yours. Your role must be allowed to start it."
        ),
        "worktreeName": described(
            TEXT, "Name of a new git worktree for the agent, and of its branch: lowercase letters, digits, hyphens."
        ),
        "baseBranch": described(TEXT, "Branch from which the worktree begins; required with worktreeName."),
        "background": BACKGROUND,
        "labels": _LABELS,
        "notifyOnFinish": _NOTIFY,
    },
)
WAIT = obj({"agentId": AGENT_ID})
PROMPT = obj(
    {"agentId": AGENT_ID, "prompt": described(_PROMPT, "Text for the agent. A turn that runs is replaced.")},
    {
        "sessionMode": described(TEXT, "Mode to switch to first."),
        "mode": described(TEXT, "The same as sessionMode."),
        "background": BACKGROUND,
        "notifyOnFinish": _NOTIFY,
    },
)
LIST = obj(
    {},
    {
        "includeArchived": described({**FLAG, "default": False}, "Whether closed agents are listed, too."),
        "limit": described({**COUNT, "minimum": 1, "maximum": 200, "default": 50}, "Number of agents at most."),
    },
)
ONE = obj({"agentId": AGENT_ID})
ACTIVITY = obj({"agentId": AGENT_ID}, {"limit": described({**COUNT, "minimum": 1}, "Number of the newest activities.")})
SET_MODE = obj(
    {"agentId": AGENT_ID, "modeId": described({**TEXT, "minLength": 1}, "One of the agent's availableModes.")}
)
RESPOND = obj(
    {
        "agentId": AGENT_ID,
        "requestId": described({**TEXT, "minLength": 1}, "Id of the request, as list_pending_permissions gives it."),
        "response": obj(
            {"behavior": {"type": "string", "enum": ["allow", "deny"]}},
            {
                "message": described(TEXT, "Reason of a denial."),
                "interrupt": described(FLAG, "With deny: cancel the turn as well."),
                "selectedActionId": described(TEXT, "Id of one of the request's actions."),
                "updatedInput": described(_OBJECT, "Not supported."),
                "updatedPermissions": described({"type": "array"}, "Not supported."),
            },
        ),
    }
)

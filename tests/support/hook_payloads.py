"""Inputs of hooks as the clients send them: Claude Code 2.1, Codex 0.169, Gemini CLI 0.61."""

import json
from typing import Any

from hearth.policy.hook_formats import EVENTS

_COMMON: dict[str, dict[str, Any]] = {
    "claude": {
        "session_id": "c1a2",
        "transcript_path": "/home/u/.claude/projects/p/c1a2.jsonl",
        "cwd": "/work/project",
        "permission_mode": "default",
    },
    "codex": {
        "session_id": "019a",
        "turn_id": "1",
        "transcript_path": None,
        "cwd": "/work/project",
        "model": "gpt-5",
        "permission_mode": "default",
    },
    "gemini": {
        "session_id": "9d1e",
        "transcript_path": "/home/u/.gemini/tmp/p/chats/9d1e.json",
        "cwd": "/work/project",
        "timestamp": "2026-11-18T12:00:00.000Z",
    },
}
_SHELL = {
    "claude": ("Bash", {"command": "git status", "description": "Show the state"}),
    "codex": ("Bash", {"command": "git status"}),
    "gemini": ("run_shell_command", {"command": "git status", "description": "Show the state"}),
}
_KEYS: dict[str, dict[str, Any]] = {
    "PostToolUse": {"tool_response": {"stdout": "clean"}, "tool_use_id": "t1"},
    "PostToolUseFailure": {"error": "exit code 1", "tool_use_id": "t1"},
    "AfterTool": {"tool_response": {"llmContent": "clean"}},
    "PreToolUse": {"tool_use_id": "t1"},
    "Notification": {"message": "waiting", "notification_type": "ToolPermission"},
    "UserPromptSubmit": {"prompt": "do it"},
    "BeforeAgent": {"prompt": "do it"},
    "Stop": {"stop_hook_active": True, "last_assistant_message": "done"},
    "SubagentStart": {"agent_id": "a1", "agent_type": "explore"},
    "SubagentStop": {"stop_hook_active": False, "agent_id": "a1", "agent_type": "explore"},
    "AfterAgent": {"prompt": "do it", "prompt_response": "done", "stop_hook_active": False},
    "PreCompact": {"trigger": "auto", "custom_instructions": ""},
    "PreCompress": {"trigger": "auto"},
    "SessionStart": {"source": "startup"},
    "SessionEnd": {"reason": "other"},
    "BeforeModel": {"llm_request": {"model": "m", "messages": []}},
    "AfterModel": {"llm_request": {"model": "m"}, "llm_response": {"candidates": []}},
    "BeforeToolSelection": {"llm_request": {"model": "m"}},
}
_WITH_TOOL = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied")


def document(client: str, event: str, **more: Any) -> dict[str, Any]:
    """The input of a hook as a document; keys that are None are left out."""
    name = EVENTS[client].get(event, "")
    found = {**_COMMON[client], **({"hook_event_name": name} if name else {}), **_KEYS.get(name, {})}
    if name in (*_WITH_TOOL, "BeforeTool", "AfterTool"):
        tool, arguments = _SHELL[client]
        found |= {"tool_name": tool, "tool_input": arguments}
    return {key: value for key, value in {**found, **more}.items() if value is not None or key == "transcript_path"}


def payload(client: str, event: str, **more: Any) -> bytes:
    """The input of a hook."""
    return json.dumps(document(client, event, **more)).encode()


def tool_call(client: str, tool: str, arguments: Any, **more: Any) -> bytes:
    """The input of a client's deciding hook for one tool."""
    event = "before-tool" if client == "gemini" else "pre-tool-use"
    return payload(client, event, tool_name=tool, tool_input=arguments, **more)

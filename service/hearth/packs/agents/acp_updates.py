"""Updates of a session of the Agent Client Protocol, as an agent sends them during a turn. Pure.

An update stays a dict, as every kind has other members and later versions have more. `parse_update` gives each known
member the type that the schema says, as the schema tells receivers to: a malformed optional member counts as absent,
and malformed elements of a list are skipped.
"""

from collections.abc import Mapping
from typing import Any

from hearth.errors import MessageError
from hearth.wire import json
from hearth.wire.json import INVALID_PARAMS

Members = dict[str, Any]

# Tool calls that an agent asks about are among its newest.
CALLS_KEPT = 16
# A call with more is told whole in the request, or it is not known.
CALL_BYTES = 256 * 1024
_CALL_PARTS = ("name", "kind", "rawInput", "locations", "content", "_meta")

# Required members of each kind of update, with their types. Updates of other kinds pass as they are.
_REQUIRED: dict[str, dict[str, type]] = {
    "user_message_chunk": {"content": dict},
    "agent_message_chunk": {"content": dict},
    "agent_thought_chunk": {"content": dict},
    "tool_call": {"toolCallId": str},
    "tool_call_update": {"toolCallId": str},
    "plan": {"entries": list},
    "available_commands_update": {"availableCommands": list},
    "current_mode_update": {"currentModeId": str},
    "config_option_update": {"configOptions": list},
    "session_info_update": {},
    "usage_update": {"used": float, "size": float},
    "notice": {"severity": str, "title": str},
    "compaction_update": {"compactionId": str, "status": str},
    "compaction_summary_chunk": {"compactionId": str, "content": dict},
}
# Optional members of any kind; one of another type is left out. A null means that a value is cleared.
OPTIONAL: dict[str, type] = {
    "messageId": str,
    "title": str,
    "name": str,
    "kind": str,
    "status": str,
    "content": list,
    "locations": list,
    "cost": dict,
    "description": str,
    "summary": list,
    "error": str,
    "updatedAt": str,
    "_meta": dict,
}
# Lists of objects, as all lists of updates are.
_LISTS = frozenset({"availableCommands", "configOptions", "content", "entries", "locations", "summary"})


def parse_update(params: Members) -> tuple[str, Members]:
    """Return the session's id and the update, whose members have the right types. Raises MessageError."""
    session_id, update = text_of(params.get("sessionId")), object_of(params.get("update"))
    kind = text_of(update.get("sessionUpdate"))
    if not session_id or not kind:
        raise MessageError("an update needs 'sessionId' and 'update' with 'sessionUpdate'", INVALID_PARAMS)
    required = _REQUIRED.get(kind)
    if required is None:
        return session_id, update
    for name, wanted in required.items():
        if not has_type(update.get(name), wanted):
            raise MessageError(f"an update of kind {kind!r} needs {name!r} of type {wanted.__name__}", INVALID_PARAMS)
    block = update.get("content")
    if isinstance(block, dict) and block.get("type") == "text" and text_of(block.get("text")) is None:
        raise MessageError(f"an update of kind {kind!r} has a block of text without a text", INVALID_PARAMS)
    optional = {name: wanted for name, wanted in OPTIONAL.items() if name not in required}
    return session_id, tidied(update, optional)


def tidied(members: Members, optional: Mapping[str, type]) -> Members:
    """Return the members without optional ones of a wrong type, and lists without elements that are no objects."""
    return {
        name: objects_of(value) if isinstance(value, list) and name in _LISTS else value
        for name, value in members.items()
        if name not in optional or value is None or has_type(value, optional[name])
    }


def block_text(block: object) -> str:
    """Return the text of a content block, or a short mark in its place; never fails."""
    found = object_of(block)
    kind = found.get("type")
    if kind == "text":
        return text_of(found.get("text")) or ""
    if kind == "resource":
        resource = object_of(found.get("resource"))
        return text_of(resource.get("text")) or f"[{text_of(resource.get('uri')) or 'resource'}]"
    if kind == "resource_link":
        return f"[{text_of(found.get('uri')) or 'resource'}]"
    return f"[{kind}]" if isinstance(kind, str) else ""


# --- lenient readers


def has_type(value: object, wanted: type) -> bool:
    """Tell whether a value has that type; `float` stands for any number."""
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, wanted)


def text_of(value: object) -> str | None:
    """Return the value if it is a string."""
    return value if isinstance(value, str) else None


def object_of(value: object) -> Members:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: object) -> list[Members]:
    """Return the objects in a list; none if the value is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def is_system_error(update: Members) -> bool:
    """Tell whether Codex says that its model or itself has failed: the turn's own result does not."""
    status = object_of(object_of(object_of(update.get("_meta")).get("codex")).get("threadStatus"))
    return status.get("type") == "systemError"


class ToolCalls:
    """Newest tool calls of which an agent has told. A permission request may name one and leave the rest out."""

    def __init__(self) -> None:
        self._calls: dict[str, Members] = {}

    def note(self, update: Members) -> None:
        """Keep what an update tells of a tool call; anything else changes nothing."""
        id = text_of(update.get("toolCallId"))
        if id is None or update.get("sessionUpdate") not in ("tool_call", "tool_call_update"):
            return
        call = {**self._calls.pop(id, {}), **{key: update[key] for key in _CALL_PARTS if update.get(key)}}
        if len(json.dumps(call)) <= CALL_BYTES:
            self._calls[id] = call
        while len(self._calls) > CALLS_KEPT:
            del self._calls[next(iter(self._calls))]

    def completed(self, tool_call: Members) -> Members:
        """Return the tool call of a permission request, completed by what updates told of it."""
        told = self._calls.get(text_of(tool_call.get("toolCallId")) or "", {})
        return {**told, **{key: value for key, value in tool_call.items() if value or key not in told}}

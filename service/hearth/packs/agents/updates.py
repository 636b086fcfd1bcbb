"""Parts of ACP's `session/update`, checked and cut to their limits. Pure.

`timeline` decides which item a part belongs to. An update that does not follow the protocol raises MalformedUpdate.
Schema: agentclientprotocol.com, protocol version 1.
"""

from typing import Any, TypeGuard

import msgspec

# Input and output of tools are for a glance: the agent has all of it.
TOOL_TEXT_LIMIT_CHARACTERS = 8 * 1024
# Names, titles and ids are for one line.
NAME_LIMIT_CHARACTERS = 500
PLAN_ENTRIES_LIMIT = 200
# Chunks of a word each are joined in between: a string costs 50 bytes besides its characters.
_PARTS_LIMIT = 512
# Larger than any count of tokens.
_LARGEST_NUMBER = 1e15


class MalformedUpdate(Exception):
    """Update that does not follow the protocol."""


class BoundedText:
    """Text that grows by parts up to a limit. `cut` counts the characters beyond it."""

    def __init__(self, limit: int) -> None:
        self.cut = 0
        self._room = limit
        self._parts: list[str] = []

    def add(self, part: str) -> bool:
        """Add a part; return False if there was no room for any of it."""
        room = self._room
        if len(part) > room:
            self.cut += len(part) - room
            if not room:
                return False
            part = part[:room]
        self._room = room - len(part)
        self._parts.append(part)
        if len(self._parts) >= _PARTS_LIMIT:
            self._parts = ["".join(self._parts)]
        return True

    def value(self) -> str:
        """Return the text so far."""
        if len(self._parts) != 1:
            self._parts = ["".join(self._parts)]
        return encodable(self._parts[0])


def encodable(text: str) -> str:
    """Return the text without halves of surrogate pairs, which have no place in UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two halves in a row, as of two chunks, are a character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cut_text(text: str, limit: int, mark: str = "…") -> str:
    """Return the text, or its beginning and a mark."""
    return text if len(text) <= limit else text[:limit] + mark


def name(update: dict[str, Any], key: str) -> str | None:
    """Return a short text of an update, None if there is none."""
    value = update.get(key)
    if value is not None and not isinstance(value, str):
        raise MalformedUpdate(key)
    return None if value is None else cut_text(encodable(value), NAME_LIMIT_CHARACTERS)


def needed_name(update: dict[str, Any], key: str) -> str:
    """Return a short text that an update must have."""
    value = name(update, key)
    if not value:
        raise MalformedUpdate(key)
    return value


def block_text(block: object) -> str:
    """Return the text of a content block; a word in brackets stands for an image or a sound."""
    if not isinstance(block, dict):
        raise MalformedUpdate("content")
    kind = block.get("type")
    if kind == "text":
        found = block.get("text")
    elif kind == "resource_link":
        found = block.get("uri")
    elif kind == "resource":
        resource = block.get("resource")
        found = (resource.get("text") or resource.get("uri")) if isinstance(resource, dict) else None
    else:
        found = f"[{kind}]" if isinstance(kind, str) else None
    if not isinstance(found, str):
        raise MalformedUpdate("content")
    return found


# --- tool calls


def tool_changes(update: dict[str, Any]) -> dict[str, Any]:
    """Return what a `tool_call` or `tool_call_update` says of its item: only the keys that it has."""
    changes: dict[str, Any] = {
        "name": name(update, "name") or _claude_name(update),
        "title": name(update, "title"),
        "tool_kind": name(update, "kind"),
        "status": name(update, "status"),
    }
    if update.get("rawInput") is not None:
        changes["input"] = json_text(update["rawInput"])
    if update.get("content"):
        changes["output"] = _output(update["content"])
    elif update.get("rawOutput") is not None:
        raw = update["rawOutput"]
        changes["output"] = _whole(raw) if isinstance(raw, str) else json_text(raw)
    return {key: value for key, value in changes.items() if value is not None}


def _claude_name(update: dict[str, Any]) -> str | None:
    # Where claude-agent-acp has the name, from before the protocol had a field for it.
    meta = update.get("_meta")
    inner = meta.get("claudeCode") if isinstance(meta, dict) else None
    return name(inner, "toolName") if isinstance(inner, dict) else None


def _output(content: object) -> str:
    """Return the text of a tool call's content. Contents of files and of terminals are elsewhere."""
    if not isinstance(content, list):
        raise MalformedUpdate("content")
    text = BoundedText(TOOL_TEXT_LIMIT_CHARACTERS)
    for number, part in enumerate(content):
        if not isinstance(part, dict):
            raise MalformedUpdate("content")
        if number:
            text.add("\n")
        if part.get("type") == "diff":
            text.add(f"[diff] {needed_name(part, 'path')}")
        elif part.get("type") == "terminal":
            text.add(f"[terminal] {needed_name(part, 'terminalId')}")
        else:
            text.add(block_text(part.get("content")))
    return _marked(text)


def json_text(value: object) -> str:
    """Return a value as JSON, cut."""
    try:
        return _whole(msgspec.json.encode(value).decode())
    except (TypeError, ValueError, RecursionError) as exc:
        raise MalformedUpdate("JSON") from exc


def _whole(value: str) -> str:
    text = BoundedText(TOOL_TEXT_LIMIT_CHARACTERS)
    text.add(value)
    return _marked(text)


def _marked(text: BoundedText) -> str:
    return shown_text(text.value(), text.cut)


def shown_text(text: str, cut: int) -> str:
    """Return a text with the mark that says how many characters are missing.

    The mark is a line of its own: `masking` finds the beginning of a secret at the end of a line.
    """
    return f"{text}…\n[{cut} more characters]" if cut else text


# --- state


def plan_entries(update: dict[str, Any]) -> list[dict[str, str]]:
    """Return the entries of a plan: `content`, `status` and `priority`."""
    entries = update.get("entries")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise MalformedUpdate("entries")
    found = [
        {
            "content": name(entry, "content") or "",
            "status": name(entry, "status") or "pending",
            "priority": name(entry, "priority") or "medium",
        }
        for entry in entries[:PLAN_ENTRIES_LIMIT]
    ]
    if len(entries) > PLAN_ENTRIES_LIMIT:
        more = f"… [{len(entries) - PLAN_ENTRIES_LIMIT} more entries]"
        found.append({"content": more, "status": "pending", "priority": "low"})
    return found


def usage(update: dict[str, Any]) -> dict[str, float]:
    """Return the numbers of a `usage_update`, by the names of a snapshot of the agent."""
    found = {"contextWindowUsedTokens": _number(update, "used"), "contextWindowMaxTokens": _number(update, "size")}
    cost = update.get("cost")
    # Another currency has no place in the snapshot.
    if isinstance(cost, dict) and cost.get("currency") == "USD":
        found["totalCostUsd"] = _number(cost, "amount")
    return found


def _number(update: dict[str, Any], key: str) -> float:
    value = update.get(key)
    if not is_count(value):
        raise MalformedUpdate(key)
    return value


def is_count(value: object) -> TypeGuard[float]:
    """Tell whether a value is a number that tokens or costs may have."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LARGEST_NUMBER


def config_mode(update: dict[str, Any]) -> str | None:
    """Return the current value of the first configuration option of the category `mode`; None if there is none."""
    options = update.get("configOptions")
    if not isinstance(options, list):
        raise MalformedUpdate("configOptions")
    for option in options:
        is_mode = isinstance(option, dict) and option.get("category") == "mode"
        if is_mode and isinstance(option.get("currentValue"), str):
            return needed_name(option, "currentValue")
    return None

"""Items of a timeline, and their text for a model. Pure; `timeline` makes them.

Data by kind:

    user, message, thought, error, system    `text`; `cut`, the number of characters that are missing
    tool         `id`; as far as known `name`, `title`, `tool_kind`, `status`, `input` (JSON text), `output` (text)
    plan         `entries`: each with `content`, `status`, `priority`
    compacted    `id`, `status`
    mode         `mode`
"""

import sys
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hearth import masking
from hearth.packs.agents import updates

ItemKind = Literal["user", "message", "thought", "tool", "plan", "error", "compacted", "mode", "system"]

# An item besides its texts: the record, its dictionary and the keys.
_ITEM_BYTES = 500

_NOTHING = "No activity to display."
_NAME_CHARACTERS = 60
_SUMMARY_CHARACTERS = 200
_INPUT_CHARACTERS = 400


class TimelineItem(msgspec.Struct, frozen=True):
    """Entry of a timeline. `seq` grows with each item and never changes; `at` is in seconds since 1970."""

    seq: int
    kind: ItemKind
    at: float
    data: dict[str, Any]


def weight(data: dict[str, Any]) -> int:
    """Return about how many bytes of memory an item with these data takes."""
    texts = [value for value in data.values() if isinstance(value, str)]
    texts += [value for entry in data.get("entries", ()) for value in entry.values()]
    return _ITEM_BYTES + sum(map(sys.getsizeof, texts))


def render(items: Sequence[TimelineItem], limit: int | None = None, characters: int = sys.maxsize) -> str:
    """Return the newest items as text, for a model: secrets masked, control characters escaped.

    A tool, a task and an error are one line each, whatever their texts have in them. No more items are looked at than
    `characters` take: to mask all texts of a long timeline takes a second.
    """
    items = [item for item in items if item.kind != "mode"]
    shown = items[-limit:] if limit else items
    lines: list[str] = []
    room = characters
    for item in reversed(shown):
        if line := _rendered(item):
            lines.append(line)
            room -= len(line) + 1
            if room < 0:
                break
    text = "\n".join(reversed(lines)) or _NOTHING
    if room < 0:
        text = f"(the beginning is left out)\n{text[-characters:]}"
    if len(shown) == len(items):
        return text
    return f"Showing {len(shown)} of {len(items)} activities (limited to {limit})\n\n{text}"


def _rendered(item: TimelineItem) -> str:
    data = item.data
    if item.kind == "tool":
        return _rendered_tool(data)
    if item.kind == "plan":
        boxes = (
            f"- [{'x' if entry.get('status') == 'completed' else ' '}] {_line(entry.get('content', ''))}"
            for entry in data.get("entries", ())
        )
        return "\n".join(["[Tasks]", *boxes])
    if item.kind == "compacted":
        return "[Compacted]"
    text = updates.shown_text(data.get("text", "").strip(), data.get("cut", 0))
    if item.kind in ("error", "system"):
        return f"[{item.kind.capitalize()}] {_line(text)}".rstrip()
    text = masking.escaped(masking.everywhere(text))
    prefix = {"user": "[User] ", "thought": "[Thought] "}.get(item.kind, "")
    return prefix + text if text else ""


def _rendered_tool(data: dict[str, Any]) -> str:
    name, kind = data.get("name", ""), data.get("tool_kind", "other")
    shown_name = _line(_readable(name or ("tool" if kind == "other" else kind)), _NAME_CHARACTERS)
    summary = _line(data.get("title", ""), _SUMMARY_CHARACTERS)
    # Titles of tools of MCP servers say no more than their names.
    if not summary or _is_qualified(name) or summary.lower() in (name.lower(), shown_name.lower()):
        summary = _line(data.get("input", ""), _INPUT_CHARACTERS)
    return f"[{shown_name}] {summary}".rstrip()


def _readable(name: str) -> str:
    """Return a name such as `read_file` as a title; names with a server or a package in them stay as they are."""
    if _is_qualified(name):
        return name
    return " ".join(word[:1].upper() + word[1:] for word in name.replace("_", " ").replace("-", " ").split())


def _is_qualified(name: str) -> bool:
    return "__" in name or any(mark in name for mark in ":./")


def _line(text: str, limit: int = sys.maxsize) -> str:
    """Return a text as one line of at most `limit` characters before escaping, safe to show."""
    # Masked first: a secret that is cut or broken is not found any more.
    line = " ".join(masking.everywhere(text).split())
    return masking.escaped(line if len(line) <= limit else line[: limit - 1] + "…")

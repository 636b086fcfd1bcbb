"""What has changed in the definitions of tools, as text. Pure: changes in, lines out.

Definitions are what a stranger wrote for a model to read. Whatever does not show on a screen, turns the direction of
text or steers a terminal is written as its code point, so that what a person approves is what the model gets.
"""

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from hearth.mcp.pinning import CHANGED, NEW, VANISHED, Change
from hearth.output.status_lines import count

# Letters and marks by their category that show as nothing, or as a blank.
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f") | {
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), *range(0x180B, 0x1810))
}
# Controls, formats (joiners, directions, tags), halves of pairs, private and unassigned ones; all blanks but the space.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# In this order, and the rest by their names: what a model reads first is read first here, too.
_FIRST = ("name", "title", "description")
_LINE_END = re.compile(r"\\\\|\\n")


def visible(text: str) -> str:
    """The text with everything in it to be seen."""
    return "".join(f"<U+{ord(each):04X}>" if _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    return character != " " and (character in _BLANK or unicodedata.category(character) in _HIDDEN)


def definition_lines(text: str) -> list[str]:
    """A canonical definition, a line for each key and for each line of its texts."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return [visible(text)]
    if isinstance(tree, dict):
        tree = {**{key: tree[key] for key in _FIRST if key in tree}, **tree}
    lines = json.dumps(tree, indent=2, ensure_ascii=False).split("\n")
    return [visible(part) for line in lines for part in _broken(line)]


def _broken(line: str) -> list[str]:
    """A line of JSON, with a line of its own for each that is in its text."""
    indent = " " * (len(line) - len(line.lstrip(" ")) + 4)
    return _LINE_END.sub(lambda match: f"\\n\n{indent}" if match[0] == r"\n" else match[0], line).split("\n")


def lines(server: str, changes: Iterable[Change], is_pinned: bool) -> list[str]:
    """What `hearth tools diff` shows of one server."""
    found = []
    for change in changes:
        found += [_headline(server, change, is_pinned), *_diff(change), ""]
    return found


def _headline(server: str, change: Change, is_pinned: bool) -> str:
    words = {
        CHANGED: "is not as it was first seen or last approved",
        NEW: "is new",
        VANISHED: "is no longer offered",
    }[change.kind]
    withheld = "; it is withheld" if is_pinned and change.offered else ""
    return f"{visible(server)}: {visible(change.tool)} {words}{withheld}"


def _diff(change: Change) -> list[str]:
    if change.kind == VANISHED:
        return []
    before = definition_lines(change.known[-1]) if change.known else []
    found = []
    for text in change.offered:
        found += list(
            difflib.unified_diff(
                before, definition_lines(text), "known" if before else "nothing", "offered", lineterm=""
            )
        )
    return found


def summary(changes: Iterable[Change]) -> str:
    """How many of which kind."""
    kinds = [change.kind for change in changes]
    parts = [f"{kinds.count(kind)} {kind}" for kind in (CHANGED, NEW, VANISHED) if kind in kinds]
    return f"{count(len(kinds), 'tool')}: {', '.join(parts)}"


def document(server: str, changes: Iterable[Change], is_pinned: bool) -> list[dict[str, Any]]:
    """The same for machines: definitions as they are, with nothing made visible."""
    return [
        {
            "server": server,
            "tool": change.tool,
            "change": change.kind,
            "withheld": is_pinned and bool(change.offered),
            "known": [_tree(text) for text in change.known],
            "offered": [_tree(text) for text in change.offered],
        }
        for change in changes
    ]


def _tree(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text

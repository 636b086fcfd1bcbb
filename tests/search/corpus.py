"""Reads `corpus.txt` into definitions as servers give them, and the two sets of questions."""

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
_TYPES = {"#": "integer", "?": "boolean", "[]": "array"}


class Question(NamedTuple):
    """What an agent might ask, and the tools that would be a right answer, as `server/tool`."""

    text: str
    expected: frozenset[str]


def tools() -> list[tuple[str, dict[str, Any]]]:
    """Every tool: its server, and its definition as `tools/list` has it."""
    found: list[tuple[str, dict[str, Any]]] = []
    server = ""
    for line in (HERE / "corpus.txt").read_text(encoding="utf-8").splitlines():
        head, _, text = line.strip().partition(": ")
        if line.startswith("# "):
            server = line[2:]
        elif line.startswith("  "):
            _add_argument(found[-1][1]["inputSchema"], head.removesuffix(":"), text)
        elif line:
            schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
            found.append((server, {"name": head.removesuffix(":"), "description": text, "inputSchema": schema}))
    return found


def _add_argument(schema: dict[str, Any], head: str, text: str) -> None:
    """`name*#`: required, and an integer."""
    name, kind = head, "string"
    while name[-1] in "*#?]":
        mark = "[]" if name.endswith("[]") else name[-1]
        name = name.removesuffix(mark)
        if mark == "*":
            schema["required"].append(name)
        kind = _TYPES.get(mark, kind)
    schema["properties"][name] = {"type": kind, "description": text}


def questions(name: str) -> list[Question]:
    """The questions of one set."""
    rows = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return [Question(row["question"], frozenset(row["expected"])) for row in rows]

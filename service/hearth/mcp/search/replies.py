"""Answers of `find_tools` and `describe_tools`. Bounded in characters, because they go into a model's context.

Omitted entries are counted, with advice on how to get them. Pure: definitions in, texts out.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hearth.errors import MessageError
from hearth.mcp.search.search_tools import DESCRIBE, ECHO_CHARACTERS, FIND, caller_of, listed, shortened
from hearth.wire import json, values
from hearth.wire.values import Members, RawBytes

# About two thousand tokens: fifty tools with one line each still fit.
FIND_CHARACTERS = 8_000
# About six thousand tokens: a dozen usual schemas, and below the limit of clients (25,000 tokens in Claude Code).
DESCRIBE_CHARACTERS = 24_000
# For each tool that was found: its purpose, and its required arguments.
LINE_CHARACTERS = 160
REQUIRED_CHARACTERS = 240
NEAREST_NAMES = 5
# Member of a described tool that names the search tool to call it with; no revision of MCP has one of this name.
CALL_WITH = "callWith"
# Names below this similarity only confuse.
LIKENESS = 0.6


class ToolEntry(NamedTuple):
    """Tool that was found: its name as the client calls it, and its definition."""

    name: str
    definition: Mapping[str, RawBytes]


def found_text(query: str, found: Sequence[ToolEntry], fitting: int, silent: Sequence[str]) -> str:
    """Return the answer of `find_tools`. `fitting`: how many match at all; `silent`: servers that may have more."""
    asked = shortened(" ".join(query[: 2 * ECHO_CHARACTERS].split()), ECHO_CHARACTERS)
    tail = _silence(silent)
    if not found:
        return f'No tool fits "{asked}". Try other words for it, or an empty query for a list of the servers.{tail}'
    lines: list[str] = []
    room = FIND_CHARACTERS - ECHO_CHARACTERS * 4 - len(tail)
    for entry in found:
        line = entry_line(entry)
        if len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    left = fitting - len(lines)
    more = f" {left} more fit less well: ask in other words, or with a higher limit." if left else ""
    head = f'{len(lines)} of {fitting} tools that fit "{asked}", best first:'
    foot = f"Call each with the tool that is named behind it; {DESCRIBE} shows full schemas.{more}{tail}"
    return "\n".join([head, *lines, foot])


def entry_line(entry: ToolEntry) -> str:
    """Return one tool in a few words: its purpose, and its required arguments."""
    described = values.text(entry.definition.get("description")) or values.text(entry.definition.get("title")) or ""
    line = f"- {entry.name}"
    text = shortened(" ".join(described.split()), LINE_CHARACTERS)
    if text:
        line += f": {text}"
    needed = shortened(", ".join(required(entry.definition.get("inputSchema"))), REQUIRED_CHARACTERS)
    needs = f"required: {needed}" if needed else "no required arguments"
    return f"{line} ({needs}; {caller_of(entry.definition)})"


def required(schema: RawBytes | None) -> list[str]:
    """Return the required arguments of a tool, with their types where they are plain."""
    fields = values.members(schema)
    properties = values.members(fields.get("properties"))
    try:
        names = [values.text(item) for item in values.elements(fields.get("required"))]
    except MessageError:
        return []
    found = []
    for name in names:
        if name is not None:
            kind = values.text(values.members(properties.get(name)).get("type"))
            found.append(f"{name}: {kind}" if kind else name)
    return found


def servers_text(counts: Mapping[str, int], silent: Sequence[str]) -> str:
    """Return the answer to an empty question: the servers and how many tools each has."""
    total = sum(counts.values())
    named = shortened(", ".join(f"{name} ({count})" for name, count in counts.items()), FIND_CHARACTERS // 2)
    return f"{total} tools of {len(counts)} servers: {named}. Ask for what you want to do.{_silence(silent)}"


def _silence(silent: Sequence[str]) -> str:
    if not silent:
        return ""
    names = shortened(", ".join(silent), REQUIRED_CHARACTERS)
    return f" Not known yet, because their servers have not answered: the tools of {names}. Ask again later."


def described_texts(entries: Iterable[tuple[str, Members | None]], nearest: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the answer of `describe_tools`, a text for each name; None stands for a tool that does not exist."""
    texts: list[str] = []
    room = DESCRIBE_CHARACTERS
    left: list[str] = []
    for name, definition in entries:
        text = unknown_text(name, nearest.get(name, ())) if definition is None else _described(definition, room)
        if text is None or len(text) > room:
            left.append(name)
            continue
        texts.append(text)
        room -= len(text)
    if left and not texts and len(left) == 1:
        return [f"The definition of {shortened(left[0], ECHO_CHARACTERS)} is too large to be shown here."]
    if left:
        texts.append(
            f"Left out, because the answer would be too long: {listed(left)}. Ask for them again, by themselves."
        )
    return texts


def _described(definition: Members, room: int) -> str | None:
    """Return a definition in that many characters: whole, or without what a call does not need, or as an outline."""
    whole = json.join(definition)
    if len(whole) <= room:
        return whole.decode("utf-8", "replace")
    if room < DESCRIBE_CHARACTERS:
        # Alone it may fit.
        return None
    needed = {
        key: value for key, value in definition.items() if key in ("name", "description", "inputSchema", CALL_WITH)
    }
    text = json.join(needed).decode("utf-8", "replace")
    if len(text) <= room:
        return text
    return _outline(definition)


def _outline(definition: Members) -> str:
    schema = values.members(definition.get("inputSchema"))
    described = values.text(definition.get("description")) or ""
    properties = values.members(schema.get("properties"))
    arguments = shortened(", ".join(properties), DESCRIBE_CHARACTERS // 4)
    needed = shortened(", ".join(required(definition.get("inputSchema"))), DESCRIBE_CHARACTERS // 4)
    size = len(json.join(definition))
    return (
        f"{values.text(definition.get('name'))}: {shortened(described, DESCRIBE_CHARACTERS // 4)}\n"
        f"Its definition has {size} bytes, too many to be shown. Arguments: {arguments}. Required: {needed or 'none'}."
        f" Call it with {values.text(definition.get(CALL_WITH))}."
    )


def unknown_text(name: str, nearest: Sequence[str]) -> str:
    """Return the answer for a tool that does not exist."""
    names = shortened(", ".join(nearest), ECHO_CHARACTERS * NEAREST_NAMES)
    hint = f"; did you mean {names}?" if names else "."
    return f"There is no tool {shortened(name, ECHO_CHARACTERS)!r}{hint} {FIND} searches all tools."


def nearest_names(name: str, known: Mapping[str, str]) -> list[str]:
    """Return the most similar names. `known`: names as clients use them, with their servers' own, which also count."""
    import difflib

    wanted = name[:ECHO_CHARACTERS].lower()
    own = [exposed for exposed, bare in known.items() if bare.lower() == wanted]
    by_letters = {exposed.lower(): exposed for exposed in known}
    like = difflib.get_close_matches(wanted, by_letters, n=NEAREST_NAMES, cutoff=LIKENESS)
    return list(dict.fromkeys([*own, *(by_letters[letters] for letters in like)]))[:NEAREST_NAMES]

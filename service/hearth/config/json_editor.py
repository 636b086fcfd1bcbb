"""Edits of the servers in a JSON text, with or without comments and trailing commas. Text in, edits out.

The text is read twice: as it is, and with comments and trailing commas turned into spaces, which keeps every other
offset. A member that has lines of its own is added and removed as lines; comments beside it stay.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from hearth.config.editor import CannotEdit, Edit, Entry, Keys
from hearth.config.json_positions import JsonLines, blank_comments
from hearth.config.model import KeyPath

_INDENT = "  "
_TWICE = "it is written more than once there"


class _Member(NamedTuple):
    name: str | int
    start: int
    value: int
    end: int


class Text:
    """A JSON text: as it is, `plain` without comments and trailing commas, `uncommented` without comments only."""

    def __init__(self, text: str, plain: str) -> None:
        self.text = text
        self.plain = plain
        # Without comments and trailing commas there is nothing to blank: so it is in most files, and the largest.
        self.uncommented = text if plain == text else blank_comments(text, trailing_commas=False)
        self.lines = JsonLines(plain)

    def span(self, at: Keys) -> tuple[int, int]:
        """Return the start and end of the value that the keys lead to. Raises CannotEdit."""
        found = self.lines.span_of(at)
        if found is None:
            raise CannotEdit(f"has no {'.'.join(at)!r}")
        return found


class _Object:
    """One JSON object in a text."""

    def __init__(self, source: Text, path: KeyPath) -> None:
        self.text, self.plain, self.uncommented = source.text, source.plain, source.uncommented
        span = source.lines.span_of(path)
        if span is None or self.plain[span[0]] != "{":
            raise CannotEdit(f"has no object {'.'.join(map(str, path))!r}")
        self.start, self.end = span
        decode = json.JSONDecoder().raw_decode
        self.members = [
            _Member(name, start, value, decode(self.plain, value)[1])
            for name, start, value in source.lines.members_of(path)
        ]

    def member(self, name: str) -> int:
        """Return the index of the one member of that name. Raises CannotEdit."""
        found = [number for number, member in enumerate(self.members) if member.name == name]
        if len(found) != 1:
            raise CannotEdit(_TWICE)
        return found[0]

    def comma_after(self, number: int) -> int | None:
        """Return the offset of the comma after a member, which may be a trailing comma; None if there is none."""
        member = self.members[number]
        until = self.members[number + 1].start if number + 1 < len(self.members) else self.end - 1
        at = self.uncommented.find(",", member.end, until)
        return at if at >= 0 else None

    def line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def indentation(self, offset: int) -> str:
        line = self.text[self.line_start(offset) : offset]
        return line[: len(line) - len(line.lstrip())]

    def has_lines(self, number: int) -> bool:
        """Tell whether the member and its comma have lines of their own."""
        member = self.members[number]
        if self.plain[self.line_start(member.start) : member.start].strip():
            return False
        rest = self.plain[member.end : self.line_end(member.end)].strip()
        return rest in ("", ",") and self.line_end(member.end) < self.end


def put(source: Text, keys: Keys, known: Mapping[str, Entry], new: Mapping[str, Entry]) -> list[Edit]:
    """Put entries into the object at the keys: known ones in their places, new ones after them. Raises CannotEdit."""
    for size in range(len(keys) + 1):
        span = source.lines.span_of(keys[:size])
        if span is None:
            return _add_members(_Object(source, keys[: size - 1]), {keys[size - 1]: _nested(keys[size:], new)})
        if source.plain[span[0] : span[1]] == "null" and size:
            return [_replace(_Object(source, keys[: size - 1]), keys[size - 1], _nested(keys[size:], new))]
    servers = _Object(source, keys)
    edits = [_replace(servers, name, entry) for name, entry in known.items()]
    return edits + (_add_members(servers, new) if new else [])


def _nested(keys: Keys, inside: Mapping[str, Entry]) -> Entry:
    return {keys[0]: _nested(keys[1:], inside)} if keys else inside


def _replace(inside: _Object, name: str, entry: Entry) -> Edit:
    number = inside.member(name)
    member = inside.members[number]
    is_long = "\n" in inside.text[member.value : member.end] or inside.has_lines(number)
    written = _value(entry, inside.indentation(member.start), _unit(inside), is_long)
    return Edit(member.value, member.end, written)


def remove(source: Text, keys: Keys, name: str) -> list[Edit]:
    """Remove the entry. Raises CannotEdit."""
    text = source.text
    servers = _Object(source, keys)
    number = servers.member(name)
    member, is_last = servers.members[number], number + 1 == len(servers.members)
    comma = servers.comma_after(number)
    end = member.end if comma is None else comma + 1
    if len(servers.members) == 1:
        inside = text[servers.start + 1 : member.start] + text[end : servers.end - 1]
        if not inside.strip():
            return [Edit(servers.start + 1, servers.end - 1, "")]
    edits = []
    if is_last and number and comma is None:
        before = servers.comma_after(number - 1)
        assert before is not None
        edits.append(Edit(before, before + 1, ""))
    if servers.has_lines(number):
        start = servers.line_start(member.start)
        return [*edits, Edit(start, servers.line_end(end) + 1, "")]
    if not is_last:
        return _cut(servers, member.start, servers.members[number + 1].start)
    if number:
        # The comma before the entry is removed with it, and one after it stays: the entry was added that way.
        return _cut(servers, servers.members[number - 1].end, member.end)
    return _cut(servers, member.start, end)


def _cut(servers: _Object, start: int, end: int) -> list[Edit]:
    """Remove characters, unless there are comments among them that may be about something else."""
    if servers.text[start:end] != servers.uncommented[start:end]:
        raise CannotEdit("has a comment in the middle of the line")
    return [Edit(start, end, "")]


def _add_members(into: _Object, entries: Mapping[str, Entry]) -> list[Edit]:
    unit = _unit(into)
    if not into.members:
        outer = into.indentation(into.start)
        written = f"\n{_members(entries, outer + unit, unit)}"
        has_line = "\n" in into.text[into.start : into.end]
        return [Edit(into.start + 1, into.start + 1, written if has_line else f"{written}\n{outer}")]
    number = len(into.members) - 1
    last, comma = into.members[number], into.comma_after(number)
    # After the line end: text beside the last member stays there, and a new line has its own end.
    at = into.line_end(last.end if comma is None else comma) + 1
    if not into.has_lines(number) or at >= into.end:
        written = "".join(f", {_key(name)}{_value(entry, '', unit, False)}" for name, entry in entries.items())
        return [Edit(last.end, last.end, written)]
    written = _members(entries, into.indentation(last.start), unit)
    if comma is None:
        return [Edit(last.end, last.end, ","), Edit(at, at, f"{written}\n")]
    return [Edit(at, at, f"{written},\n")]


def _members(entries: Mapping[str, Entry], indent: str, unit: str) -> str:
    return ",\n".join(f"{indent}{_key(name)}{_value(entry, indent, unit, True)}" for name, entry in entries.items())


def _key(name: str) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}: "


def _unit(into: _Object) -> str:
    """Return the indentation that this text adds for the inside of an object."""
    for member in into.members:
        inner, outer = into.indentation(member.start), into.indentation(into.start)
        if inner.startswith(outer) and inner != outer and into.line_start(member.start) > into.start:
            return inner[len(outer) :]
    first = into.plain.find("\n", into.plain.find("{"))
    line = into.plain[first + 1 :] if first >= 0 else ""
    found = line[: len(line) - len(line.lstrip(" \t"))]
    return found or _INDENT


def _value(entry: object, indent: str, unit: str, is_long: bool) -> str:
    """Return the value as JSON. If it `is_long`, each key of the entry has its own line; values stay on one line."""
    if not is_long or not isinstance(entry, Mapping) or not entry:
        return json.dumps(entry, ensure_ascii=False)
    inner = indent + unit
    lines = [
        f"{inner}{_key(key)}"
        + (_value(value, inner, unit, True) if _nests(value) else json.dumps(value, ensure_ascii=False))
        for key, value in entry.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _nests(value: object) -> bool:
    return isinstance(value, Mapping) and any(isinstance(each, Mapping | list) for each in value.values())

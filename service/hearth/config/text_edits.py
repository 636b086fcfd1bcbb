"""Edits of the servers in a JSON or TOML text. Text in, edits out.

JSON: the text is read twice, as it is, and with comments and trailing commas turned into spaces, which keeps every
other offset. A member that has lines of its own is added and removed as lines; comments beside it stay.

TOML: a new server is appended as a table of its own, after an empty line. Its removal removes that line too, and no
more. Comments above a table stay; comments between its lines are removed with it. The comment after a table's header
stays when the table is replaced.
"""

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any, NamedTuple

from hearth.config.model import KeyPath
from hearth.config.positions import BARE_KEY, JsonPositions, Statement, TomlPositions, blank_comments

Entry = Mapping[str, Any]
Keys = tuple[str, ...]

_INDENT = "  "
_ODD = "its servers are written in an odd way"


class Edit(NamedTuple):
    """Replacement of the characters `start` to `end` of a text, with the file's line ends unless it `is_exact`."""

    start: int
    end: int
    text: str
    is_exact: bool = False


class CannotEdit(Exception):
    """Error for a valid file that cannot be edited safely; its text is a phrase that follows the file's name."""


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def _indentation(text: str, offset: int) -> str:
    line = text[_line_start(text, offset) : offset]
    return line[: len(line) - len(line.lstrip())]


# --- JSON


class JsonText:
    """A JSON text: as it is, `plain` without comments and trailing commas, `uncommented` without comments only."""

    def __init__(self, text: str, plain: str) -> None:
        self.text = text
        self.plain = plain
        # Without comments and trailing commas there is nothing to blank: so it is in most files, and the largest.
        self.uncommented = text if plain == text else blank_comments(text, trailing_commas=False)
        self.positions = JsonPositions(plain)

    def put(self, keys: Keys, known: Mapping[str, Any], new: Mapping[str, Any]) -> list[Edit]:
        """Put entries into the object at the keys, known ones in their places, then new ones. Raises CannotEdit."""
        for size in range(len(keys) + 1):
            span = self.positions.span_of(keys[:size])
            if span is None:
                return _Object(self, keys[: size - 1]).add({keys[size - 1]: _nested(keys[size:], new)})
            if self.plain[span[0] : span[1]] == "null" and size:
                return [_Object(self, keys[: size - 1]).replace(keys[size - 1], _nested(keys[size:], new))]
        servers = _Object(self, keys)
        return [servers.replace(name, entry) for name, entry in known.items()] + (servers.add(new) if new else [])

    def remove(self, at: Keys) -> list[Edit]:
        """Remove the entry. Raises CannotEdit."""
        return _Object(self, at[:-1]).remove(at[-1])

    def spans(self, at: Keys) -> list[tuple[int, int]]:
        """Return the span of the value that the keys lead to. Raises CannotEdit."""
        found = self.positions.span_of(at)
        if found is None:
            raise CannotEdit(f"has no {'.'.join(at)!r}")
        return [found]


class _Object:
    """One JSON object in a text, and edits of its members."""

    def __init__(self, source: JsonText, path: KeyPath) -> None:
        self._text, self._plain, self._uncommented = source.text, source.plain, source.uncommented
        span = source.positions.span_of(path)
        if span is None or self._plain[span[0]] != "{":
            raise CannotEdit(f"has no object {'.'.join(map(str, path))!r}")
        self._start, self._end = span
        self._members = source.positions.members_of(path)

    def replace(self, name: str, entry: Entry) -> Edit:
        number = self._number(name)
        member = self._members[number]
        is_long = "\n" in self._text[member.value : member.end] or self._has_lines(number)
        written = _json_value(entry, _indentation(self._text, member.start), self._unit(), is_long)
        return Edit(member.value, member.end, written)

    def remove(self, name: str) -> list[Edit]:
        number = self._number(name)
        member, is_last = self._members[number], number + 1 == len(self._members)
        comma = self._comma_after(number)
        end = member.end if comma is None else comma + 1
        if len(self._members) == 1:
            inside = self._text[self._start + 1 : member.start] + self._text[end : self._end - 1]
            if not inside.strip():
                return [Edit(self._start + 1, self._end - 1, "")]
        edits = []
        if is_last and number and comma is None:
            before = self._comma_after(number - 1)
            assert before is not None
            edits.append(Edit(before, before + 1, ""))
        if self._has_lines(number):
            return [*edits, Edit(_line_start(self._text, member.start), _line_end(self._text, end) + 1, "")]
        if not is_last:
            return self._cut(member.start, self._members[number + 1].start)
        if number:
            # The comma before the entry is removed with it, and one after it stays: the entry was added that way.
            return self._cut(self._members[number - 1].end, member.end)
        return self._cut(member.start, end)

    def _cut(self, start: int, end: int) -> list[Edit]:
        """Remove characters, unless there are comments among them that may be about something else."""
        if self._text[start:end] != self._uncommented[start:end]:
            raise CannotEdit("has a comment in the middle of the line")
        return [Edit(start, end, "")]

    def add(self, entries: Mapping[str, Entry]) -> list[Edit]:
        unit = self._unit()
        if not self._members:
            outer = _indentation(self._text, self._start)
            written = "\n" + _lines(entries, outer + unit, unit)
            has_line = "\n" in self._text[self._start : self._end]
            return [Edit(self._start + 1, self._start + 1, written if has_line else f"{written}\n{outer}")]
        number = len(self._members) - 1
        last, comma = self._members[number], self._comma_after(number)
        # After the line end: text beside the last member stays there, and a new line has its own end.
        at = _line_end(self._text, last.end if comma is None else comma) + 1
        if not self._has_lines(number) or at >= self._end:
            return [
                Edit(last.end, last.end, "".join(f", {_dump(name)}: {_dump(each)}" for name, each in entries.items()))
            ]
        written = _lines(entries, _indentation(self._text, last.start), unit)
        if comma is None:
            return [Edit(last.end, last.end, ","), Edit(at, at, f"{written}\n")]
        return [Edit(at, at, f"{written},\n")]

    def _number(self, name: str) -> int:
        """Return the index of the one member of that name. Raises CannotEdit."""
        found = [number for number, member in enumerate(self._members) if member.name == name]
        if len(found) != 1:
            raise CannotEdit("it is written more than once there")
        return found[0]

    def _comma_after(self, number: int) -> int | None:
        """Return the offset of the comma after a member, which may be a trailing comma; None if there is none."""
        until = self._members[number + 1].start if number + 1 < len(self._members) else self._end - 1
        at = self._uncommented.find(",", self._members[number].end, until)
        return at if at >= 0 else None

    def _has_lines(self, number: int) -> bool:
        """Tell whether the member and its comma have lines of their own."""
        member = self._members[number]
        end = _line_end(self._text, member.end)
        if self._plain[_line_start(self._text, member.start) : member.start].strip():
            return False
        return self._plain[member.end : end].strip() in ("", ",") and end < self._end

    def _unit(self) -> str:
        """Return the indentation that this text adds for the inside of an object."""
        outer = _indentation(self._text, self._start)
        for member in self._members:
            inner = _indentation(self._text, member.start)
            if inner.startswith(outer) and inner != outer and _line_start(self._text, member.start) > self._start:
                return inner[len(outer) :]
        first = self._plain.find("\n", self._plain.find("{"))
        line = self._plain[first + 1 :] if first >= 0 else ""
        return line[: len(line) - len(line.lstrip(" \t"))] or _INDENT


def _nested(keys: Keys, inside: Mapping[str, Entry]) -> Entry:
    return {keys[0]: _nested(keys[1:], inside)} if keys else inside


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(entries: Mapping[str, Any], indent: str, unit: str) -> str:
    return ",\n".join(f"{indent}{_dump(name)}: {_json_value(each, indent, unit)}" for name, each in entries.items())


def _json_value(entry: object, indent: str, unit: str, is_long: bool = True) -> str:
    """Return the value as JSON. If it `is_long`, each key of the entry has its own line; values stay on one line."""
    if not is_long or not isinstance(entry, Mapping) or not entry:
        return _dump(entry)
    inner = indent + unit
    lines = (f"{inner}{_dump(key)}: {_json_value(value, inner, unit, _nests(value))}" for key, value in entry.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _nests(value: object) -> bool:
    return isinstance(value, Mapping) and any(isinstance(each, Mapping | list) for each in value.values())


# --- TOML


class TomlText(TomlPositions):
    """A TOML text, and edits of the tables in it. Raises CannotEdit for a text that cannot be read to its end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        if not self.is_complete:
            raise CannotEdit(_ODD)

    def put(self, keys: Keys, known: Mapping[str, Any], new: Mapping[str, Any]) -> list[Edit]:
        """Put entries into the table at the keys: known ones in their places, new tables at the end of the text.

        New values that are no tables come after the other values of their table. Raises CannotEdit.
        """
        edits = [edit for name, entry in known.items() for edit in self._replace(keys, name, entry)]
        table = self._inline_on_the_way(keys)
        if new and table is not None:
            edits.append(self._add_inline(table, keys, new))
            return edits
        tables = {name: entry for name, entry in new.items() if isinstance(entry, Mapping)}
        values = {name: entry for name, entry in new.items() if name not in tables}
        if values:
            edits.append(self._add_values(keys, values))
        if tables:
            edits.append(self._append("\n".join(self._block(keys, name, entry) for name, entry in tables.items())))
        return edits

    def remove(self, at: Keys) -> list[Edit]:
        """Remove the entry. Raises CannotEdit."""
        if (table := self._inline_on_the_way(at[:-1])) is not None:
            return [self._cut_inline(table, at)]
        return [Edit(*self._region(run), "") for run in self._runs(at)]

    def spans(self, at: Keys) -> list[tuple[int, int]]:
        """Return the spans of the entry: first the one to write it to, then its other parts. Raises CannotEdit."""
        if (table := self._inline_on_the_way(at[:-1])) is not None:
            member = self.inline[table][self._number(table, at)]
            return [(member.start, member.end)]
        first, *others = self._runs(at)
        start, end = first[0].start, first[-1].end
        if first[0].is_header:
            # A table has whole lines.
            start, end = _line_start(self.text, start), _line_end(self.text, end)
        return [(start, end), *(self._region(run) for run in others)]

    def _inline_on_the_way(self, keys: Keys) -> KeyPath | None:
        """Return the innermost inline table on the path of the keys; None if there is none."""
        return next((keys[:size] for size in range(len(keys), 0, -1) if keys[:size] in self.inline), None)

    def _replace(self, keys: Keys, name: str, entry: Any) -> list[Edit]:
        at = (*keys, name)
        (start, end), *others = self.spans(at)
        cuts = [Edit(*other, "") for other in others]
        if (table := self._inline_on_the_way(keys)) is not None:
            return [Edit(start, end, _assignment(at[len(table) :], entry))]
        first = self._runs(at)[0][0]
        if first.is_header:
            header, end_of_line, lines = self._block(keys, name, entry)[:-1].partition("\n")
            # The header of a table inside the entry is removed, with its comment.
            comment = self.text[first.end : _line_end(self.text, first.end)] if first.path == at else ""
            return [Edit(start, end, header + comment + end_of_line + lines), *cuts]
        before = [each.path for each in self.statements if each.is_header and each.start < start]
        return [Edit(start, end, _assignment(at[len(before[-1]) if before else 0 :], entry)), *cuts]

    def _runs(self, at: Keys) -> list[list[Statement]]:
        """Return the statements that are about the entry, grouped into contiguous runs. Raises CannotEdit."""
        about = groupby(self.statements, lambda statement: statement.path[: len(at)] == at)
        runs = [list(run) for is_about, run in about if is_about]
        if not runs:
            raise CannotEdit(_ODD)
        return runs

    def _region(self, run: list[Statement]) -> tuple[int, int]:
        """Return the span of a run's whole lines and one empty line before it, or after it if the run is the first."""
        start, end = _line_start(self.text, run[0].start), _line_end(self.text, run[-1].end)
        end += self.text.startswith("\n", end)
        if run[0].is_header:
            if self.text[:start].endswith("\n\n"):
                start -= 1
            elif start == 0 and self.text.startswith("\n", end):
                end += 1
        if end == len(self.text) and not self.text.endswith("\n"):
            # A file whose last line has no line end still has none afterwards.
            start = max(0, start - 1)
        return start, end

    def _cut_inline(self, table: KeyPath, at: Keys) -> Edit:
        members = self.inline[table]
        number = self._number(table, at)
        if number:
            return Edit(members[number - 1].end, members[number].end, "")
        following = members[1].start if len(members) > 1 else members[0].end
        return Edit(members[0].start, following, "")

    def _number(self, table: KeyPath, at: Keys) -> int:
        """Return the index of the entry in the inline table. Raises CannotEdit."""
        about = [number for number, each in enumerate(self.inline[table]) if each.path[: len(at)] == at]
        if len(about) != 1:
            raise CannotEdit(_ODD)
        return about[0]

    def _append(self, block: str) -> Edit:
        if not self.text:
            return Edit(0, 0, block)
        if self.text.endswith("\n"):
            return Edit(len(self.text), len(self.text), f"\n{block}")
        return Edit(len(self.text), len(self.text), f"\n\n{block[:-1]}")

    def _add_values(self, keys: Keys, values: Mapping[str, object]) -> Edit:
        """Write values after the last one of their table, or below its header; append the table if it is missing."""
        header: KeyPath = ()
        found: tuple[Statement, KeyPath] | None = None
        for statement in self.statements:
            if statement.is_header:
                header = statement.path
            is_inside = header == keys[: len(header)] and statement.path[: len(keys)] == keys
            if is_inside and (not statement.is_header or header == keys):
                found = statement, header
        if found is None:
            return self._begin_table(keys, values)
        last, above = found
        indentation, end = _indentation(self.text, last.start), _line_end(self.text, last.end)
        lines = (f"\n{indentation}{_assignment((*keys[len(above) :], name), item)}" for name, item in values.items())
        return Edit(end, end, "".join(lines))

    def _begin_table(self, keys: Keys, values: Mapping[str, object]) -> Edit:
        """Write the first values of a table; values of the root table are written before the first header."""
        if keys:
            return self._append(self._block(keys[:-1], keys[-1], values))
        lines = "".join(f"{_assignment((name,), item)}\n" for name, item in values.items())
        first = next((each.start for each in self.statements if each.is_header), None)
        if first is None:
            is_on_new_line = not self.text or self.text.endswith("\n")
            return Edit(len(self.text), len(self.text), lines if is_on_new_line else f"\n{lines}")
        start = _line_start(self.text, first)
        # Comments right above a header are about its table.
        while start and self.text[_line_start(self.text, start - 1) : start].lstrip().startswith("#"):
            start = _line_start(self.text, start - 1)
        return Edit(start, start, f"{lines}\n")

    def _add_inline(self, table: KeyPath, keys: Keys, entries: Mapping[str, Entry]) -> Edit:
        written = ", ".join(_assignment((*keys[len(table) :], name), entry) for name, entry in entries.items())
        members = self.inline[table]
        if members:
            return Edit(members[-1].end, members[-1].end, f", {written}")
        every = [*self.statements, *(each for inside in self.inline.values() for each in inside)]
        whole = next(statement for statement in every if statement.path == table and not statement.is_header)
        return Edit(whole.end - 1, whole.end - 1, written)

    def _block(self, keys: Keys, name: str, entry: Entry) -> str:
        """Return the server as a table, indented as the last server is."""
        size = len(keys)
        headers = [each for each in self.statements if each.is_header and each.path[:-1] == keys]
        before = inside = ""
        if headers:
            before = _indentation(self.text, headers[-1].start)
            own = [each for each in self.statements if not each.is_header and each.path[: size + 1] == headers[-1].path]
            inside = _indentation(self.text, own[0].start) if own else before
        lines = [f"{before}[{'.'.join(map(_key, (*keys, name)))}]"]
        lines += [f"{inside}{_key(inner)} = {toml_value(item)}" for inner, item in entry.items()]
        return "".join(f"{line}\n" for line in lines)


def _assignment(keys: KeyPath, entry: object) -> str:
    return f"{'.'.join(_key(str(key)) for key in keys)} = {toml_value(entry)}"


def _key(name: str) -> str:
    return name if re.fullmatch(BARE_KEY, name) else toml_value(name)


def toml_value(item: object) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(item, Mapping):
        inside = ", ".join(f"{_key(str(key))} = {toml_value(each)}" for key, each in item.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(toml_value, item))}]"
    # A JSON string is a TOML string, except for the one control character that JSON does not escape.
    return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")

"""Edits of the servers in a TOML text. Text in, edits out.

A new server is appended as a table of its own, after an empty line. Its removal removes that line too, and no more.
Comments above a table stay; comments between its lines are removed with it. The comment after a table's header
stays when the table is replaced.
"""

import json
import re
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from hearth.config.editor import CannotEdit, Edit, Entry, Keys
from hearth.config.model import KeyPath
from hearth.config.toml_positions import Statement, TomlScanner

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ODD = "its servers are written in an odd way"


def put(text: str, keys: Keys, known: Mapping[str, Any], new: Mapping[str, Any]) -> list[Edit]:
    """Put entries into the table at the keys: known ones in their places, new tables at the end of the text, and new
    values that are no tables after the other values of their table. Raises CannotEdit."""
    scanner = _scanned(text)
    edits = [edit for name, entry in known.items() for edit in _replace(scanner, keys, name, entry)]
    table = _inline_on_the_way(scanner, keys)
    if new and table is not None:
        edits.append(_add_inline(scanner, table, keys, new))
        return edits
    tables = {name: entry for name, entry in new.items() if isinstance(entry, Mapping)}
    values = {name: entry for name, entry in new.items() if name not in tables}
    if values:
        edits.append(_add_values(scanner, keys, values))
    if tables:
        edits.append(_append(text, "\n".join(_block(scanner, keys, name, entry) for name, entry in tables.items())))
    return edits


def remove(text: str, at: Keys) -> list[Edit]:
    """Remove the entry. Raises CannotEdit."""
    scanner = _scanned(text)
    if (table := _inline_on_the_way(scanner, at[:-1])) is not None:
        return [_cut_inline(scanner, table, at)]
    return _cuts(text, _runs(scanner, at))


def spans(text: str, at: Keys) -> list[tuple[int, int]]:
    """Return the spans of the entry: first the one to write it to, then its other parts. Raises CannotEdit."""
    scanner = _scanned(text)
    if (table := _inline_on_the_way(scanner, at[:-1])) is not None:
        member = scanner.inline[table][_number(scanner, table, at)]
        return [(member.start, member.end)]
    first, *others = _runs(scanner, at)
    return [_place(text, first), *(_region(text, run) for run in others)]


def _inline_on_the_way(scanner: TomlScanner, keys: Keys) -> KeyPath | None:
    """Return the innermost inline table on the path of the keys; None if there is none."""
    return next((keys[:size] for size in range(len(keys), 0, -1) if keys[:size] in scanner.inline), None)


def _replace(scanner: TomlScanner, keys: Keys, name: str, entry: Any) -> list[Edit]:
    text, at = scanner.text, (*keys, name)
    (start, end), *others = spans(text, at)
    cuts = [Edit(*other, "") for other in others]
    if (table := _inline_on_the_way(scanner, keys)) is not None:
        return [Edit(start, end, _assignment(at[len(table) :], entry))]
    first = _runs(scanner, at)[0][0]
    if first.is_header:
        header, end_of_line, lines = _block(scanner, keys, name, entry)[:-1].partition("\n")
        # The header of a table inside the entry is removed, with its comment.
        comment = text[first.end : _line_end(text, first.end)] if first.path == at else ""
        return [Edit(start, end, header + comment + end_of_line + lines), *cuts]
    before = [each.path for each in scanner.statements if each.is_header and each.start < start]
    return [Edit(start, end, _assignment(at[len(before[-1]) if before else 0 :], entry)), *cuts]


def _scanned(text: str) -> TomlScanner:
    scanner = TomlScanner(text)
    try:
        scanner.document()
    except (IndexError, RecursionError):
        raise CannotEdit(_ODD) from None
    return scanner


# --- removal


def _runs(scanner: TomlScanner, at: Keys) -> list[list[Statement]]:
    """Return the statements that are about the entry, grouped into contiguous runs. Raises CannotEdit."""
    about = groupby(scanner.statements, lambda statement: statement.path[: len(at)] == at)
    runs = [list(run) for is_about, run in about if is_about]
    if not runs:
        raise CannotEdit(_ODD)
    return runs


def _place(text: str, run: list[Statement]) -> tuple[int, int]:
    """Return the span of a run: whole lines for a table, only the statements for anything else."""
    if run[0].is_header:
        return _line_start(text, run[0].start), _line_end(text, run[-1].end)
    return run[0].start, run[-1].end


def _cuts(text: str, runs: list[list[Statement]]) -> list[Edit]:
    return [Edit(*_region(text, run), "") for run in runs]


def _region(text: str, run: list[Statement]) -> tuple[int, int]:
    """Return the span of a run's whole lines, and of one empty line before it, or after it if the run is the first."""
    start, end = _line_start(text, run[0].start), _line_end(text, run[-1].end)
    end += text.startswith("\n", end)
    if run[0].is_header:
        if text[:start].endswith("\n\n"):
            start -= 1
        elif start == 0 and text.startswith("\n", end):
            end += 1
    if end == len(text) and not text.endswith("\n"):
        # A file whose last line has no line end still has none afterwards.
        start = max(0, start - 1)
    return start, end


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def _cut_inline(scanner: TomlScanner, table: KeyPath, at: Keys) -> Edit:
    members = scanner.inline[table]
    number = _number(scanner, table, at)
    if number:
        return Edit(members[number - 1].end, members[number].end, "")
    following = members[1].start if len(members) > 1 else members[0].end
    return Edit(members[0].start, following, "")


def _number(scanner: TomlScanner, table: KeyPath, at: Keys) -> int:
    """Return the index of the entry in the inline table. Raises CannotEdit."""
    about = [number for number, each in enumerate(scanner.inline[table]) if each.path[: len(at)] == at]
    if len(about) != 1:
        raise CannotEdit(_ODD)
    return about[0]


# --- addition


def _append(text: str, block: str) -> Edit:
    if not text:
        return Edit(0, 0, block)
    if text.endswith("\n"):
        return Edit(len(text), len(text), f"\n{block}")
    return Edit(len(text), len(text), f"\n\n{block[:-1]}")


def _add_values(scanner: TomlScanner, keys: Keys, values: Mapping[str, object]) -> Edit:
    """Write values after the last one of their table, or below its header; append the table if it is missing."""
    text = scanner.text
    header: KeyPath = ()
    found: tuple[Statement, KeyPath] | None = None
    for statement in scanner.statements:
        if statement.is_header:
            header = statement.path
        is_inside = header == keys[: len(header)] and statement.path[: len(keys)] == keys
        if is_inside and (not statement.is_header or header == keys):
            found = statement, header
    if found is None:
        return _begin_table(scanner, keys, values)
    last, above = found
    indentation, end = _indentation(text, last.start), _line_end(text, last.end)
    lines = (f"\n{indentation}{_assignment((*keys[len(above) :], name), item)}" for name, item in values.items())
    return Edit(end, end, "".join(lines))


def _begin_table(scanner: TomlScanner, keys: Keys, values: Mapping[str, object]) -> Edit:
    """Write the first values of a table; values of the root table are written before the first header."""
    text = scanner.text
    if keys:
        return _append(text, _block(scanner, keys[:-1], keys[-1], values))
    lines = "".join(f"{_assignment((name,), item)}\n" for name, item in values.items())
    first = next((each.start for each in scanner.statements if each.is_header), None)
    if first is None:
        return Edit(len(text), len(text), lines if not text or text.endswith("\n") else f"\n{lines}")
    start = _line_start(text, first)
    # Comments right above a header are about its table.
    while start and text[_line_start(text, start - 1) : start].lstrip().startswith("#"):
        start = _line_start(text, start - 1)
    return Edit(start, start, f"{lines}\n")


def _add_inline(scanner: TomlScanner, table: KeyPath, keys: Keys, entries: Mapping[str, Entry]) -> Edit:
    inner = keys[len(table) :]
    written = ", ".join(_assignment((*inner, name), entry) for name, entry in entries.items())
    members = scanner.inline[table]
    if members:
        return Edit(members[-1].end, members[-1].end, f", {written}")
    every = [*scanner.statements, *(each for inside in scanner.inline.values() for each in inside)]
    whole = next(statement for statement in every if statement.path == table and not statement.is_header)
    return Edit(whole.end - 1, whole.end - 1, written)


def _assignment(keys: KeyPath, entry: object) -> str:
    return f"{'.'.join(_key(str(key)) for key in keys)} = {value(entry)}"


def _block(scanner: TomlScanner, keys: Keys, name: str, entry: Entry) -> str:
    """Return the server as a table, indented as the last server is."""
    size = len(keys)
    headers = [each for each in scanner.statements if each.is_header and each.path[:-1] == keys]
    before = inside = ""
    if headers:
        before = _indentation(scanner.text, headers[-1].start)
        own = [each for each in scanner.statements if not each.is_header and each.path[: size + 1] == headers[-1].path]
        inside = _indentation(scanner.text, own[0].start) if own else before
    lines = [f"{before}[{'.'.join(map(_key, (*keys, name)))}]"]
    lines += [f"{inside}{_key(inner)} = {value(item)}" for inner, item in entry.items()]
    return "".join(f"{line}\n" for line in lines)


def _indentation(text: str, offset: int) -> str:
    indentation = text[_line_start(text, offset) : offset]
    return indentation if not indentation.strip() else ""


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else value(name)


def value(item: object) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(item, Mapping):
        inside = ", ".join(f"{_key(str(key))} = {value(each)}" for key, each in item.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(value, item))}]"
    # A JSON string is a TOML string, except for the one control character that JSON does not escape.
    return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")

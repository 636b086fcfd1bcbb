"""A server in a TOML text: where it is written, and what to write. Text in, edits out.

A new one is appended as a table of its own, after an empty line; which, and no more, goes with it when it is removed.
Comments above a table stay, whoever's they are; those between its lines go with it.
"""

import json
import re
from collections.abc import Mapping
from itertools import groupby

from hearth.config.edits import CannotEdit, Edit, Entry
from hearth.config.toml_lines import Scanner, Statement

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ODD = "its servers are written in an odd way"


def add(text: str, key: str, name: str, entry: Entry, is_new: bool) -> list[Edit]:
    """Put the server there, anew or in its former place. Raises CannotEdit."""
    scanner = _scanned(text)
    if (key,) in scanner.inline:
        return _add_inline(scanner, key, name, entry, is_new)
    block = _block(scanner, key, name, entry)
    if is_new:
        return [_append(text, block)]
    runs = _runs(scanner, key, name)
    if not runs[0][0].is_header:
        return [*_cuts(text, runs), _append(text, block)]
    start, end = _line_start(text, runs[0][0].start), _line_end(text, runs[0][-1].end)
    return [Edit(start, end, block[:-1]), *_cuts(text, runs[1:])]


def remove(text: str, key: str, name: str) -> list[Edit]:
    """Take the server away. Raises CannotEdit."""
    scanner = _scanned(text)
    if (key,) in scanner.inline:
        return [_cut_inline(scanner, key, name)]
    return _cuts(text, _runs(scanner, key, name))


def _scanned(text: str) -> Scanner:
    scanner = Scanner(text)
    try:
        scanner.document()
    except (IndexError, RecursionError):
        raise CannotEdit(_ODD) from None
    return scanner


# --- what is to go


def _runs(scanner: Scanner, key: str, name: str) -> list[list[Statement]]:
    """The statements that are about the server, those together that follow each other."""
    about = groupby(scanner.statements, lambda statement: statement.path[:2] == (key, name))
    return [list(run) for is_about, run in about if is_about]


def _cuts(text: str, runs: list[list[Statement]]) -> list[Edit]:
    return [Edit(*_region(text, run), "") for run in runs]


def _region(text: str, run: list[Statement]) -> tuple[int, int]:
    """The whole lines of a run, and one empty line before it, or after it where it is the first."""
    start, end = _line_start(text, run[0].start), _line_end(text, run[-1].end)
    end += text.startswith("\n", end)
    if run[0].is_header:
        if text[:start].endswith("\n\n"):
            start -= 1
        elif start == 0 and text.startswith("\n", end):
            end += 1
    if end == len(text) and not text.endswith("\n"):
        # A file without a line end behind its last line stays one.
        start = max(0, start - 1)
    return start, end


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end


def _cut_inline(scanner: Scanner, key: str, name: str) -> Edit:
    members = scanner.inline[key,]
    about = [number for number, member in enumerate(members) if member.path[:2] == (key, name)]
    if len(about) != 1:
        raise CannotEdit(_ODD)
    (number,) = about
    if number:
        return Edit(members[number - 1].end, members[number].end, "")
    following = members[1].start if len(members) > 1 else members[0].end
    return Edit(members[0].start, following, "")


# --- what is to come


def _append(text: str, block: str) -> Edit:
    if not text:
        return Edit(0, 0, block)
    if text.endswith("\n"):
        return Edit(len(text), len(text), f"\n{block}")
    return Edit(len(text), len(text), f"\n\n{block[:-1]}")


def _add_inline(scanner: Scanner, key: str, name: str, entry: Entry, is_new: bool) -> list[Edit]:
    written = f"{_key(name)} = {value(entry)}"
    members = scanner.inline[key,]
    if not is_new:
        about = [member for member in members if member.path[:2] == (key, name)]
        if len(about) != 1:
            raise CannotEdit(_ODD)
        return [Edit(about[0].start, about[0].end, written)]
    if members:
        return [Edit(members[-1].end, members[-1].end, f", {written}")]
    whole = next(statement for statement in scanner.statements if statement.path == (key,))
    return [Edit(whole.end - 1, whole.end - 1, written)]


def _block(scanner: Scanner, key: str, name: str, entry: Entry) -> str:
    """The server as a table, indented as the last one is."""
    headers = [each for each in scanner.statements if each.is_header and each.path[0] == key and len(each.path) == 2]
    before = inside = ""
    if headers:
        before = _indentation(scanner.text, headers[-1].start)
        own = [each for each in scanner.statements if not each.is_header and each.path[:2] == headers[-1].path]
        inside = _indentation(scanner.text, own[0].start) if own else before
    lines = [f"{before}[{_key(key)}.{_key(name)}]"]
    lines += [f"{inside}{_key(inner)} = {value(item)}" for inner, item in entry.items()]
    return "".join(f"{line}\n" for line in lines)


def _indentation(text: str, offset: int) -> str:
    indentation = text[_line_start(text, offset) : offset]
    return indentation if not indentation.strip() else ""


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else value(name)


def value(item: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(item, Mapping):
        inside = ", ".join(f"{_key(str(key))} = {value(each)}" for key, each in item.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(value, item))}]"
    # A string of JSON is one of TOML, but for the one control character that JSON takes as it is.
    return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")

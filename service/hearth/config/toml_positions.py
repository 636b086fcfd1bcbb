"""Positions of keys in a TOML text; the standard parser returns values only. Text in, numbers out.

The text has been parsed already, hence is valid: this scanner only has to know where things end. The scanner knows
tables, arrays of tables, dotted keys, inline tables, arrays, the four kinds of strings, and comments.
"""

import re
from bisect import bisect_right
from typing import NamedTuple

from hearth.config.model import KeyPath

# Repeated groups that may fail half way through may also match nothing: before 3.11.5 they would keep what they
# have consumed by then (python/cpython#100061).
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*+")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_BASIC = re.compile(r'"(?:[^"\\]|\\.|)*+"')
_LITERAL = re.compile(r"'[^']*'")
# Up to two quotes may stand before the closing three.
_LONG_BASIC = re.compile(r'"""(?:[^"\\]|\\.|"(?!"")|)*+"""(?:"{0,2})', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''(?:[^']|'(?!'')|)*+'''(?:'{0,2})", re.DOTALL)


class TomlLines:
    """Line index of a TOML text."""

    def __init__(self, text: str) -> None:
        scanner = TomlScanner(text)
        try:
            scanner.document()
        except (IndexError, RecursionError):
            pass  # positions found so far are still right
        self._offsets = scanner.offsets
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line, from 1, of the key or array item at the path; None if there is none."""
        offset = self._offsets.get(path)
        return None if offset is None else bisect_right(self._line_starts, offset)

    def repeated(self, path: KeyPath) -> list[str | int]:
        """Return no keys: the parser refuses repeated ones."""
        return []


class Statement(NamedTuple):
    """A header, or a key with its value: its path, its start and its end."""

    path: KeyPath
    start: int
    end: int
    is_header: bool = False


class TomlScanner:
    """Scanner that reads a text once. Raises IndexError or RecursionError for a text that is not TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.offsets: dict[KeyPath, int] = {}
        # In the file's order. Statements in inline tables are kept apart, by their table.
        self.statements: list[Statement] = []
        self.inline: dict[KeyPath, list[Statement]] = {}
        self._lengths: dict[KeyPath, int] = {}  # of arrays of tables

    def document(self) -> None:
        """Read the whole text, and note the offset at which each key is first written."""
        table: KeyPath = ()
        while not self._at_end():
            at = self.position
            if self.text[at] == "[":
                table = self._header()
                self.statements.append(Statement(table, at, self.position, is_header=True))
            else:
                self.statements.append(self._assignment(table))

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise IndexError(self.position)
        self.position = match.end()
        return match.group()

    def _at_end(self) -> bool:
        self._take(_BLANK)
        return self.position >= len(self.text)

    def _header(self) -> KeyPath:
        at = self.position
        brackets = 2 if self.text.startswith("[[", at) else 1
        self.position += brackets
        names = self._key()
        self.position += brackets
        path: KeyPath = ()
        for name in names:
            path = self._enter((*path, name), at)
        if brackets == 2:
            array = tuple(path[:-1]) if path and isinstance(path[-1], int) else path
            self._lengths[array] = self._lengths.get(array, 0) + 1
            path = self._enter(array, at)
        return path

    def _enter(self, path: KeyPath, at: int) -> KeyPath:
        """Return the table that the path means in a header: for an array of tables, its last one."""
        self.offsets.setdefault(path, at)
        if path in self._lengths:
            path = (*path, self._lengths[path] - 1)
            self.offsets.setdefault(path, at)
        return path

    def _assignment(self, table: KeyPath) -> Statement:
        at = self.position
        path = table
        for name in self._key():
            path = (*path, name)
            self.offsets.setdefault(path, at)
        self.position += 1  # the equals sign
        self._value(path)
        return Statement(path, at, at + len(self.text[at : self.position].rstrip()))

    def _key(self) -> list[str]:
        names: list[str] = []
        while not names or self.text[self.position] == ".":
            self.position += 1 if names else 0
            self._take(_SPACE)
            names.append(self._name())
            self._take(_SPACE)
        return names

    def _name(self) -> str:
        if self.text[self.position] == '"':
            import tomllib

            (name,) = tomllib.loads(self._take(_BASIC) + "=0")
            return name
        if self.text[self.position] == "'":
            return self._take(_LITERAL)[1:-1]
        return self._take(_BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        self._take(_SPACE)
        opening = self.text[self.position]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in "\"'":
            is_long = self.text.startswith(opening * 3, self.position)
            patterns = (_LONG_BASIC, _BASIC) if opening == '"' else (_LONG_LITERAL, _LITERAL)
            self._take(patterns[0] if is_long else patterns[1])
        else:
            self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self.position += 1
        number = 0
        while not self._closes("]"):
            self.offsets[*path, number] = self.position
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.position += 1
        inside = self.inline.setdefault(path, [])
        while not self._closes("}"):
            inside.append(self._assignment(path))

    def _closes(self, bracket: str) -> bool:
        """Skip a comma and blanks, and the bracket if it is next; tell whether it was."""
        self._take(_BLANK)
        if self.text[self.position] == ",":
            self.position += 1
            self._take(_BLANK)
        if self.text[self.position] == bracket:
            self.position += 1
            return True
        return False

"""Positions of keys in a JSON or TOML text, and removal of comments from JSON. Text in, numbers out.

The standard parsers return values only. The text has been parsed already, hence is valid: the scanners here only have
to know where things end. Patterns are compiled at first use, because a text has one of the two formats.
"""

import json
import re
from typing import NamedTuple

from hearth.config.model import KeyPath

# Repeated groups that may fail half way through may also match nothing: before 3.11.5 they would keep what they
# have consumed by then (python/cpython#100061).
_BLANK = r"(?:[ \t\n]|#[^\n]*)*+"
_SPACE = r"[ \t]*"
BARE_KEY = r"[A-Za-z0-9_-]+"
_SCALAR = r"[^,\]}\n#]*"
_BASIC = r'"(?:[^"\\]|\\.|)*+"'
_LITERAL = r"'[^']*'"
# Up to two quotes may stand before the closing three.
_LONG_BASIC = r'(?s)"""(?:[^"\\]|\\.|"(?!"")|)*+"""(?:"{0,2})'
_LONG_LITERAL = r"(?s)'''(?:[^']|'(?!'')|)*+'''(?:'{0,2})"


class JsonMember(NamedTuple):
    """Key of an object, or index of an array: the offsets at which it, its value and the value's end are."""

    name: str | int
    start: int
    value: int
    end: int


class JsonPositions:
    """Positions in a JSON text.

    A key is found by walking along its path while the parser skips the other values: ~/.claude.json has megabytes
    beside its servers.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._decode = json.JSONDecoder().raw_decode
        self._members: dict[int, list[JsonMember]] = {}

    def offset_of(self, path: KeyPath) -> int | None:
        """Return where the key or array item at the path begins; None if there is none."""
        found = self._find(path)
        return None if found is None else found.start

    def repeated(self, path: KeyPath) -> list[str | int]:
        """Return the keys that the object at the path has more than once."""
        names = [member.name for member in self.members_of(path)]
        return [name for name in dict.fromkeys(names) if names.count(name) > 1]

    def span_of(self, path: KeyPath) -> tuple[int, int] | None:
        """Return the start and end of the value at the path; None if there is none."""
        found = self._find(path)
        return found and (found.value, self._decode(self._text, found.value)[1])

    def members_of(self, path: KeyPath) -> list[JsonMember]:
        """Return the members of the object or array at the path."""
        found = self._find(path)
        return self._members_at(found.value) if found else []

    def _find(self, path: KeyPath) -> JsonMember | None:
        at = JsonMember("", 0, self._skip(0), len(self._text))
        for part in path:
            # Of equal keys the last one counts, as for the parser.
            found = [member for member in self._members_at(at.value) if member.name == part]
            if not found:
                return None
            at = found[-1]
        return at

    def _members_at(self, start: int) -> list[JsonMember]:
        if start not in self._members:
            self._members[start] = self._walk(start) if self._text[start] in "{[" else []
        return self._members[start]

    def _walk(self, start: int) -> list[JsonMember]:
        members: list[JsonMember] = []
        position = self._skip(start + 1)
        while self._text[position] not in "}]":
            at = position
            name: str | int = len(members)
            if self._text[start] == "{":
                name, position = self._decode(self._text, position)
                position = self._skip(self._skip(position) + 1)  # over the colon
            end = self._decode(self._text, position)[1]
            members.append(JsonMember(name, at, position, end))
            position = self._skip(end)
            if self._text[position] == ",":
                position = self._skip(position + 1)
        return members

    def _skip(self, position: int) -> int:
        space = re.compile(r"\s*").match(self._text, position)
        return space.end() if space else position


def blank_comments(text: str, trailing_commas: bool = True) -> str:
    """Return the text with comments, and by default trailing commas, turned into spaces; other offsets stay the same.

    This takes one pass, which reads each character a bounded number of times, whatever the text.
    """
    pieces: list[str] = []
    comma: int | None = None  # the piece with a comma that nothing but space and comments has followed
    last = ""  # the last character that was neither
    position = 0
    interesting = re.compile(r'"|//|/\*|[],}]')
    while found := interesting.search(text, position):
        between, opening = text[position : found.start()], found.group()
        position = _end(text, found.start(), opening)
        piece = text[found.start() : position]
        last = between.rstrip()[-1:] or last
        if opening in ("//", "/*"):
            piece = re.sub(r"[^\n]", " ", piece)
        elif opening in "]}" and last == "," and comma is not None and trailing_commas:
            pieces[comma] = " "
        pieces += (between, piece)
        if opening == ",":
            # After an opening bracket or another comma, a comma is a mistake, not a habit of editors.
            comma = None if last in ("{", "[", ",") else len(pieces) - 1
        if opening not in ("//", "/*"):
            last = opening
    return "".join((*pieces, text[position:]))


def _end(text: str, start: int, opening: str) -> int:
    if opening == '"':
        string = re.compile(_BASIC, re.DOTALL).match(text, start)
        return string.end() if string else len(text)
    if opening == "//":
        end = text.find("\n", start)
        return end if end >= 0 else len(text)
    if opening == "/*":
        end = text.find("*/", start + 2)
        return end + 2 if end >= 0 else len(text)
    return start + 1


class Statement(NamedTuple):
    """A header, or a key with its value: its path, its start and its end."""

    path: KeyPath
    start: int
    end: int
    is_header: bool = False


class TomlPositions:
    """Positions in a TOML text, which is read once. If it is not TOML, the positions before the fault are right.

    The scanner knows tables, arrays of tables, dotted keys, inline tables, arrays, the four kinds of strings, comments.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_complete = True
        self._position = 0
        self._offsets: dict[KeyPath, int] = {}
        # In the file's order. Statements in inline tables are kept apart, by their table.
        self.statements: list[Statement] = []
        self.inline: dict[KeyPath, list[Statement]] = {}
        self._lengths: dict[KeyPath, int] = {}  # of arrays of tables
        try:
            self._read()
        except (IndexError, RecursionError):
            self.is_complete = False

    def offset_of(self, path: KeyPath) -> int | None:
        """Return where the key or array item at the path is first written; None if there is none."""
        return self._offsets.get(path)

    def repeated(self, path: KeyPath) -> list[str | int]:
        """Return no keys: the parser refuses repeated ones."""
        return []

    def _read(self) -> None:
        table: KeyPath = ()
        self._take(_BLANK)
        while self._position < len(self.text):
            at = self._position
            if self.text[at] == "[":
                table = self._header()
                self.statements.append(Statement(table, at, self._position, is_header=True))
            else:
                self.statements.append(self._assignment(table))
            self._take(_BLANK)

    def _take(self, pattern: str) -> str:
        match = re.compile(pattern).match(self.text, self._position)
        if match is None:
            raise IndexError(self._position)
        self._position = match.end()
        return match.group()

    def _header(self) -> KeyPath:
        at = self._position
        brackets = 2 if self.text.startswith("[[", at) else 1
        self._position += brackets
        names = self._key()
        self._position += brackets
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
        self._offsets.setdefault(path, at)
        if path in self._lengths:
            path = (*path, self._lengths[path] - 1)
            self._offsets.setdefault(path, at)
        return path

    def _assignment(self, table: KeyPath) -> Statement:
        at = self._position
        path = table
        for name in self._key():
            path = (*path, name)
            self._offsets.setdefault(path, at)
        self._position += 1  # the equals sign
        self._value(path)
        return Statement(path, at, at + len(self.text[at : self._position].rstrip()))

    def _key(self) -> list[str]:
        names: list[str] = []
        while not names or self.text[self._position] == ".":
            self._position += 1 if names else 0
            self._take(_SPACE)
            names.append(self._name())
            self._take(_SPACE)
        return names

    def _name(self) -> str:
        if self.text[self._position] == '"':
            import tomllib

            (name,) = tomllib.loads(self._take(_BASIC) + "=0")
            return name
        if self.text[self._position] == "'":
            return self._take(_LITERAL)[1:-1]
        return self._take(BARE_KEY)

    def _value(self, path: KeyPath) -> None:
        self._take(_SPACE)
        opening = self.text[self._position]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in "\"'":
            is_long = self.text.startswith(opening * 3, self._position)
            patterns = (_LONG_BASIC, _BASIC) if opening == '"' else (_LONG_LITERAL, _LITERAL)
            self._take(patterns[0] if is_long else patterns[1])
        else:
            self._take(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._position += 1
        number = 0
        while not self._closes("]"):
            self._offsets[*path, number] = self._position
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._position += 1
        inside = self.inline.setdefault(path, [])
        while not self._closes("}"):
            inside.append(self._assignment(path))

    def _closes(self, bracket: str) -> bool:
        """Skip a comma and blanks, and the bracket if it is next; tell whether it was."""
        self._take(_BLANK)
        if self.text[self._position] == ",":
            self._position += 1
            self._take(_BLANK)
        if self.text[self._position] == bracket:
            self._position += 1
            return True
        return False

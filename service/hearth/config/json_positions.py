"""Positions of keys in a JSON text, and removal of comments and trailing commas. Text in, numbers out.

The standard parser returns no positions, but it does return where a value ends. So a key is found by walking along
its path while the parser skips the other values: ~/.claude.json has megabytes beside its servers.
"""

import json
import re

from hearth.config.model import KeyPath

_COMMENTS = ("//", "/*")
_INTERESTING = re.compile(r'"|//|/\*|[],}]')
_STRING = re.compile(r'"(?:[^"\\]|\\.|)*+"', re.DOTALL)
_SPACE = re.compile(r"\s*")
_NOT_NEWLINE = re.compile(r"[^\n]")


class JsonLines:
    """Line index of a JSON text that has been parsed already, hence is valid."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last = (0, 1)
        self._members: dict[int, list[tuple[str | int, int, int]]] = {}

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line, from 1, of the key or list item at the path; None if there is none."""
        found = self._find(path)
        return None if found is None else self._line_at(found[0])

    def _line_at(self, offset: int) -> int:
        # Keys are mostly asked for in the order of the file: count on from the last one.
        start, line = self._last if self._last[0] <= offset else (0, 1)
        self._last = (offset, line + self._text.count("\n", start, offset))
        return self._last[1]

    def repeated(self, path: KeyPath) -> list[str | int]:
        """Return the keys that the object at the path has more than once."""
        found = self._find(path)
        names = [name for name, _, _ in self._members_at(found[1])] if found else []
        return [name for name in dict.fromkeys(names) if names.count(name) > 1]

    def span_of(self, path: KeyPath) -> tuple[int, int] | None:
        """Return the start and end of the value at the path; None if there is none."""
        found = self._find(path)
        return None if found is None else (found[1], json.JSONDecoder().raw_decode(self._text, found[1])[1])

    def members_of(self, path: KeyPath) -> list[tuple[str | int, int, int]]:
        """Return the keys of the object or list at the path, with the offsets where key and value begin."""
        found = self._find(path)
        return self._members_at(found[1]) if found else []

    def _find(self, path: KeyPath) -> tuple[int, int] | None:
        key, value = 0, self._skip(0)
        for part in path:
            # Of equal keys the last one counts, as for the parser.
            found = [(at, start) for name, at, start in self._members_at(value) if name == part]
            if not found:
                return None
            key, value = found[-1]
        return key, value

    def _members_at(self, start: int) -> list[tuple[str | int, int, int]]:
        if start not in self._members:
            self._members[start] = self._walk(start) if self._text[start] in "{[" else []
        return self._members[start]

    def _walk(self, start: int) -> list[tuple[str | int, int, int]]:
        """Return the keys of the object or array at `start`, with the offsets of key and value."""
        members: list[tuple[str | int, int, int]] = []
        decode = json.JSONDecoder().raw_decode
        position = self._skip(start + 1)
        while self._text[position] not in "}]":
            at = position
            name: str | int = len(members)
            if self._text[start] == "{":
                name, position = decode(self._text, position)
                position = self._skip(self._skip(position) + 1)  # over the colon
            members.append((name, at, position))
            position = self._skip(decode(self._text, position)[1])
            if self._text[position] == ",":
                position = self._skip(position + 1)
        return members

    def _skip(self, position: int) -> int:
        space = _SPACE.match(self._text, position)
        return space.end() if space else position


def blank_comments(text: str, trailing_commas: bool = True) -> str:
    """Return the text with comments, and by default trailing commas, turned into spaces; other offsets stay the same.

    This takes one pass, which reads each character a bounded number of times, whatever the text.
    """
    pieces: list[str] = []
    comma: int | None = None  # the piece with a comma that nothing but space and comments has followed
    last = ""  # the last character that was neither
    position = 0
    while found := _INTERESTING.search(text, position):
        between, opening = text[position : found.start()], found.group()
        position = _end(text, found.start(), opening)
        piece = text[found.start() : position]
        last = between.rstrip()[-1:] or last
        if opening in _COMMENTS:
            piece = _NOT_NEWLINE.sub(" ", piece)
        elif opening in "]}" and last == "," and comma is not None and trailing_commas:
            pieces[comma] = " "
        pieces += (between, piece)
        if opening == ",":
            # After an opening bracket or another comma, a comma is a mistake, not a habit of editors.
            comma = None if last in ("{", "[", ",") else len(pieces) - 1
        if opening not in _COMMENTS:
            last = opening
    return "".join((*pieces, text[position:]))


def _end(text: str, start: int, opening: str) -> int:
    if opening == '"':
        string = _STRING.match(text, start)
        return string.end() if string else len(text)
    if opening == "//":
        end = text.find("\n", start)
        return end if end >= 0 else len(text)
    if opening == "/*":
        end = text.find("*/", start + 2)
        return end + 2 if end >= 0 else len(text)
    return start + 1

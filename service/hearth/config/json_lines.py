"""Where a key stands in a JSON text, and JSON as editors write it made plain. Pure text in, numbers out.

The standard parser tells no positions. It does tell where a value ends, though, so that a key is found by walking its
path and letting the parser skip everything beside it: ~/.claude.json may have megabytes beside its mcpServers.
"""

import json
import re

_INTERESTING = re.compile(r'"|//|/\*|,')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SPACE = re.compile(r"\s*")
_BEFORE_CLOSING = re.compile(r",(?=\s*[}\]])")
_NOT_NEWLINE = re.compile(r"[^\n]")


def blank_comments(text: str) -> str:
    """The text with comments and trailing commas replaced by as many spaces, so that every line keeps its number."""
    kept: list[str] = []
    position = 0
    while found := _INTERESTING.search(text, position):
        start = found.start()
        kept.append(text[position:start])
        end = _end_of(text, start, found.group())
        piece = text[start:end]
        kept.append(piece if piece[0] in '",' else _NOT_NEWLINE.sub(" ", piece))
        position = end
    kept.append(text[position:])
    return _without_trailing_commas("".join(kept))


def _end_of(text: str, start: int, opening: str) -> int:
    if opening == ",":
        return start + 1
    if opening == '"':
        string = _STRING.match(text, start)
        return string.end() if string else len(text)
    end = text.find("\n", start) if opening == "//" else text.find("*/", start + 2) + 2
    return end if end > start else len(text)


def _without_trailing_commas(text: str) -> str:
    kept: list[str] = []
    position = 0
    while found := _INTERESTING.search(text, position):
        start = found.start()
        kept.append(text[position:start])
        end = _end_of(text, start, found.group())
        trailing = found.group() == "," and _BEFORE_CLOSING.match(text, start)
        kept.append(" " if trailing else text[start:end])
        position = end
    kept.append(text[position:])
    return "".join(kept)


def line_of(text: str, path: tuple[str | int, ...]) -> int | None:
    """The line, from 1, of the key (or list item) at the path; None if there is none. The text is valid JSON."""
    value, key = _SPACE.match(text).end(), 0  # type: ignore[union-attr]
    for part in path:
        members = _members(text, value)
        if part not in members:
            return None
        key, value = members[part]
    return text.count("\n", 0, key) + 1


def _members(text: str, start: int) -> dict[str | int, tuple[int, int]]:
    """Of the object or array at `start`: each key to the offsets of key and value. Of equal keys the last counts."""
    found: dict[str | int, tuple[int, int]] = {}
    if text[start] not in "{[":
        return found
    decode = json.JSONDecoder().raw_decode
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        at = position
        name: str | int = len(found)
        if text[start] == "{":
            name, position = decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        found[name] = (at, position)
        _, position = decode(text, position)
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return found


def _skip(text: str, position: int) -> int:
    return _SPACE.match(text, position).end()  # type: ignore[union-attr]

"""A config file's bytes to a tree of plain values, TOML or JSON, and the line of any key in it.

Accepts what editors and MCP clients write: a byte order mark, CRLF, UTF-16, comments and trailing commas in JSON.
Raises ConfigError for everything that is not a config file. Does no I/O.
"""

from functools import cached_property
from typing import Any

from hearth.errors import ConfigError

KeyPath = tuple[str | int, ...]


class Document:
    """The tree of one file. `is_json` says which rules for unknown keys hold."""

    def __init__(self, path: str, text: str, is_json: bool) -> None:
        self.path = path
        self.text = text
        self.is_json = is_json
        self.tree: dict[str, Any] = {}

    @cached_property
    def _lines(self) -> "dict[KeyPath, int]":
        from hearth.config.toml_lines import line_index

        return line_index(self.text)

    def line(self, key: KeyPath) -> int:
        """The line, from 1, on which the key is written; of a part of it if the key itself cannot be found."""
        while key:
            if line := self._line(key):
                return line
            key = key[:-1]
        return 1

    def _line(self, key: KeyPath) -> int | None:
        if self.is_json:
            from hearth.config.json_lines import line_of

            return line_of(self.text, key)
        return self._lines.get(key)

    def at(self, key: KeyPath) -> str:
        """`FILE:LINE` of a key."""
        return f"{self.path}:{self.line(key)}"


def parse(path: str, data: bytes) -> Document:
    """Read the bytes of a config file; ConfigError has the parser's own line."""
    text = _decode(path, data)
    document = Document(path, text, _is_json(path, text))
    if not text.strip():
        return document
    try:
        (_parse_json if document.is_json else _parse_toml)(document)
    except RecursionError:
        raise ConfigError([f"{path}: is nested too deeply to be a config file"]) from None
    return document


def _decode(path: str, data: bytes) -> str:
    # Windows PowerShell writes UTF-16 when its output is redirected into a file.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError(
            [f"{path}:{line}: is not text in UTF-8 ({exc.reason}); save the file as UTF-8"]
        ) from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _is_json(path: str, text: str) -> bool:
    # No TOML document begins with a brace or a slash; `[` may begin either, so there the suffix decides.
    start = text.lstrip()[:2]
    return start.startswith(("{", "//", "/*")) or path.lower().endswith((".json", ".jsonc"))


def _parse_toml(document: Document) -> None:
    import tomllib

    try:
        document.tree = tomllib.loads(document.text)
    except tomllib.TOMLDecodeError as exc:
        sentence, _, place = str(exc).rpartition(" (at ")
        line = _number_in(place) or document.text.rstrip().count("\n") + 1
        raise ConfigError([f"{document.path}:{line}: is not valid TOML: {sentence or place}"]) from None
    except ValueError as exc:  # an integer with thousands of digits
        raise ConfigError([f"{document.path}: is not valid TOML: {exc}"]) from None


def _number_in(place: str) -> int | None:
    words = place.replace(",", " ").split()
    return int(words[1]) if words[:1] == ["line"] and words[1].isdigit() else None


def _parse_json(document: Document) -> None:
    import json

    from hearth.config.json_lines import blank_comments

    document.text = blank_comments(document.text)
    try:
        tree = json.loads(document.text)
    except json.JSONDecodeError as exc:
        raise ConfigError([f"{document.path}:{exc.lineno}: is not valid JSON: {exc.msg}"]) from None
    except ValueError as exc:  # an integer with thousands of digits
        raise ConfigError([f"{document.path}: is not valid JSON: {exc}"]) from None
    if not isinstance(tree, dict):
        raise ConfigError([f"{document.path}:1: must be a JSON object with mcpServers in it"])
    document.tree = tree

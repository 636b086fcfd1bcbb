"""Parser of a config file's bytes: a tree of plain values from TOML or JSON, and the line of any key.

Accepts the variants that editors and MCP clients write: a byte order mark, CRLF, UTF-16; in JSON, comments and
trailing commas. Raises ConfigError for everything that is not a config file. Does no I/O.
"""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from hearth.config.model import KeyPath
from hearth.errors import ConfigError

if TYPE_CHECKING:
    from hearth.config.positions import JsonPositions, TomlPositions

# Python's limit against slow conversions; the parsers let its ValueError through, without a line.
_TOO_MANY_DIGITS = "has a number with thousands of digits"


class Document:
    """One parsed file. `is_json` decides which rules hold for unknown keys; `tree` has not been checked."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._last = (0, 1)  # the last position that was asked for, and its line
        # No TOML document begins with a brace or a slash. A bracket may begin either format: then the suffix decides.
        self.is_json = text.lstrip().startswith(("{", "//", "/*")) or path.lower().endswith((".json", ".jsonc"))
        self.tree: dict[str, Any] = {}
        if text.strip():
            try:
                self.tree = self._parse_json() if self.is_json else self._parse_toml()
            except RecursionError:
                raise ConfigError([f"{path}: is nested too deeply for a config file"]) from None

    def at(self, key: KeyPath) -> str:
        """Return `FILE:LINE` of a key."""
        return f"{self.path}:{self.line(key)}"

    def line(self, key: KeyPath) -> int:
        """Return the line, from 1, of the key; if it is missing, of the table that lacks it."""
        while key:
            if (offset := self._positions.offset_of(key)) is not None:
                # Keys are mostly asked for in the order of the file: count on from the last one.
                start, line = self._last if self._last[0] <= offset else (0, 1)
                self._last = (offset, line + self.text.count("\n", start, offset))
                return self._last[1]
            key = key[:-1]
        return 1

    @cached_property
    def _positions(self) -> "JsonPositions | TomlPositions":
        from hearth.config.positions import JsonPositions, TomlPositions

        return JsonPositions(self.text) if self.is_json else TomlPositions(self.text)

    def repeated_keys(self, path: KeyPath) -> "list[str | int]":
        """Return the keys that the table at the path has more than once. Raises nothing."""
        return self._positions.repeated(path) if self.tree else []

    def _parse_toml(self) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as exc:
            sentence, _, place = str(exc).rpartition(" (at ")
            line = _line_in(place) or self.text.rstrip("\n").count("\n") + 1
            raise ConfigError([f"{self.path}:{line}: is not valid TOML: {sentence or place}"]) from None
        except ValueError:
            raise ConfigError([f"{self.path}: {_TOO_MANY_DIGITS}"]) from None

    def _parse_json(self) -> dict[str, Any]:
        import json

        try:
            tree = json.loads(self.text)
        except ValueError:
            tree = self._parse_commented_json()
        if not isinstance(tree, dict):
            raise ConfigError([f"{self.path}:1: must be a JSON object with mcpServers in it"])
        return tree

    def _parse_commented_json(self) -> object:
        import json

        from hearth.config.positions import blank_comments

        self.text = blank_comments(self.text)
        try:
            return json.loads(self.text)
        except json.JSONDecodeError as exc:
            raise ConfigError([f"{self.path}:{exc.lineno}: is not valid JSON: {exc.msg}"]) from None
        except ValueError:
            raise ConfigError([f"{self.path}: {_TOO_MANY_DIGITS}"]) from None


def parse(path: str, data: bytes) -> Document:
    """Parse the bytes of a config file. Raises ConfigError with the parser's own line."""
    # Windows PowerShell writes UTF-16 when its output is redirected into a file.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError([f"{path}:{line}: is not text in UTF-8; save the file as UTF-8"]) from None
    return Document(path, text.removeprefix("\ufeff").replace("\r\n", "\n"))


def _line_in(place: str) -> int | None:
    # "line 3, column 7)" or "end of document)"
    words = place.replace(",", " ").split()
    return int(words[1]) if words[:1] == ["line"] and words[1].isdigit() else None

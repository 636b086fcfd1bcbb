"""On which line each key of a TOML text stands. The standard parser tells values only. Pure text in, numbers out.

The text has been parsed already, hence is valid; this scanner only has to know where things end: tables, dotted
keys, inline tables, arrays, the four kinds of strings, comments.
"""

import re

KeyPath = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_STRINGS = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*+"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*+'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:[^"\\]|\\.)*+"'),
    re.compile(r"'[^']*'"),
)


def line_index(text: str) -> dict[KeyPath, int]:
    """Every key path to its line, from 1. Items of arrays have their number as key."""
    scanner = _Scanner(text)
    try:
        scanner.document()
    except (IndexError, RecursionError):
        pass  # what was found until then is still right
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return _to_lines(scanner.offsets, starts)


def _to_lines(offsets: dict[KeyPath, int], starts: list[int]) -> dict[KeyPath, int]:
    from bisect import bisect_right

    return {path: bisect_right(starts, offset) for path, offset in offsets.items()}


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.offsets: dict[KeyPath, int] = {}
        self.array_lengths: dict[KeyPath, int] = {}

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise IndexError(self.position)
        self.position = match.end()
        return match.group()

    def document(self) -> None:
        table: KeyPath = ()
        while self.skip(_BLANK) is not None and self.position < len(self.text):
            if self.text[self.position] == "[":
                table = self.header()
            else:
                self.assignment(table)

    def header(self) -> KeyPath:
        at = self.position
        is_array = self.text.startswith("[[", at)
        self.position += 2 if is_array else 1
        parts = self.key()
        self.position += 2 if is_array else 1
        path: KeyPath = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            self.offsets.setdefault(path, at)
            if is_array and number == len(parts) - 1:
                self.array_lengths[path] = self.array_lengths.get(path, 0) + 1
            if path in self.array_lengths:
                path = (*path, self.array_lengths[path] - 1)
                self.offsets.setdefault(path, at)
        return path

    def assignment(self, table: KeyPath) -> None:
        at = self.position
        path = table
        for part in self.key():
            path = (*path, part)
            self.offsets.setdefault(path, at)
        self.position += 1  # the equals sign
        self.value(path)

    def key(self) -> list[str]:
        parts = []
        while True:
            self.skip(_SPACE)
            parts.append(self.key_part())
            self.skip(_SPACE)
            if self.text[self.position] != ".":
                return parts
            self.position += 1

    def key_part(self) -> str:
        if self.text[self.position] == '"':
            import tomllib

            (name,) = tomllib.loads(self.skip(_STRINGS[2]) + "=0")
            return str(name)
        if self.text[self.position] == "'":
            return self.skip(_STRINGS[3])[1:-1]
        return self.skip(_BARE_KEY)

    def value(self, path: KeyPath) -> None:
        self.skip(_SPACE)
        opening = self.text[self.position]
        if opening == "[":
            self.array(path)
        elif opening == "{":
            self.inline_table(path)
        elif opening in "\"'":
            self.string()
        else:
            self.skip(_SCALAR)

    def string(self) -> None:
        triple = self.text[self.position : self.position + 3]
        number = {'"""': 0, "'''": 1}.get(triple, 2 if triple[0] == '"' else 3)
        self.skip(_STRINGS[number])

    def array(self, path: KeyPath) -> None:
        self.position += 1
        number = 0
        while self.skip(_BLANK) is not None and self.text[self.position] != "]":
            self.offsets[(*path, number)] = self.position
            self.value((*path, number))
            number += 1
            self.comma()
        self.position += 1

    def inline_table(self, path: KeyPath) -> None:
        self.position += 1
        while self.skip(_BLANK) is not None and self.text[self.position] != "}":
            self.assignment(path)
            self.comma()
        self.position += 1

    def comma(self) -> None:
        self.skip(_BLANK)
        if self.text[self.position] == ",":
            self.position += 1

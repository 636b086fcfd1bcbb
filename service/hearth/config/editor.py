"""Editor that adds servers to a file's bytes or removes them, and keeps every other byte as it is. No I/O.

    text_edits   finds the characters of the text that change
    editor       bytes to text and back; the result is parsed again and compared with the intended tree

The file is Hearth's own config, or any other that has a table of servers at the end of a path of keys. No library
that writes whole documents is used: the available ones remove the comment above the next table together with the
table before it (tomlkit does). An edit replaces a few characters; if the file then does not mean exactly what it
should, nothing is changed.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from hearth.config.document import Document, parse
from hearth.config.schema import SERVERS, SERVERS_IN_VSCODE
from hearth.config.text_edits import CannotEdit, Edit, Entry, JsonText, Keys, TomlText
from hearth.errors import ConfigError

_ODD = "is written in a way that cannot be changed without changing something else"


# --- Hearth's own config


def added(path: str, data: bytes | None, name: str, entry: Entry) -> bytes:
    """Return the config, or a new one, with that server added, or replaced if there is one. Raises ConfigError."""
    file = _File(path, blank(path) if data is None else data)
    if file.document.is_json and (data is None or not file.text.strip()):
        # With the table of servers, so that each key of the entry gets a line.
        file = _File(path, b'{\n  "mcpServers": {}\n}\n')
    with _refusing(path, f"put the server {name!r} into it by hand"):
        return file.put(file.own_keys(), {name: entry})


def removed(path: str, data: bytes, name: str) -> bytes:
    """Return the config without that server, which must be in it. Raises ConfigError."""
    file = _File(path, data)
    with _refusing(path, f"take the server {name!r} out of it by hand"):
        return file.take((*file.own_keys(), name))


def assigned(path: str, data: bytes | None, at: Keys, value: object) -> bytes:
    """Return the config with the value at these keys, every other byte as it is. Raises ConfigError.

    The keys begin with the name of a setting or of its table, or with a server's name below `SERVERS`.
    """
    file = _File(path, data or blank(path))
    *keys, name = file.own_path(at)
    with _refusing(path, f"write {'.'.join(at)} into it by hand"):
        return file.put(tuple(keys), {name: value})


def unassigned(path: str, data: bytes, at: Keys) -> bytes:
    """Return the config without the value at these keys, if there is one. Raises ConfigError."""
    file = _File(path, data)
    where = file.own_path(at)
    if value_at(file.document.tree, where) is None:
        return data
    with _refusing(path, f"take {'.'.join(at)} out of it by hand"):
        return file.take(where)


def blank(path: str) -> bytes:
    """Return the text of a new config without anything in it."""
    return b"{}\n" if path.lower().endswith((".json", ".jsonc")) else HEADER.encode()


HEADER = """\
# What Hearth serves. `hearth add` and `hearth remove` edit this file and keep what else is in it;
# `hearth config check` finds mistakes, `hearth config show` says what holds.
"""


# --- any file


def put(path: str, data: bytes, keys: Keys, entries: Mapping[str, Any]) -> bytes:
    """Return the file with these entries in the table at the keys; each replaces an entry of its name.

    Missing tables on the path are added. Raises ConfigError.
    """
    file = _File(path, data)
    if file.document.is_json and not file.text.strip():
        encoding, mark = _encoding(data)
        file = _File(path, mark + "{}\n".encode(encoding))
    with _refusing(path):
        file.refuse_repeated(keys, entries)
        return file.put(keys, entries)


def taken(path: str, data: bytes, at: Keys) -> bytes:
    """Return the file without the entry or the whole table at the keys. Raises ConfigError."""
    file = _File(path, data)
    with _refusing(path):
        file.refuse_repeated(at[:-1], at[-1:])
        return file.take(at)


def written(path: str, data: bytes, keys: Keys, names: Iterable[str]) -> dict[str, str]:
    """Return the characters of entries of a table, as the file has them. Raises ConfigError."""
    file = _File(path, data)
    with _refusing(path):
        return {name: file.written((*keys, name)) for name in names}


def rewritten(path: str, data: bytes, keys: Keys, texts: Mapping[str, str], meant: Entry) -> bytes:
    """Return the file with these texts in place of entries of a table; `meant` is their value. Raises ConfigError."""
    file = _File(path, data)
    with _refusing(path):
        file.refuse_repeated(keys, texts)
        return file.rewrite(keys, texts, meant)


def value_at(tree: object, at: Iterable[str]) -> Any:
    """Return the value at the keys in a tree; None if there is none."""
    for key in at:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


@contextmanager
def _refusing(path: str, advice: str = "nothing was changed") -> Iterator[None]:
    """Turn CannotEdit into ConfigError."""
    try:
        yield
    except CannotEdit as exc:
        raise ConfigError([f"{path}: {exc}; {advice}"]) from None


class _File:
    """One file: its bytes, their parsed document, and their text with plain line ends and with all comments."""

    def __init__(self, path: str, data: bytes) -> None:
        self.document: Document = parse(path, data)
        encoding, mark = _encoding(data)
        self.text = data[len(mark) :].decode(encoding).replace("\r\n", "\n")
        self._path = path
        self._data = data

    def own_keys(self) -> Keys:
        """Return the key under which Hearth's own config has its servers."""
        tree = self.document.tree
        is_vscode = self.document.is_json and SERVERS not in tree and SERVERS_IN_VSCODE in tree
        return (SERVERS_IN_VSCODE if is_vscode else SERVERS,)

    def own_path(self, at: Keys) -> Keys:
        """Return the path in this file of these keys of Hearth's own config."""
        return (*self.own_keys(), *at[1:]) if at[0] == SERVERS else at

    def refuse_repeated(self, keys: Keys, names: Iterable[str]) -> None:
        """Raise CannotEdit for a key that is written more than once: Hearth cannot know which one the client uses."""
        for size in range(len(keys) + 1):
            wanted = keys[size : size + 1] if size < len(keys) else tuple(names)
            for key in self.document.repeated_keys(keys[:size]):
                if key in wanted:
                    raise CannotEdit(f"has {'.'.join([*keys[:size], str(key)])!r} more than once")

    def put(self, keys: Keys, entries: Mapping[str, Any]) -> bytes:
        former = value_at(self.document.tree, keys)
        table = former if isinstance(former, dict) else {}
        # In the file's order, the new ones last.
        known = {name: entries[name] for name in table if name in entries}
        new = {name: entry for name, entry in entries.items() if name not in table}
        meant = _with(self.document.tree, keys, {**table, **known, **new})
        return self._checked(self._edits.put(keys, known, new), meant, keys)

    def take(self, at: Keys) -> bytes:
        keys, name = at[:-1], at[-1]
        table = {other: entry for other, entry in value_at(self.document.tree, keys).items() if other != name}
        return self._checked(self._edits.remove(at), _with(self.document.tree, keys, table), keys)

    def written(self, at: Keys) -> str:
        raw, offset = _raw(self._data)
        line_end = "\r\n" if "\r\n" in raw else "\n"
        # An entry that is written in several places is joined into one text.
        return (2 * line_end).join(raw[offset(start) : offset(end)] for start, end in self._edits.spans(at))

    def rewrite(self, keys: Keys, texts: Mapping[str, str], meant: Entry) -> bytes:
        edits = []
        for name, text in texts.items():
            (start, end), *others = self._edits.spans((*keys, name))
            edits += [Edit(start, end, text, is_exact=True), *(Edit(*span, "") for span in others)]
        table = {**value_at(self.document.tree, keys), **meant}
        return self._checked(edits, _with(self.document.tree, keys, table), keys)

    @cached_property
    def _edits(self) -> JsonText | TomlText:
        return JsonText(self.text, self.document.text) if self.document.is_json else TomlText(self.text)

    def _checked(self, edits: list[Edit], meant: dict[str, Any], keys: Keys) -> bytes:
        changed = apply(self._data, edits)
        try:
            tree = parse(self._path, changed).tree
        except ConfigError:
            raise CannotEdit(_ODD) from None
        if not _are_same(_pruned(tree, keys), _pruned(meant, keys)):
            raise CannotEdit(_ODD)
        return changed


def _with(tree: Mapping[str, Any], keys: Keys, table: dict[str, Any]) -> dict[str, Any]:
    """Return the tree with that table at the keys."""
    if not keys:
        return table
    inner = tree.get(keys[0])
    return {**tree, keys[0]: _with(inner if isinstance(inner, dict) else {}, keys[1:], table)}


def _pruned(tree: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Return the tree without empty tables on the path of the keys: a file may write them or leave them out."""
    if not keys or not isinstance(tree.get(keys[0]) or {}, dict):
        return dict(tree)
    inner = _pruned(tree.get(keys[0]) or {}, keys[1:])
    return {key: value for key, value in {**tree, keys[0]: inner}.items() if key != keys[0] or value}


def _are_same(one: object, other: object) -> bool:
    if one == other:
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_are_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_are_same, one, other))
    # NaN is not equal to itself.
    return one != one and other != other


def apply(data: bytes, edits: list[Edit]) -> bytes:
    """Apply the edits, whose offsets are those of the parser's text: decoded, and with plain line ends."""
    encoding, mark = _encoding(data)
    raw, offset = _raw(data)
    line_end = "\r\n" if raw.count("\r\n") * 2 > raw.count("\n") else "\n"
    # From the end, so that the offsets before it stay right.
    for edit in sorted(edits, reverse=True):
        text = edit.text if edit.is_exact else edit.text.replace("\n", line_end)
        raw = raw[: offset(edit.start)] + text + raw[offset(edit.end) :]
    return mark + raw.encode(encoding)


def _raw(data: bytes) -> tuple[str, Callable[[int], int]]:
    """Return the text as it is, and a function that maps offsets of the text with plain line ends to it."""
    encoding, mark = _encoding(data)
    raw = data[len(mark) :].decode(encoding)
    # Offsets in the plain text of line ends that stand for two characters.
    wide: list[int] = []
    at = -1
    for piece in raw.split("\r\n")[:-1]:
        at += len(piece) + 1
        wide.append(at)
    return raw, lambda offset: offset + bisect_left(wide, offset)


def _encoding(data: bytes) -> tuple[str, bytes]:
    """Return the encoding of a file, and the byte order mark at its beginning."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ("utf-16-le" if data[:2] == b"\xff\xfe" else "utf-16-be"), data[:2]
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return "utf-8", mark

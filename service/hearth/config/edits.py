"""A server put into a config file's bytes, or taken out of them, everything else left as it is, byte for byte. No I/O.

    toml_edits, json_edits   where in the text which characters change
    edits                    bytes to text and back; what came out is read again and compared with what was meant

Not a library that writes whole documents: the ones at hand take the comment above the next table away with the table
before it (tomlkit does). An edit is a few characters at a place; if the file does not then mean exactly what it should,
nothing is done.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, NamedTuple

from hearth.config.document import Document, parse
from hearth.config.keys import SERVERS, SERVERS_IN_VSCODE
from hearth.errors import ConfigError

Entry = Mapping[str, Any]


class Edit(NamedTuple):
    """Characters `start` to `end` of a text give way to others."""

    start: int
    end: int
    text: str


class CannotEdit(Exception):
    """The file is right, and written in a way that cannot be changed safely; a phrase to follow its name."""


def added(path: str, data: bytes, name: str, entry: Entry) -> bytes:
    """The file with that server in it, in the place of one of that name. Raises ConfigError."""
    document, text, key = _opened(path, data)
    if document.is_json and not text.strip():
        return first(path, name, entry)
    servers = dict(document.tree.get(key) or {})
    is_new = name not in servers
    meant = {**document.tree, key: {**servers, name: dict(entry)}}
    try:
        if document.is_json:
            from hearth.config import json_edits

            edits = json_edits.add(text, key, name, entry, is_new)
        else:
            from hearth.config import toml_edits

            edits = toml_edits.add(text, key, name, entry, is_new)
        return _checked(path, data, edits, meant)
    except CannotEdit as exc:
        raise ConfigError([f"{path}: {exc}; put the server {name!r} into it by hand"]) from None


def removed(path: str, data: bytes, name: str) -> bytes:
    """The file without that server, which is in it. Raises ConfigError."""
    document, text, key = _opened(path, data)
    servers = {other: entry for other, entry in document.tree[key].items() if other != name}
    meant = {**document.tree, key: servers}
    try:
        if document.is_json:
            from hearth.config import json_edits

            edits = json_edits.remove(text, key, name)
        else:
            from hearth.config import toml_edits

            edits = toml_edits.remove(text, key, name)
        return _checked(path, data, edits, meant)
    except CannotEdit as exc:
        raise ConfigError([f"{path}: {exc}; take the server {name!r} out of it by hand"]) from None


def first(path: str, name: str, entry: Entry) -> bytes:
    """A new file with that server in it."""
    if path.lower().endswith((".json", ".jsonc")):
        return added(path, b'{\n  "mcpServers": {}\n}\n', name, entry)
    return added(path, HEADER.encode(), name, entry)


HEADER = """\
# What Hearth serves. `hearth add` and `hearth remove` edit this file and keep what else is in it;
# `hearth config check` finds mistakes, `hearth config show` says what holds.
"""


def _opened(path: str, data: bytes) -> tuple[Document, str, str]:
    """What the file says, its text with plain line ends and with all comments, and under which key its servers are."""
    document = parse(path, data)
    is_vscode = document.is_json and SERVERS not in document.tree and SERVERS_IN_VSCODE in document.tree
    encoding, mark = _encoding(data)
    text = data[len(mark) :].decode(encoding).replace("\r\n", "\n")
    return document, text, SERVERS_IN_VSCODE if is_vscode else SERVERS


def _checked(path: str, data: bytes, edits: list[Edit], meant: dict[str, Any]) -> bytes:
    changed = apply(data, edits)
    try:
        tree = parse(path, changed).tree
    except ConfigError:
        tree = {}
    # What is empty may be written, or not.
    if {key: value for key, value in tree.items() if value != {}} != {
        key: value for key, value in meant.items() if value != {}
    }:
        raise CannotEdit("is written in a way that cannot be changed without changing something else")
    return changed


def apply(data: bytes, edits: list[Edit]) -> bytes:
    """Make the edits, which are about the text as the parser has it: decoded, and with plain line ends."""
    encoding, mark = _encoding(data)
    raw = data[len(mark) :].decode(encoding)
    pieces = raw.split("\r\n")
    # Where in the plain text a line end stands for two characters.
    wide: list[int] = []
    at = -1
    for piece in pieces[:-1]:
        at += len(piece) + 1
        wide.append(at)
    line_end = "\r\n" if len(wide) * 2 > raw.count("\n") else "\n"
    # From the end, so that offsets stay right.
    for edit in sorted(edits, reverse=True):
        start, end = (offset + bisect_left(wide, offset) for offset in (edit.start, edit.end))
        raw = raw[:start] + edit.text.replace("\n", line_end) + raw[end:]
    return mark + raw.encode(encoding)


def _encoding(data: bytes) -> tuple[str, bytes]:
    """How a file is encoded, and the mark at its beginning."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return ("utf-16-le" if data[:2] == b"\xff\xfe" else "utf-16-be"), data[:2]
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    return "utf-8", mark

"""The entries under mcpServers: each is checked by itself and becomes a ServerSpec. Does no I/O."""

import re
from typing import TYPE_CHECKING

from hearth.config.findings import SLIP_RATIO, nearest, unknown
from hearth.config.keys import SERVER_KEYS, SERVERS, SILENT_CLIENT_KEYS, URL_ALIASES
from hearth.config.model import ServerSpec
from hearth.config.values import BadValue, described

if TYPE_CHECKING:
    from hearth.config.document import KeyPath
    from hearth.config.loading import Examination

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def read_servers(examination: "Examination", table: object, key: str = SERVERS) -> dict[str, ServerSpec]:
    """Every usable entry, in the file's order; what is wrong goes to the examination."""
    if not isinstance(table, dict):
        examination.problem((key,), f"{key} must be a table of servers, not {described(table)}")
        return {}
    specs = {}
    for name, entry in table.items():
        reader = _EntryReader(examination, (key, name), name)
        if spec := reader.read(entry):
            specs[name] = spec
    return specs


class _EntryReader:
    """Reads one entry."""

    def __init__(self, examination: "Examination", path: "KeyPath", name: str) -> None:
        self.examination = examination
        self.path = path
        self.name = name
        self.values: dict[str, object] = {}
        self.failed = False

    def read(self, entry: object) -> ServerSpec | None:
        """The server, or None if it cannot be used."""
        self.check_name()
        if not isinstance(entry, dict):
            self.problem((), f"must be a table with a command or a url, not {described(entry)}")
            return None
        for key, value in entry.items():
            self.take(key, value, entry)
        if not self.failed:
            self.check_whole(entry)
        if self.failed:
            return None
        return ServerSpec(name=self.name, **self.values)  # type: ignore[arg-type]  # each was checked

    def check_name(self) -> None:
        if not self.name.strip():
            self.problem((), "needs a name")
        elif not _PLAIN_NAME.fullmatch(self.name):
            self.examination.warn(
                self.path,
                f"server {self.name!r}: letters, digits, '_' and '-' are safe in a name; tool names get '_' for the rest",
            )

    def take(self, key: str, value: object, entry: dict[str, object]) -> None:
        if self.examination.is_json and key in URL_ALIASES and "url" not in entry:
            key = "url"
        if key not in SERVER_KEYS:
            self.foreign(key)
            return
        try:
            self.values[key] = SERVER_KEYS[key].check(value)
        except BadValue as exc:
            self.problem((key, *exc.at), str(exc))

    def foreign(self, key: str) -> None:
        if not self.examination.is_json:
            self.unknown(key, nearest(key, SERVER_KEYS))
        elif key not in SILENT_CLIENT_KEYS:
            if slip := nearest(key, SERVER_KEYS, SLIP_RATIO):
                self.unknown(key, slip)
            else:
                self.examination.warn(
                    (*self.path, key), f"server {self.name!r}: {key!r} is not used by Hearth"
                )

    def unknown(self, key: str, suggestion: str | None) -> None:
        self.failed = True
        self.examination.problem((*self.path, key), f"server {self.name!r}: {unknown(key, suggestion)}")

    def check_whole(self, entry: dict[str, object]) -> None:
        has_command, has_url = "command" in self.values, "url" in self.values
        if has_command and has_url:
            self.problem(("url",), "has both a command and a url; remove one")
        elif not has_command and not has_url:
            self.problem((), "has neither a command nor a url")
        for key, owner in (("args", "command"), ("env", "command"), ("cwd", "command"), ("headers", "url")):
            if key in self.values and owner not in self.values and not self.failed and self.values[key]:
                self.examination.warn(
                    (*self.path, key), f"server {self.name!r}: {key!r} does nothing without {owner!r}"
                )

    def problem(self, at: "KeyPath", phrase: str) -> None:
        self.failed = True
        inner = ".".join(str(part) for part in at)
        subject = f"server {self.name!r}" + (f": {inner}" if inner else "")
        self.examination.problem((*self.path, *at), f"{subject} {phrase}")

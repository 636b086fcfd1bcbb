"""Defaults, then the file, then HEARTH_* variables, then flags: each overrides what came before it.

`load` is what the daemon calls; `examine` also keeps what was found wrong and where each value came from. The only
module of this package that does I/O: it reads one file.
"""

import errno
import os
import stat
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from hearth.config.keys import SERVERS, SERVERS_IN_VSCODE, SETTINGS, flag, variable
from hearth.config.model import Config, OwnerPolicy
from hearth.config.values import BadValue
from hearth.errors import ConfigError
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.config.document import Document, KeyPath

# ~/.claude.json grows to several MiB with its histories; what is far beyond is not a config file.
FILE_LIMIT_BYTES = 64 * 1024 * 1024
# Variables of Hearth that are no settings.
OTHER_VARIABLES = frozenset({"HEARTH_CONFIG", "HEARTH_PROFILE", "HEARTH_FAULTS"})

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})


def load(
    places: Places, environ: Mapping[str, str] = os.environ, flags: Mapping[str, object] = _NO_FLAGS
) -> Config:
    """The configuration in force; raises ConfigError with every problem at once."""
    found = examine(places, environ, flags)
    if found.problems:
        raise ConfigError(found.problems)
    return found.config


def examine(
    places: Places, environ: Mapping[str, str] = os.environ, flags: Mapping[str, object] = _NO_FLAGS
) -> "Examination":
    """Read everything and keep what was found, right and wrong; raises nothing."""
    found = Examination(places.config_file())
    try:
        found.read_file(is_named=places.config is not None)
    except ConfigError as exc:
        found.problems.extend(exc.problems)
    found.read_environment(environ)
    found.read_flags(flags)
    found.finish()
    return found


class Examination:
    """One reading of a configuration: the config as far as it is usable, the problems, the warnings, the origins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.document: Document | None = None
        self.config = Config(path=path)
        self._values: dict[str, object] = {"path": path}
        self._settings: dict[str, object] = {}
        self._origins: dict[str, str] = {}

    @property
    def is_json(self) -> bool:
        return self.document is not None and self.document.is_json

    def origin(self, key: str) -> str:
        """Where the value of a setting came from: `default`, `FILE:LINE`, a variable or a flag."""
        where = self._origins.get(key, "default")
        if where == "file" and self.document:
            return self.document.at(tuple(key.split(".")))
        return where

    def problem(self, key: "KeyPath", sentence: str) -> None:
        self.problems.append(self._placed(key, sentence))

    def warn(self, key: "KeyPath", sentence: str) -> None:
        self.warnings.append(self._placed(key, sentence))

    def _placed(self, key: "KeyPath", sentence: str) -> str:
        return f"{self.document.at(key) if self.document else self.path}: {sentence}"

    def read_file(self, is_named: bool) -> None:
        data = _read(self.path, is_named)
        if data is None:
            return
        import hashlib

        from hearth.config.document import parse

        self._values["hash"] = hashlib.blake2s(data).hexdigest()
        self.document = parse(self.path, data)
        self._take_tree(self.document.tree)

    def _take_tree(self, tree: Mapping[str, object]) -> None:
        servers_key = SERVERS
        if self.is_json and SERVERS not in tree and SERVERS_IN_VSCODE in tree:
            servers_key = SERVERS_IN_VSCODE
        if servers_key in tree:
            from hearth.config.servers import read_servers

            self._values["servers"] = MappingProxyType(read_servers(self, tree[servers_key], servers_key))
        elif self.is_json:
            self.warn((), f"there is no {SERVERS!r} in this file")
        for key, value in tree.items():
            if key == "owner":
                self._take_owner(value)
            elif key != servers_key:
                self._take_setting(key, value, SETTINGS)

    def _take_owner(self, table: object) -> None:
        if not isinstance(table, dict):
            self.problem(("owner",), 'owner must be a table, such as owner = { approve = "never" }')
            return
        for key, value in table.items():
            self._take_setting(f"owner.{key}", value, ["owner.approve"])

    def _take_setting(self, key: str, value: object, known: "Mapping[str, object] | list[str]") -> None:
        path = tuple(key.split(".", 1)) if key.startswith("owner.") else (key,)
        if key in known:
            try:
                self._keep(key, SETTINGS[key].check(value), "file")
            except BadValue as exc:
                self.problem((*path, *exc.at), f"{key} {exc}")
            return
        from hearth.config.findings import SLIP_RATIO, SUGGEST_RATIO, nearest, unknown

        ratio = SLIP_RATIO if self.is_json else SUGGEST_RATIO
        suggestion = nearest(path[-1], [*known, SERVERS, "owner"] if len(path) == 1 else known, ratio)
        if suggestion or not self.is_json:
            self.problem(path, unknown(key, suggestion))

    def read_environment(self, environ: Mapping[str, str]) -> None:
        names = {variable(key): key for key in SETTINGS}
        for name in environ:
            if not name.startswith("HEARTH_") or name in OTHER_VARIABLES or not environ[name]:
                continue
            if name in names:
                self._take_text(names[name], environ[name], name)
                continue
            from hearth.config.findings import SLIP_RATIO, nearest

            if suggestion := nearest(name, names, SLIP_RATIO):
                self.warnings.append(f"the variable {name} is not known; did you mean {suggestion}?")

    def read_flags(self, flags: Mapping[str, object]) -> None:
        for key, value in flags.items():
            if value is None:
                continue
            if key not in SETTINGS:
                self.problems.append(f"{flag(key)}: is not a setting")
            elif isinstance(value, str):
                self._take_text(key, value, flag(key))
            else:
                self._take_value(key, value, flag(key))

    def _take_text(self, key: str, text: str, origin: str) -> None:
        self._take_value(key, SETTINGS[key].from_text(text), origin)

    def _take_value(self, key: str, value: object, origin: str) -> None:
        try:
            self._keep(key, SETTINGS[key].check(value), origin)
        except BadValue as exc:
            self.problems.append(f"{origin} {exc}")

    def _keep(self, key: str, value: object, origin: str) -> None:
        self._settings[key] = value
        self._origins[key] = origin

    def finish(self) -> None:
        """Put the config together."""
        values = {**self._values, **self._settings}
        if (approve := values.pop("owner.approve", None)) is not None:
            values["owner"] = OwnerPolicy(approve=approve)  # type: ignore[arg-type]  # was checked
        self.config = Config(**values, warnings=tuple(self.warnings))  # type: ignore[arg-type]  # each was checked


def _read(path: str, is_named: bool) -> bytes | None:
    """The file's bytes; None if there is none and nobody asked for it by name."""
    # Not blocking: a named pipe without a writer would hold the daemon for ever.
    flags = (
        os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    )
    try:
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError([f"{path}: is not a file; name a TOML or JSON file"])
            data = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as exc:
        if exc.errno in (errno.ENOENT, errno.ENOTDIR) and not is_named:
            return None
        raise ConfigError([f"{path}: cannot be read: {(exc.strerror or str(exc)).lower()}"]) from exc
    if len(data) > FILE_LIMIT_BYTES:
        raise ConfigError([f"{path}: is larger than {FILE_LIMIT_BYTES} bytes, too large for a config file"])
    return data

"""Layers of a configuration: a file's bytes, then HEARTH_* variables, then flags; later layers win.

Does no I/O. Not loaded when there is nothing to read, for the sake of the daemon's cold start.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hearth.config import schema
from hearth.config.model import AgentSettings, Config, KeyPath, OwnerPolicy, ServerSpec, TeamSettings, pack_spec
from hearth.config.value_kinds import BadValue, described

if TYPE_CHECKING:
    from hearth.config.document import Document

# Variables of Hearth that are not settings.
OTHER_VARIABLES = frozenset(
    {"HEARTH_CONFIG", "HEARTH_PROFILE", "HEARTH_SOCKET", "HEARTH_FAULTS", "HEARTH_AGENT", "HEARTH_SERVER"}
)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# Records of the tables in schema.TABLES.
_TABLES: dict[str, Callable[..., object]] = {"owner": OwnerPolicy, "agents": AgentSettings, "team": TeamSettings}
# Keys that apply to one kind of server only.
_NEEDS = {
    **dict.fromkeys(("args", "env", "cwd", "memory_max", "cpu_weight"), "command"),
    **dict.fromkeys(("headers", "transport", "oauth"), "url"),
}


class Examination:
    """Examination of one configuration: the config as far as it is usable, its problems, and the values' origins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[str] = []
        self.warnings: list[str] = []
        self.document: Document | None = None
        self.config = Config(path=path)
        self._servers_key = schema.SERVERS
        self._values: dict[str, object] = {"path": path}
        self._settings: dict[str, object] = {}
        self._origins: dict[str, str] = {}

    @property
    def is_json(self) -> bool:
        """Whether the file may be another client's, with keys that are not meant for Hearth."""
        return self.document is not None and self.document.is_json

    def origin(self, setting: str) -> str:
        """Return the origin of a setting's value: `default`, `FILE:LINE`, a variable or a flag."""
        origin = self._origins.get(setting, "default")
        return self._place(schema.path_of(setting)) if origin == "file" else origin

    def server_origin(self, name: str) -> str:
        """Return `FILE:LINE` of a server's entry."""
        return self._place((self._servers_key, name))

    def problem(self, key: KeyPath, sentence: str) -> None:
        """Add a problem, which makes the file unusable."""
        self.problems.append(f"{self._place(key)}: {sentence}")

    def warn(self, key: KeyPath, sentence: str) -> None:
        """Add a warning about the file."""
        self.warnings.append(f"{self._place(key)}: {sentence}")

    def _place(self, key: KeyPath) -> str:
        return self.document.at(key) if self.document else self.path

    def read_file(self, data: bytes) -> None:
        """Take the values of the file. Raises ConfigError if it cannot be parsed at all."""
        # Not hashlib: it loads OpenSSL, 4 MB that the daemon would carry for one hash.
        from _blake2 import blake2s

        from hearth.config.document import parse

        self._values["hash"] = blake2s(data).hexdigest()
        self.document = parse(self.path, data)
        tree = self.document.tree
        if self.is_json and schema.SERVERS not in tree:
            if schema.SERVERS_IN_VSCODE in tree:
                self._servers_key = schema.SERVERS_IN_VSCODE
            else:
                self.warn((), f"there is no {schema.SERVERS} in this file, hence no server")
        for key, value in tree.items():
            if key == self._servers_key:
                self._values["servers"] = MappingProxyType(_read_servers(self, key, value))
            elif key == schema.PACKS_KEY:
                self._take_packs(value)
            elif key in schema.TABLES:
                self._take_table(key, value)
            else:
                self._take_setting((key,), value)

    def warn_of_repeated_keys(self) -> None:
        """Warn of equal keys in JSON: all but the last are lost. Only people need this check, so no start runs it."""
        if self.document is None:
            return
        entries = [(self._servers_key, name) for name in self.config.servers]
        entries += [(schema.PACKS_KEY, name) for name in self.config.packs]
        for path in ((), (self._servers_key,), (schema.PACKS_KEY,), *entries):
            for key in self.document.repeated_keys(path):
                self.warn((*path, key), f"key {key!r} is written more than once; only the last one counts")

    def _take_packs(self, table: object) -> None:
        if not isinstance(table, dict):
            self.problem((schema.PACKS_KEY,), f"{schema.PACKS_KEY} must be a table of packs, not {described(table)}")
            return
        found = {name: self._read_pack(name, entry) for name, entry in table.items()}
        self._values[schema.PACKS_KEY] = MappingProxyType({name: spec for name, spec in found.items() if spec})

    def _read_pack(self, name: str, entry: object) -> ServerSpec | None:
        if name not in schema.PACKS:
            near = schema.nearest(name, schema.PACKS)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(schema.PACKS)}"
            self.problem((schema.PACKS_KEY, name), f"pack {name!r} is not known; {hint}")
            return None
        if not isinstance(entry, dict):
            self.problem(
                (schema.PACKS_KEY, name), f"pack {name!r} must be a table with enabled in it, not {described(entry)}"
            )
            return None
        values: dict[str, object] = {}
        for key, value in entry.items():
            at = (schema.PACKS_KEY, name, key)
            if key not in schema.PACK_KEYS:
                self.problem(at, f"pack {name!r}: {schema.unknown(key, schema.nearest(key, schema.PACK_KEYS))}")
                continue
            try:
                values[key] = schema.PACK_KEYS[key].check(value)
            except BadValue as exc:
                self.problem((*at, *exc.at), f"pack {name!r}: {key} {exc}")
        return pack_spec(name, **values)

    def _refuse_equal_names(self) -> None:
        """Refuse a server with the name of an enabled pack: its tools would have the same names."""
        for name, spec in self.config.packs.items():
            if not spec.disabled and name in self.config.servers:
                pack = self._place((schema.PACKS_KEY, name))
                self.problem(
                    (self._servers_key, name),
                    f"server {name!r} has the name of the pack {name!r} that is on ({pack}); rename the server, or"
                    f" set `enabled = false` for the pack",
                )

    def _take_table(self, key: str, table: object) -> None:
        if not isinstance(table, dict):
            # Another client may have something else under that name.
            if not self.is_json or key not in schema.SHARED_TABLES:
                self.problem((key,), f"{key} must be a table, not {described(table)}")
            return
        for inner, value in table.items():
            if f"{key}.{inner}" == schema.PROVIDERS:
                self._take_providers(value)
            else:
                self._take_setting((key, inner), value)

    def _take_providers(self, table: object) -> None:
        path = schema.path_of(schema.PROVIDERS)
        if not isinstance(table, dict):
            self.problem(path, f"{schema.PROVIDERS} must be a table of providers, not {described(table)}")
            return
        found: dict[str, object] = {}
        for name, entry in table.items():
            try:
                found[name] = schema.PROVIDER.check(entry)
            except BadValue as exc:
                inner = "".join(f" {part}" for part in exc.at)
                self.problem((*path, name, *exc.at), f"provider {name!r}:{inner} {exc}")
        self._settings[schema.PROVIDERS] = MappingProxyType(found)

    def _take_setting(self, path: KeyPath, value: object) -> None:
        name = ".".join(map(str, path))
        if name not in schema.SETTINGS or path != schema.path_of(name):
            self._refuse_unknown(path)
            return
        try:
            self._keep(name, schema.SETTINGS[name].check(value), "file")
        except BadValue as exc:
            if self.is_json and name in schema.SHARED_SETTINGS and not isinstance(value, str):
                return
            self.problem((*path, *exc.at), f"{name} {exc}")

    def _refuse_unknown(self, path: KeyPath) -> None:
        name = ".".join(map(str, path))
        if name in schema.SETTINGS:  # a dot inside the key itself
            table, inner = schema.path_of(name)
            self.problem(path, f"key {name!r} is not known; write {inner!r} inside the table {table!r}")
            return
        known = [schema.SERVERS, schema.PACKS_KEY, *schema.TABLES, *schema.SETTINGS]
        suggestion = schema.nearest(name, known, schema.SLIP_RATIO if self.is_json else schema.SUGGESTION_RATIO)
        if not self.is_json or (suggestion and name not in schema.CLIENT_SETTINGS):
            self.problem(path, schema.unknown(name, suggestion))

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Take the HEARTH_* variables; an empty one counts as not set."""
        names = {schema.variable_of(setting): setting for setting in schema.SETTINGS}
        for variable in environ:
            if not variable.startswith("HEARTH_") or variable in OTHER_VARIABLES or not environ[variable]:
                continue
            if variable in names:
                self._take_value(names[variable], environ[variable], variable)
            elif suggestion := schema.nearest(variable, names, schema.SLIP_RATIO):
                self.warnings.append(f"the variable {variable} is not known; did you mean {suggestion}?")

    def read_flags(self, flags: Mapping[str, object]) -> None:
        """Take the flags of a command line, by the settings' names; None means not given."""
        for setting, value in flags.items():
            if value is not None and setting not in schema.SETTINGS:
                self.problems.append(f"{schema.flag_of(setting)} is not a setting")
            elif value is not None:
                self._take_value(setting, value, schema.flag_of(setting))

    def _take_value(self, setting: str, value: object, origin: str) -> None:
        kind = schema.SETTINGS[setting]
        try:
            self._keep(setting, kind.check(kind.from_text(value) if isinstance(value, str) else value), origin)
        except BadValue as exc:
            self.problems.append(f"{origin} {exc}")

    def _keep(self, setting: str, value: object, origin: str) -> None:
        self._settings[setting] = value
        self._origins[setting] = origin

    def finish(self) -> None:
        """Build the config from the layers."""
        values = {**self._values, **self._settings, "warnings": tuple(self.warnings)}
        for table, record in _TABLES.items():
            inner = {key: values.pop(key) for key in [*values] if key.startswith(f"{table}.")}
            values[table] = record(**{key.removeprefix(f"{table}."): value for key, value in inner.items()})
        self.config = Config(**values)  # type: ignore[arg-type]  # each was checked
        self._refuse_equal_names()


# --- servers


def _read_servers(examination: Examination, key: str, table: object) -> dict[str, ServerSpec]:
    """Return the usable entries, in the file's order; report problems to the examination."""
    if not isinstance(table, dict):
        examination.problem((key,), f"{key} must be a table of servers, not {described(table)}")
        return {}
    specs = [_EntryReader(examination, (key, name), name).read(entry) for name, entry in table.items()]
    return {spec.name: spec for spec in specs if spec}


class _EntryReader:
    """Reader of one entry."""

    def __init__(self, examination: Examination, path: KeyPath, name: str) -> None:
        self.name = name
        self._examination = examination
        self._path = path
        self._values: dict[str, object] = {}
        self._spoken = "auto"  # the transport in another client's words
        self._failed = False

    def read(self, entry: object) -> ServerSpec | None:
        """Return the server, or None if it cannot be used."""
        if not self.name.strip():
            self._problem((), "needs a name")
        elif not _PLAIN.issuperset(self.name):
            self._warn((), "has characters in its name that tools' names get '_' for; use letters, digits, '_', '-'")
        if not isinstance(entry, dict):
            self._problem((), f"must be a table with a command or a url, not {described(entry)}")
            return None
        for key, value in entry.items():
            self._take(key, value, has_url="url" in entry)
        if "url" in self._values:
            self._values.setdefault("transport", self._spoken)
        if not self._failed:
            self._check_whole()
        if self._failed:
            return None
        return ServerSpec(name=self.name, **self._values)  # type: ignore[arg-type]  # each was checked

    def _take(self, key: str, value: object, has_url: bool) -> None:
        is_json = self._examination.is_json
        name = "url" if is_json and key in schema.URL_ALIASES and not has_url else key
        if is_json and key in ("transport", *schema.TRANSPORT_ALIASES):
            self._take_transport(key, value)
        elif name not in schema.SERVER_KEYS:
            self._foreign(key)
        elif value is not None or not is_json:  # some clients write null for an unset key
            try:
                is_foreign = is_json and key == "oauth" and isinstance(value, dict)
                self._values[name] = schema.SERVER_KEYS[name].check(self._own_oauth(value) if is_foreign else value)
            except BadValue as exc:
                self._problem((key, *exc.at), f"{exc}")

    def _own_oauth(self, value: Any) -> dict[str, object]:
        """Return another client's table with Hearth's key names; drop keys that Hearth does not have."""
        found = {schema.OAUTH_ALIASES.get(key, key): item for key, item in value.items() if item is not None}
        for key in found.keys() - schema.OAUTH_KEYS.keys():
            self._warn(("oauth", key), "is another client's and is ignored")
            del found[key]
        return found

    def _take_transport(self, key: str, value: object) -> None:
        """Take Hearth's own value under its own key; translate any other, which is another client's."""
        word = value.lower().replace("-", "").replace("_", "") if isinstance(value, str) else ""
        if key == "transport" and value in schema.TRANSPORTS:
            self._values[key] = value
        elif word in schema.CLIENT_TRANSPORTS:
            self._spoken = schema.CLIENT_TRANSPORTS[word]
        elif value is not None:
            self._warn((key,), "is not a transport that Hearth has, and is ignored")

    def _foreign(self, key: str) -> None:
        is_json = self._examination.is_json
        if is_json and key in schema.SILENT_CLIENT_KEYS:
            return
        suggestion = schema.nearest(key, schema.SERVER_KEYS, schema.SLIP_RATIO if is_json else schema.SUGGESTION_RATIO)
        if suggestion or not is_json:
            self._failed = True
            self._examination.problem((*self._path, key), f"server {self.name!r}: {schema.unknown(key, suggestion)}")
        else:
            self._warn((key,), "is another client's and is ignored")

    def _check_whole(self) -> None:
        if "command" in self._values and "url" in self._values:
            self._problem((), "has both a command and a url; remove one of them")
        elif "command" not in self._values and "url" not in self._values:
            self._problem((), "has neither a command nor a url; give it one of them")
        else:
            self._warn_of_what_does_nothing()

    def _warn_of_what_does_nothing(self) -> None:
        for key, needed in _NEEDS.items():
            if self._values.get(key) and needed not in self._values:
                self._warn((key,), f"does nothing without a {needed}")
        cwd = self._values.get("cwd")
        is_relative = isinstance(cwd, str) and not cwd.startswith(("/", "~", "${")) and cwd[1:2] != ":"
        # With any other isolation, the path is relative to the folder of the client.
        if is_relative and self._values.get("isolation") == "shared":
            self._warn(("cwd",), "is relative, so it is taken from your home folder; write the whole path")

    def _problem(self, at: KeyPath, phrase: str) -> None:
        self._failed = True
        self._examination.problem((*self._path, *at), f"{self._subject(at)} {phrase}")

    def _warn(self, at: KeyPath, phrase: str) -> None:
        self._examination.warn((*self._path, *at), f"{self._subject(at)} {phrase}")

    def _subject(self, at: KeyPath) -> str:
        inner = ".".join(str(part) for part in at)
        return f"server {self.name!r}" + (f": {inner}" if inner else "")

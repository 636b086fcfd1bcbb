"""Reader of the entries under mcpServers: each is checked separately and becomes a ServerSpec. Does no I/O."""

from typing import TYPE_CHECKING, Any

from hearth.config.model import KeyPath, ServerSpec
from hearth.config.schema import (
    CLIENT_TRANSPORTS,
    OAUTH_ALIASES,
    OAUTH_KEYS,
    SERVER_KEYS,
    SILENT_CLIENT_KEYS,
    TRANSPORT_ALIASES,
    TRANSPORTS,
    URL_ALIASES,
)
from hearth.config.value_kinds import BadValue, described

if TYPE_CHECKING:
    from hearth.config.layers import Examination

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
# Keys that apply to one kind of server only.
_NEEDS = {
    "args": "command",
    "env": "command",
    "cwd": "command",
    "memory_max": "command",
    "cpu_weight": "command",
    "headers": "url",
    "transport": "url",
    "oauth": "url",
}


def read_servers(examination: "Examination", key: str, table: object) -> dict[str, ServerSpec]:
    """Return the usable entries, in the file's order; report problems to the examination."""
    if not isinstance(table, dict):
        examination.problem((key,), f"{key} must be a table of servers, not {described(table)}")
        return {}
    readers = [_EntryReader(examination, (key, name), name) for name in table]
    specs = [reader.read(table[reader.name]) for reader in readers]
    return {spec.name: spec for spec in specs if spec}


class _EntryReader:
    """Reader of one entry."""

    def __init__(self, examination: "Examination", path: KeyPath, name: str) -> None:
        self.name = name
        self._examination = examination
        self._path = path
        self._values: dict[str, object] = {}
        self._spoken = "auto"  # the transport in another client's words
        self._failed = False

    def read(self, entry: object) -> ServerSpec | None:
        """Return the server, or None if it cannot be used."""
        self._check_name()
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

    def _check_name(self) -> None:
        if not self.name.strip():
            self._problem((), "needs a name")
        elif not _PLAIN.issuperset(self.name):
            self._warn((), "has characters in its name that tools' names get '_' for; use letters, digits, '_', '-'")

    def _take(self, key: str, value: object, has_url: bool) -> None:
        is_json = self._examination.is_json
        name = "url" if is_json and key in URL_ALIASES and not has_url else key
        if is_json and key in ("transport", *TRANSPORT_ALIASES):
            self._take_transport(key, value)
        elif name not in SERVER_KEYS:
            self._foreign(key)
        elif value is not None or not is_json:  # some clients write null for an unset key
            try:
                is_foreign = is_json and key == "oauth" and isinstance(value, dict)
                self._values[name] = SERVER_KEYS[name].check(self._own_oauth(value) if is_foreign else value)
            except BadValue as exc:
                self._problem((key, *exc.at), f"{exc}")

    def _own_oauth(self, value: Any) -> dict[str, object]:
        """Return another client's table with Hearth's key names; drop keys that Hearth does not have."""
        found = {OAUTH_ALIASES.get(key, key): item for key, item in value.items() if item is not None}
        for key in found.keys() - OAUTH_KEYS.keys():
            self._warn(("oauth", key), "is another client's and is ignored")
            del found[key]
        return found

    def _take_transport(self, key: str, value: object) -> None:
        """Take Hearth's own value under its own key; translate any other, which is another client's."""
        word = value.lower().replace("-", "").replace("_", "") if isinstance(value, str) else ""
        if key == "transport" and value in TRANSPORTS:
            self._values[key] = value
        elif word in CLIENT_TRANSPORTS:
            self._spoken = CLIENT_TRANSPORTS[word]
        elif value is not None:
            self._warn((key,), "is not a transport that Hearth has, and is ignored")

    def _foreign(self, key: str) -> None:
        from hearth.config.spelling import SLIP_RATIO, SUGGESTION_RATIO, nearest, unknown

        is_json = self._examination.is_json
        if is_json and key in SILENT_CLIENT_KEYS:
            return
        suggestion = nearest(key, SERVER_KEYS, SLIP_RATIO if is_json else SUGGESTION_RATIO)
        if suggestion or not is_json:
            self._failed = True
            self._examination.problem((*self._path, key), f"server {self.name!r}: {unknown(key, suggestion)}")
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

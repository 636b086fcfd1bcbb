"""Formats of clients' entries: reading one into Hearth's keys, and writing a bridge as each client expects it. No I/O.

References such as `${env:X}`, `$X` or `{env:X}` stay as they are: the importer resolves them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hearth.config.schema import CLIENT_TRANSPORTS, OAUTH_ALIASES, OAUTH_KEYS

Entry = Mapping[str, Any]

_NOT_AN_OBJECT = "is not a table of settings"
_BRIDGE_FILE = re.compile(r"(?:^|[\\/])hearth[\\/]bridge[\\/]main\.pyc?$")
_LAUNCHER = re.compile(r"(?:^|[\\/])(?:mcp-)?hearth[\\/]hearth-bridge$")
_PROGRAM = re.compile(r"(?:^|[\\/])hearth(?:\.exe)?$", re.IGNORECASE)


class Reading(NamedTuple):
    """Parsed entry of a client."""

    entry: dict[str, Any]  # with Hearth's keys: command, args, env, cwd; url, headers, transport, oauth
    disabled: bool
    bridge_to: str | None  # "" for the whole hub, a name for `--server NAME`, None: not a bridge of ours
    notes: list[str]  # phrases on settings that were not understood


class Dialect(NamedTuple):
    """Keys of one client's format, where they differ from the usual ones."""

    # Keys of a bridge's entry besides command and arguments.
    stdio: Entry = {}  # noqa: RUF012
    has_list: bool = False  # `command` is a list that includes the arguments
    env: str = "env"
    headers: str = "headers"
    urls: tuple[str, ...] = ("url",)


DIALECTS = {
    "plain": Dialect(),
    "claude-code": Dialect(stdio={"type": "stdio"}),
    "cursor": Dialect(),
    "gemini": Dialect(urls=("httpUrl", "url")),
    "vscode": Dialect(stdio={"type": "stdio"}),
    "windsurf": Dialect(urls=("serverUrl", "url")),
    "zed": Dialect(stdio={"source": "custom"}),
    "opencode": Dialect(stdio={"type": "local"}, has_list=True, env="environment"),
    "cline": Dialect(),
    "codex": Dialect(headers="http_headers"),
}

# Settings of the client that do not depend on what the server is: they apply to the bridge in its place, too.
KEPT = frozenset(
    {
        *("disabled", "enabled", "required", "timeout", "name", "description", "icon", "gallery", "version"),
        *("autoApprove", "alwaysAllow", "trust", "includeTools", "excludeTools", "disabledTools", "alwaysLoad"),
        *("enabled_tools", "disabled_tools", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
        *("tools", "default_tools_approval_mode", "supports_parallel_tool_calls"),
    }
)
# Keys that are understood and that Hearth does not need.
_SILENT = KEPT | {"type", "transport", "transportType", "source", "settings"}


def read(dialect: str, raw: object) -> Reading:
    """Parse an entry. Raises nothing: invalid settings are noted."""
    if not isinstance(raw, dict):
        return Reading({}, False, None, [_NOT_AN_OBJECT])
    reader = _Reader(DIALECTS[dialect], raw)
    reader.read(dialect)
    disabled = raw.get("disabled") is True or raw.get("enabled") is False
    return Reading(reader.entry, disabled, bridge_to(reader.entry), reader.notes)


def is_disabled_beside(dialect: str, tree: Entry, keys: Sequence[str], name: str) -> bool:
    """Tell whether another part of the same file disables that server."""
    if dialect == "gemini":
        settings = tree.get("mcp")
        excluded = settings.get("excluded") if isinstance(settings, dict) else None
        return name in _list(excluded) or name in _list(tree.get("excludeMCPServers"))
    if dialect == "claude-code" and len(keys) == 3:
        project = tree.get(keys[0], {}).get(keys[1], {})
        return isinstance(project, dict) and name in _list(project.get("disabledMcpServers"))
    return False


def bridge_to(entry: Entry) -> str | None:
    """Return the server that a bridge of Hearth's connects to, "" for all servers; None if the entry is no bridge."""
    arguments = entry.get("args")
    words = [word for word in (entry.get("command"), *_list(arguments)) if isinstance(word, str)]
    for number, word in enumerate(words):
        is_program = _PROGRAM.search(word) and words[number + 1 : number + 2] == ["bridge"]
        if is_program or _BRIDGE_FILE.search(word) or _LAUNCHER.search(word):
            return _server_among(words[number + 1 :])
    return None


def _server_among(words: list[str]) -> str:
    for number, word in enumerate(words):
        if word == "--server":
            return (words[number + 1 :] or [""])[0]
        if word.startswith("--server="):
            return word.removeprefix("--server=")
    return ""


def bridge(dialect: str, command: Sequence[str], former: Entry | None = None) -> dict[str, Any]:
    """Return the entry of a bridge.

    A bridge in place of a former entry keeps the settings of that entry that are meant for the client.
    """
    words = DIALECTS[dialect]
    entry = {**words.stdio}
    if words.has_list:
        entry["command"] = list(command)
    else:
        entry |= {"command": command[0], "args": list(command[1:])}
    return entry | {key: value for key, value in (former or {}).items() if key in KEPT and _is_plain(value)}


class _Reader:
    """Reader of one entry, key by key."""

    def __init__(self, words: Dialect, raw: dict[str, Any]) -> None:
        self._words = words
        self._raw = raw
        self._taken: set[str] = set()
        self.entry: dict[str, Any] = {}
        self.notes: list[str] = []

    def read(self, dialect: str) -> None:
        self._take_command()
        if "command" in self.entry:
            self._take("args", "args", list)
            self._take(self._words.env, "env", dict)
            self._take("cwd", "cwd", str)
            self._take("workingDirectory", "cwd", str)
        else:
            self._take_url()
        if dialect == "codex":
            self._take_codex()
        if "command" not in self.entry and "url" not in self.entry:
            is_extension = self._raw.get("source") == "extension" or "settings" in self._raw
            self.notes.append(
                "is started by an extension of the client, not by a command" if is_extension
                else "has neither a command nor a url"
            )  # fmt: skip
        unknown = [key for key in self._raw if key not in self._taken | _SILENT and self._raw[key] is not None]
        self.notes += [f"{key!r} means nothing to Hearth" for key in unknown]

    def _take(self, key: str, name: str, kind: type) -> None:
        value = self._raw.get(key)
        self._taken.add(key)
        if isinstance(value, kind):
            if value or kind is str:
                self.entry.setdefault(name, value)
        elif value is not None:
            self.notes.append(f"{key!r} is not what it should be")

    def _take_command(self) -> None:
        command = self._raw.get("command")
        self._taken.add("command")
        if isinstance(command, dict):  # earlier versions of Zed
            self.entry |= {
                name: command[key] for key, name in (("path", "command"), ("args", "args"), ("env", "env"))
                if command.get(key)
            }  # fmt: skip
        elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
            self.entry["command"] = command[0]
            if command[1:]:
                self.entry["args"] = command[1:]
        elif isinstance(command, str) and command:
            self.entry["command"] = command
        elif command is not None:
            self.notes.append("'command' is not what it should be")

    def _take_url(self) -> None:
        for key in self._words.urls:
            self._take(key, "url", str)
        if "url" not in self.entry:
            return
        self._take(self._words.headers, "headers", dict)
        request = self._raw.get("requestInit")
        if isinstance(request, dict) and request.keys() == {"headers"} and isinstance(request["headers"], dict):
            self._taken.add("requestInit")
            self.entry.setdefault("headers", request["headers"])
        word = next((self._raw[key] for key in ("type", "transport", "transportType") if self._raw.get(key)), "")
        spoken = CLIENT_TRANSPORTS.get(str(word).lower().replace("-", "").replace("_", ""), "auto")
        if "httpUrl" in self._raw:
            spoken = "http"
        if spoken != "auto":
            self.entry["transport"] = spoken
        self._take_oauth()

    def _take_oauth(self) -> None:
        oauth = self._raw.get("oauth")
        if not isinstance(oauth, dict):
            return
        self._taken.add("oauth")
        found = {OAUTH_ALIASES.get(key, key): value for key, value in oauth.items() if value is not None}
        if isinstance(found.get("scope"), str):
            found.setdefault("scopes", found.pop("scope").split())
        known = {key: value for key, value in found.items() if key in OAUTH_KEYS}
        if known:
            self.entry["oauth"] = known
        unknown = [key for key in oauth if OAUTH_ALIASES.get(key, key) not in {*OAUTH_KEYS, "scope", "enabled"}]
        self.notes += [f"'oauth.{key}' means nothing to Hearth" for key in unknown]

    def _take_codex(self) -> None:
        """Turn the variables that Codex passes on or sends by name into references."""
        headers = dict(self.entry.get("headers", {}))
        named = self._raw.get("env_http_headers")
        for name, variable in (named if isinstance(named, dict) else {}).items():
            headers[name] = f"${{{variable}}}"
        if variable := self._raw.get("bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{{variable}}}"
        if headers:
            self.entry["headers"] = headers
        variables = dict(self.entry.get("env", {}))
        for item in _list(self._raw.get("env_vars")):
            name = item.get("name") if isinstance(item, dict) else item
            variables.setdefault(str(name), f"${{{name}}}")
        if variables:
            self.entry["env"] = variables
        self._taken |= {"env_http_headers", "bearer_token_env_var", "env_vars"}


def _is_plain(value: object) -> bool:
    """Tell whether a value exists in JSON. TOML has dates as well, which no client uses here."""
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

"""Conversion of one client entry: resolve references, separate secrets, bind a project's server to its folder.

The identity of a draft decides whether two entries mean the same server, whatever their names and files. Pure, except
for the functions passed in to look at the machine.
"""

import itertools
import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hearth import secret_patterns
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import placeholders
from hearth.clients.importer.placeholders import (
    ANY,
    SYNTAXES,
    VARIABLES,
    ImportEnvironment,
    Kept,
    Reader,
    Secret,
    Syntax,
    Text,
    UnusablePlaceholder,
    plain,
    revealed,
    written,
)
from hearth.config.model import ServerSpec
from hearth.mcp import isolation
from hearth.mcp.packages import base

# Returns the variables in a file that an entry names, or a sentence on why there are none.
EnvFile = Callable[[str], Mapping[str, str] | str]
# Returns the full path of a command, given the PATH and folder that the entry sets; None if no such program exists.
Program = Callable[[str, str | None, str | None], str | None]

# For each client: its timeout settings, Hearth's setting for each, and the number of units per second.
_TIMEOUTS: dict[str, dict[str, tuple[str, float]]] = {
    "codex": {
        "startup_timeout_sec": ("start_timeout", 1),
        "startup_timeout_ms": ("start_timeout", 1000),
        "tool_timeout_sec": ("call_timeout", 1),
    },
    "gemini": {"timeout": ("call_timeout", 1000)},
    "claude-code": {"timeout": ("call_timeout", 1000)},
    "cline": {"timeout": ("call_timeout", 1)},
    "opencode": {"timeout": ("start_timeout", 1000)},
}
# Settings from which the client makes credentials; without these, the server would refuse.
_ESSENTIAL = ("headersHelper", "authProviderType", "auth")
# Programs that pass on a variable given by its name, and their options for that.
_CONTAINERS = ("docker", "podman", "nerdctl")
_HANDING_ON = ("-e", "--env")
_ABSOLUTE = re.compile(r"[/~\\]|[A-Za-z]:[/\\]")

_NPX_YES = frozenset({"-y", "--yes"})
_AUTHORITY = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^/?#@]*@)?(?P<host>[^/?#]*)")
_NONE: Mapping[str, Text] = MappingProxyType({})

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_KEYRING = "keyring:"


class Parts(NamedTuple):
    """Parts of an entry that its server sees."""

    command: Text | None = None
    args: Sequence[Text] = ()
    env: Mapping[str, Text] = _NONE
    cwd: Text | None = None
    url: Text | None = None
    headers: Mapping[str, Text] = _NONE
    oauth: Mapping[str, Text] = _NONE
    scopes: tuple[str, ...] = ()


class Draft(NamedTuple):
    """Result of reading one entry."""

    found: ClientServer
    parts: Parts
    transport: str | None
    timeouts: dict[str, float]
    mode: isolation.Mode
    reason: str
    notes: list[str]

    @property
    def depends_on_folder(self) -> bool:
        """Whether the entry would mean another server in another folder, as far as can be told."""
        return self.reason != isolation.OF_A_PROJECT and self.mode != isolation.SHARED


def draft(found: ClientServer, surroundings: ImportEnvironment, env_file: EnvFile, program: Program) -> Draft:
    """Read an entry. Raises UnusablePlaceholder if the entry cannot be imported."""
    return _Drafting(found, surroundings, env_file, program).draft()


class _Drafting:
    """Reader of one entry."""

    def __init__(
        self, found: ClientServer, surroundings: ImportEnvironment, env_file: EnvFile, program: Program
    ) -> None:
        self._found = found
        self._env_file = env_file
        self._program = program
        self._reader = Reader(found.table, surroundings)
        self._syntax = SYNTAXES.get(found.table.client, Syntax())
        if found.table.client == "file":
            self._syntax = ANY
        self._notes = [note for note in found.notes if not note.startswith("'envFile'")]

    def draft(self) -> Draft:
        entry = self._found.entry
        if not entry.get("command") and not entry.get("url"):
            raise UnusablePlaceholder("; ".join(self._found.notes) or "has neither a command nor a url")
        for key in _ESSENTIAL:
            if self._found.raw.get(key):
                raise UnusablePlaceholder(f"needs its {key!r}, which only the client knows how to use")
        parts = self._of_command(entry) if entry.get("command") else self._of_url(entry)
        mode, reason = _isolation(parts, self._found.table.folder is not None)
        notes = [*self._notes, *self._reader.notes, *map(_unset, dict.fromkeys(self._reader.unset))]
        # The isolation follows from the command as written: a relative command depends on its folder.
        return Draft(self._found, self._resolved(parts), entry.get("transport"), self._timeouts(), mode, reason, notes)

    def _resolved(self, parts: Parts) -> Parts:
        """Return the parts with the command's full path, because the daemon's PATH may differ from the client's."""
        command = plain(parts.command or ())
        if not command:
            return parts
        search_path, folder = plain(parts.env.get("PATH", ())), plain(parts.cwd or ())
        path = self._program(command, search_path or None, folder or None)
        return parts if path is None else parts._replace(command=(path,))

    def _of_command(self, entry: Mapping[str, Any]) -> Parts:
        args = [self._text(value, f"args {number}") for number, value in enumerate(entry.get("args") or [])]
        return Parts(
            command=self._text(entry["command"], "command"),
            args=placeholders.arguments(args),
            env={name: placeholders.named(name, text) for name, text in self._variables(entry).items()},
            cwd=self._cwd(entry.get("cwd")),
        )

    def _of_url(self, entry: Mapping[str, Any]) -> Parts:
        headers = {
            name: placeholders.header(name, self._text(value, f"headers.{name}", self._syntax_of_header(name)))
            for name, value in (entry.get("headers") or {}).items()
        }
        url = placeholders.url(self._text(entry["url"], "url"))
        oauth = {name: value for name, value in (entry.get("oauth") or {}).items() if name != "scopes"}
        return Parts(
            url=url,
            headers=headers,
            oauth={
                name: placeholders.named(f"oauth-{name}", self._text(value, f"oauth.{name}"))
                for name, value in oauth.items()
            },
            scopes=tuple((entry.get("oauth") or {}).get("scopes") or ()),
        )

    def _text(self, value: object, key: str, syntax: Syntax | None = None) -> Text:
        if isinstance(value, bool | int | float):
            value = json.dumps(value)
        if not isinstance(value, str):
            raise UnusablePlaceholder(f"{key} is not a text")
        return self._reader.text(value, syntax or self._syntax)

    # --- variables

    def _variables(self, entry: Mapping[str, Any]) -> dict[str, Text]:
        handed_on = _names(self._found.raw.get("env_vars")) if self._found.table.client == "codex" else set()
        found = {**self._of_container(entry), **self._of_file()}
        for name, value in (entry.get("env") or {}).items():
            if value is None:
                self._notes.append(f"the variable {name} has no value, and is left out")
            elif name in handed_on:
                self._hand_on(found, name)
            else:
                found[name] = self._text(value, f"env.{name}")
        return found

    def _of_container(self, entry: Mapping[str, Any]) -> dict[str, Text]:
        """Return the variables that `docker run -e NAME` takes from the client's environment, which is a shell's."""
        if self._found.table.client == "codex" or base(str(entry["command"])) not in _CONTAINERS:
            return {}
        args = entry.get("args") or []
        named = [word for option, word in itertools.pairwise(args) if option in _HANDING_ON and isinstance(word, str)]
        found: dict[str, Text] = {}
        for name in named:
            if "=" not in name and name not in (entry.get("env") or {}):
                self._hand_on(found, name)
        return found

    def _hand_on(self, found: dict[str, Text], name: str) -> None:
        """Add a variable that the client passes on if it is set."""
        unset = len(self._reader.unset)
        text = self._text(f"${{{name}}}", f"env.{name}", VARIABLES)
        if len(self._reader.unset) == unset:
            found[name] = text
        else:
            self._reader.unset.pop()
            self._notes.append(f"{name} is handed on by the client and is not set in this shell: it is left out")

    def _of_file(self) -> dict[str, Text]:
        written_path = self._found.raw.get("envFile")
        if not isinstance(written_path, str):
            return {}
        path = plain(self._reader.text(written_path, self._syntax))
        if path is None:
            self._notes.append("its envFile depends on the folder of the client, and is not read")
            return {}
        folder = self._found.table.folder
        read = self._env_file(path if _ABSOLUTE.match(path) or not folder else f"{folder}/{path}")
        if isinstance(read, str):
            self._notes.append(read)
            return {}
        return {name: (value,) for name, value in read.items()}

    def _syntax_of_header(self, name: str) -> Syntax:
        """Return the syntax of a header's value.

        Codex resolves nothing, but names variables whose values it sends; `formats` has made these references.
        """
        raw = self._found.raw
        if self._found.table.client != "codex":
            return self._syntax
        is_bearer = name == "Authorization" and "bearer_token_env_var" in raw
        return VARIABLES if is_bearer or name in (raw.get("env_http_headers") or {}) else self._syntax

    # --- folder and timeouts

    def _cwd(self, value: object) -> Text | None:
        folder = self._found.table.folder
        if value is None or value == "":
            return (folder,) if folder else None
        text = self._text(value, "cwd")
        path = plain(text)
        if path is not None and folder and not _ABSOLUTE.match(path):
            return (folder,) if path in (".", "./") else (f"{folder}/{path.removeprefix('./')}",)
        return text

    def _timeouts(self) -> dict[str, float]:
        """Return the timeouts that are longer than Hearth's own.

        The client still applies a shorter one itself, and other clients may wait longer.
        """
        found: dict[str, float] = {}
        for key, (name, per_second) in _TIMEOUTS.get(self._found.table.client, {}).items():
            value = self._found.raw.get(key)
            if not isinstance(value, int | float) or isinstance(value, bool):
                continue
            if value / per_second > getattr(ServerSpec, name):
                found[name] = value / per_second
        return found


def _isolation(parts: Parts, of_a_project: bool) -> tuple[isolation.Mode, str]:
    mode, reason = isolation_of(parts)
    others = (*parts.env.values(), *parts.headers.values())
    kept = [piece for text in others for piece in text if isinstance(piece, Kept)]
    if mode == isolation.SHARED and any(map(_is_folder, kept)):
        return isolation.WORKSPACE, isolation.RELATIVE
    if mode == isolation.SHARED and of_a_project and parts.command:
        # Relative paths in the command are relative to the project's folder now.
        return isolation_of(parts._replace(cwd=None, url=None), project_scope=True)
    return mode, reason


def isolation_of(parts: Parts, project_scope: bool = False) -> tuple[isolation.Mode, str]:
    """Return Hearth's own choice of isolation for a server, with the reason; secrets do not matter for it."""
    command, cwd, url = (_shape(text) if text else None for text in (parts.command, parts.cwd, parts.url))
    return isolation.initial(command, [_shape(text) for text in parts.args], cwd, url, project_scope=project_scope)


def _is_folder(reference: Kept) -> bool:
    return isolation.initial("x", [reference.written])[0] == isolation.WORKSPACE


def _shape(text: Text) -> str:
    return written(text, lambda secret: "secret")


def _names(value: object) -> set[str]:
    items = value if isinstance(value, list) else []
    return {str(item.get("name") if isinstance(item, dict) else item) for item in items}


def _unset(name: str) -> str:
    stays = f"{name} is not set in this shell: the reference stays, and the server starts only where the daemon has it"
    if not secret_patterns.SECRET_NAME.search(name):
        return stays
    return f"{stays}; or type `hearth secret set {name}`, and write ${{keyring:{name}}} in its place"


# --- identity


def identity(parts: Parts, which: Callable[[str], str | None], with_folder: bool = True) -> Hashable:
    """Return a key that is equal for entries of the same server. `which` finds a program on PATH.

    These differences are ignored: the order of variables and of headers, `-y` of `npx`, a slash at the end of an
    address, and the full path of a program that PATH leads to anyway; names, timeouts and all other settings that the
    server's process does not see. The key contains secrets: compare it, and do not keep it.
    """
    command = revealed(parts.command) if parts.command else ""
    args = [revealed(text) for text in parts.args]
    name = base(command)
    if re.search(r"[/\\]", command) and which(re.split(r"[/\\]", command)[-1]) == command:
        command = re.split(r"[/\\]", command)[-1]
    return (
        command,
        tuple(_without_yes(args) if name == "npx" else args),
        _sorted(parts.env),
        _folder(revealed(parts.cwd)) if parts.cwd and with_folder else "",
        _address(revealed(parts.url)) if parts.url else "",
        _sorted({header.lower(): text for header, text in parts.headers.items()}),
        _sorted(parts.oauth),
        parts.scopes,
    )


def _without_yes(args: list[str]) -> list[str]:
    """Return the arguments without the option that answers npx's question, which stands before the package."""
    first = next((number for number, word in enumerate(args) if not word.startswith("-")), len(args))
    return [word for word in args[:first] if word not in _NPX_YES] + args[first:]


def _sorted(texts: Mapping[str, Text]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, revealed(text)) for name, text in texts.items()))


def _folder(path: str) -> str:
    return path.rstrip("/\\") or path


def _address(url: str) -> str:
    found = _AUTHORITY.match(url)
    authority = found["scheme"].lower() + (found["user"] or "") + found["host"].lower() if found else ""
    path, mark, query = url[found.end() if found else 0 :].partition("?")
    return authority + path.rstrip("/") + mark + query


# --- configured servers


def parts_of(spec: ServerSpec, secret: Callable[[str], str | None]) -> Parts:
    """Return the parts of a configured server. `secret` returns the secret stored under a name."""

    def text(value: str) -> Text:
        return text_of(value, secret)

    oauth = {name: getattr(spec.oauth, name) for name in spec.oauth.fields}
    return Parts(
        command=text(spec.command) if spec.command else None,
        args=[text(value) for value in spec.args],
        env={name: text(value) for name, value in spec.env.items()},
        cwd=text(spec.cwd) if spec.cwd else None,
        url=text(spec.url) if spec.url else None,
        headers={name: text(value) for name, value in spec.headers.items()},
        oauth={name: text(value) for name, value in oauth.items() if isinstance(value, str)},
        scopes=spec.oauth.scopes,
    )


def text_of(value: str, secret: Callable[[str], str | None]) -> Text:
    """Return a value of the config, split at its references."""
    pieces: list[str | Secret | Kept] = []
    at = 0
    for match in _REFERENCE.finditer(value):
        pieces += [value[at : match.start()], _piece(match, secret)]
        at = match.end()
    return tuple(piece for piece in (*pieces, value[at:]) if piece != "")


def _piece(match: re.Match[str], secret: Callable[[str], str | None]) -> str | Secret | Kept:
    inner = match[1]
    if inner is None:
        return "${"
    name = inner.removeprefix(_KEYRING)
    found = secret(name) if inner.startswith(_KEYRING) else None
    return Kept(match[0]) if found is None else Secret(found, name)

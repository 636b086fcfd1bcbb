"""Import plan: from the entries of all clients to servers of Hearth's config.

    draft      one entry: references resolved, secrets separated; which entries are the same server
    planner    all entries: merged, named, and compared with the configured servers

Pure, except for the functions passed in to look at the machine.

No entry is dropped silently: each becomes a server, matches a configured server, is a bridge of Hearth, or is left in
the client's file with a stated reason.
"""

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from hearth.clients.discovery import ClientServer
from hearth.clients.importer.draft import Draft, EnvFile, Parts, Program, draft, identity, isolation_of, parts_of
from hearth.clients.importer.placeholders import (
    ImportEnvironment,
    Kept,
    Secret,
    Text,
    UnusablePlaceholder,
    plain,
    written,
)
from hearth.clients.table import Table
from hearth.config import ServerSpec
from hearth.config.schema import SERVER_KEYS
from hearth.config.value_kinds import BadValue
from hearth.mcp import isolation

# Tools are called SERVER__TOOL, with at most 64 characters: a long server name would leave no room for the tool's.
SERVER_CHARACTERS = 40
SECRET_CHARACTERS = 80
# Words that say that something is secret, but not whose secret it is.
_GENERIC = frozenset(
    {
        *("access", "api", "apikey", "auth", "authorization", "bearer", "client", "cookie", "credential", "header"),
        *("id", "jwt", "key", "oauth", "pass", "passphrase", "password", "passwd", "pat", "personal", "private", "pwd"),
        *("refresh", "secret", "session", "token", "url", "user", "x"),
    }
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class ImportedServer(NamedTuple):
    """Server to add. `entry` goes into the config; `secrets` are the names of the secrets that it refers to."""

    name: str
    entry: dict[str, Any]
    sources: list[ClientServer]
    mode: isolation.Mode
    reason: str
    secrets: list[str]
    notes: list[str]


class Match(NamedTuple):
    """Entries that match a configured server."""

    name: str
    sources: list[ClientServer]
    notes: list[str]


class Left(NamedTuple):
    """Entry that is not imported; `reason` is a phrase."""

    found: ClientServer
    reason: str


class Stored(NamedTuple):
    """Secret to store for some servers."""

    value: str
    servers: list[str]
    is_new: bool

    def __repr__(self) -> str:
        return f"Stored({self.servers!r})"


class ImportPlan(NamedTuple):
    """Plan of an import."""

    servers: list[ImportedServer]
    matched: list[Match]
    left: list[Left]
    bridges: list[ClientServer]
    secrets: dict[str, Stored]

    def links(self) -> list[tuple[ClientServer, str]]:
        """Return each entry with the name of its server in Hearth."""
        added = [(found, server.name) for server in self.servers for found in server.sources]
        return added + [(found, match.name) for match in self.matched for found in match.sources]


# Returns the stored secret of a name.
SecretOf = Callable[[str], str | None]


class KnownServers(NamedTuple):
    """Configured servers and stored secrets, and functions that look at this machine."""

    servers: Mapping[str, ServerSpec]
    secret: SecretOf
    # Returns the name that an entry was imported under before.
    imported: Callable[[ClientServer], str | None]
    # Returns the path of a program on PATH.
    which: Callable[[str], str | None]
    env_file: EnvFile
    program: Program


def plan(
    found: Iterable[ClientServer], surroundings: ImportEnvironment, known: KnownServers, with_disabled: bool = False
) -> ImportPlan:
    """Return the plan for these entries."""
    return _Planning(surroundings, known).plan(list(found), with_disabled)


class _Planning:
    """Builder of one plan."""

    def __init__(self, surroundings: ImportEnvironment, known: KnownServers) -> None:
        self._around = surroundings
        self._known = known
        self._left: list[Left] = []
        self._names: set[str] = set()
        self._secrets = _Secrets(known.secret)

    def plan(self, found: Sequence[ClientServer], with_disabled: bool) -> ImportPlan:
        bridges = [each for each in found if each.bridge_to is not None]
        drafts = [
            made for each in found if each.bridge_to is None and (made := self._draft(each, with_disabled)) is not None
        ]
        matched, new = self._matched(drafts)
        servers = [server for group in self._merged(new) if (server := self._server(group)) is not None]
        return ImportPlan(servers, matched, self._left, bridges, self._secrets.stored)

    def _draft(self, found: ClientServer, with_disabled: bool) -> Draft | None:
        if found.disabled and not with_disabled:
            self._left.append(Left(found, "is disabled there; --disabled takes it all the same"))
            return None
        try:
            return draft(found, self._around, self._known.env_file, self._known.program)
        except UnusablePlaceholder as exc:
            self._left.append(Left(found, str(exc)))
            return None

    # --- configured servers

    def _matched(self, drafts: list[Draft]) -> tuple[list[Match], list[Draft]]:
        """Return the entries that match a configured server, by identity or by an earlier import, and the others."""
        there = {name: parts_of(spec, self._known.secret) for name, spec in self._known.servers.items()}
        by_meaning = {self._key(parts): name for name, parts in reversed(there.items())}
        matches: dict[str, Match] = {}
        new: list[Draft] = []
        for each in drafts:
            name, differs = by_meaning.get(self._key(each.parts)), False
            if name is None and not each.depends_on_folder:
                name = by_meaning.get(self._key(each.parts._replace(cwd=None)))
            if name is None and (name := self._known.imported(each.found)) is not None:
                name, differs = (name, True) if name in there else (None, False)
            if name is None:
                new.append(each)
                continue
            match = matches.setdefault(name, Match(name, [], []))
            match.sources.append(each.found)
            _extend(match.notes, self._notes_on_match(name, differs))
        return list(matches.values()), new

    def _notes_on_match(self, name: str, differs: bool) -> list[str]:
        notes = []
        if differs:
            notes.append(
                f"was imported before and is not the same any more; what Hearth has stays (`hearth remove {name}` first"
                " takes what the client has)"
            )
        if self._known.servers[name].disabled:
            notes.append("is disabled in Hearth's config")
        return notes

    # --- new servers

    def _merged(self, drafts: list[Draft]) -> list[list[Draft]]:
        """Group the drafts that are the same server, in the order of each group's first draft."""
        groups: dict[Hashable, list[Draft]] = {}
        # Drafts without a project come first: a project's draft that does not depend on its folder is the same server.
        for each in sorted(drafts, key=lambda each: each.found.table.folder is not None):
            key = self._key(each.parts)
            anywhere = self._key(each.parts._replace(cwd=None))
            if key not in groups and anywhere in groups and not each.depends_on_folder:
                key = anywhere
            groups.setdefault(key, []).append(each)
        order = {id(each): number for number, each in enumerate(drafts)}
        return sorted(groups.values(), key=lambda group: order[id(group[0])])

    def _key(self, parts: Parts) -> Hashable:
        return identity(parts, self._known.which)

    def _server(self, group: list[Draft]) -> ImportedServer | None:
        first = group[0]
        taken = {*self._known.servers, *self._names}
        name = of_server(first.found.name, first.found.table, lambda each: each not in taken)
        placed: list[str] = []
        entry = self._entry(name, group, placed)
        if fault := _fault(entry):
            self._left += [Left(each.found, fault) for each in group]
            self._secrets.forget(name)
            return None
        self._names.add(name)
        notes: list[str] = []
        for each in group:
            _extend(notes, each.notes)
        _extend(notes, self._notes_on_program(first.parts))
        sources = [each.found for each in group]
        return ImportedServer(name, entry, sources, first.mode, first.reason, list(dict.fromkeys(placed)), notes)

    def _entry(self, name: str, group: list[Draft], placed: list[str]) -> dict[str, Any]:
        def text(value: Text) -> str:
            return written(value, place)

        def place(secret: Secret) -> str:
            placed.append(self._secrets.place(name, secret))
            return placed[-1]

        parts = group[0].parts
        oauth: dict[str, Any] = {key: text(value) for key, value in parts.oauth.items()}
        if parts.scopes:
            oauth["scopes"] = list(parts.scopes)
        transports = {each.transport for each in group}
        entry = {
            "command": text(parts.command) if parts.command else None,
            "args": [text(value) for value in parts.args],
            "env": {key: text(value) for key, value in parts.env.items()},
            "cwd": text(parts.cwd) if parts.cwd else None,
            "url": text(parts.url) if parts.url else None,
            "headers": {key: text(value) for key, value in parts.headers.items()},
            "oauth": oauth,
            "transport": transports.pop() if len(transports) == 1 else None,
            **_isolation(group[0]),
            **_longest(group),
        }
        return {key: value for key, value in entry.items() if value not in (None, [], {})}

    def _notes_on_program(self, parts: Parts) -> list[str]:
        command = plain(parts.command or ())
        if not command or self._known.which(command) or command.startswith(("./", "../", ".\\")):
            return []
        if any(isinstance(piece, Kept) for piece in parts.command or ()):
            return []
        return [f"{command.split()[0]} is not a program on this shell's PATH: an alias or a function is no program"]


class _Secrets:
    """Secrets of a plan: equal values share a name, and different values never do."""

    def __init__(self, known: SecretOf) -> None:
        self._known = known
        self.stored: dict[str, Stored] = {}

    def place(self, server: str, secret: Secret) -> str:
        """Return the name of a secret, and add the server to its users."""
        name = next((name for name, each in self.stored.items() if each.value == secret.value), None)
        if name is None:
            name = of_secret(server, secret.hint, lambda each: self._is_free(each, secret.value))
            self.stored[name] = Stored(secret.value, [], self._known(name) is None)
        if server not in self.stored[name].servers:
            self.stored[name].servers.append(server)
        return name

    def forget(self, server: str) -> None:
        """Remove the secrets that only a rejected server needs."""
        for name, each in list(self.stored.items()):
            if server in each.servers:
                each.servers.remove(server)
            if not each.servers:
                del self.stored[name]

    def _is_free(self, name: str, value: str) -> bool:
        return name not in self.stored and self._known(name) in (None, value)


def _isolation(first: Draft) -> dict[str, str]:
    """Return the isolation for the entry, only if it differs from Hearth's own choice.

    Without the key, Hearth can still change its choice by what it learns of the server later.
    """
    return {} if isolation_of(first.parts)[0] == first.mode else {"isolation": first.mode}


def _longest(group: list[Draft]) -> dict[str, float]:
    longest: dict[str, float] = {}
    for each in group:
        for key, value in each.timeouts.items():
            longest[key] = max(value, longest.get(key, 0.0))
    return longest


def _fault(entry: Mapping[str, Any]) -> str | None:
    """Return the reason why Hearth's config would refuse an entry, or None."""
    for key, value in entry.items():
        try:
            SERVER_KEYS[key].check(value)
        except BadValue as exc:
            inside = "".join(f".{part}" for part in exc.at)
            return f"its {key}{inside} {exc}"
    return None


def _extend(notes: list[str], more: Iterable[str]) -> None:
    notes += [note for note in more if note not in notes]


# --- names of imported servers


def of_server(name: str, table: Table, is_free: Callable[[str], bool]) -> str:
    """Return a free name for a server: the client's name for it, with invalid characters replaced.

    If that name is taken, the name of the client or project, or a number, is appended.
    """
    base = _plain(name)[:SERVER_CHARACTERS].strip("-") or "server"
    origin = _plain(re.split(r"[/\\]", table.folder.rstrip("/\\"))[-1]) if table.folder else table.client
    return next(each for each in _candidates(base, origin) if is_free(each))


def of_secret(server: str, hint: str, is_free: Callable[[str], bool]) -> str:
    """Return a free name for a secret of a server: `github-token`, not `github-github-token`."""
    words = [word for word in re.split(r"[^a-z0-9]+", _CAMEL.sub("_", hint).lower()) if word] or ["secret"]
    if words[0] == "x" and words[1:]:
        del words[0]  # prefix of a non-standard header
    if _GENERIC.issuperset(words):
        words.insert(0, server.lower())
    name = "-".join(words)[:SECRET_CHARACTERS].strip("-")
    # A secret's name begins with a letter.
    name = name if name[:1].isalpha() else f"secret-{name}"
    return next(each for each in _numbered(name) if is_free(each))


def _candidates(base: str, origin: str) -> Iterator[str]:
    yield base
    if origin and origin != base:
        yield f"{base}-{origin}"
    yield from _numbered(base, 2)


def _numbered(base: str, first: int = 1) -> Iterator[str]:
    for number in count(first):
        yield base if number == 1 else f"{base}-{number}"


def _plain(name: str) -> str:
    # NFKD makes an accent a character of its own, so that its letter stays.
    letters = (each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    return re.sub(r"[^A-Za-z0-9_-]+", "-", "".join(letters)).strip("-")

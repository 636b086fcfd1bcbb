"""Import of clients' servers into Hearth's config: servers in clients' files, the plan, and its execution.

A plan is executed completely or not at all: first the secrets, because the config refers to them; then the record of
which entry became which server; last one edit of the config, with a notice to a running daemon. If a step fails, the
steps before it are undone.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from hearth import secret_patterns
from hearth.clients import backups, discovery, formats
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import draft, placeholders, planner
from hearth.clients.importer.placeholders import ImportEnvironment, Input, Kept, Secret, Text, UnusablePlaceholder
from hearth.clients.importer.planner import ImportPlan, KnownServers
from hearth.clients.table import KINDS, LOCAL, PROJECT, SCOPES, USER, Table
from hearth.config import editor
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError, HearthError, Refused, VaultError
from hearth.ops import edit_config
from hearth.ops.edit_config import Changed
from hearth.paths import Places, home_dir
from hearth.secrets.vault import Vault

Piece = str | Secret | Kept
Entry = dict[str, Any]

# A project's file belongs to several people, and its changes are committed: it is used only on request.
DEFAULT_SCOPES = (USER, LOCAL)
ALL = "all"
# For a file that is no client's: the key of its servers, and the client whose format that key implies.
_WORDS = {
    "mcpServers": "file",
    "servers": "vscode",
    "mcp_servers": "codex",
    "context_servers": "zed",
    "mcp": "opencode",
}
# Keys of an entry that only one client has.
_OWN_KEYS = {"httpUrl": "gemini", "serverUrl": "windsurf"}
# Marks a reference, which only the daemon resolves.
_REFERENCE = "${"
# Characters that a secret's name cannot have; the first one must be a letter or an underscore.
_UNUSABLE = re.compile(r"^[^a-z_]|[^a-z0-9_.@/-]")


# --- servers in clients' files


class Gathered(NamedTuple):
    """Tables and their entries. `problems` are sentences on files that could not be read; their tables are left out."""

    tables: list[Table]
    found: list[ClientServer]
    problems: list[str]

    def clients(self) -> list[str]:
        """Return the clients, in the order of the tables."""
        return list(dict.fromkeys(table.client for table in self.tables))


def gather(clients: Iterable[str], scopes: Iterable[str], own: str) -> Gathered:
    """Return the tables of these clients, or of all clients if none is given, and their entries.

    A file that cannot be read is among the problems, and there may be nothing else. Raises ConfigError if only a
    project was asked for and there is none. `own` is Hearth's config, which may be a client's file: its servers are
    Hearth's already, and must not become bridges to themselves.
    """
    chosen = tuple(clients) or tuple(KINDS)
    wanted = chosen_scopes(scopes)
    gathered = Gathered([], [], [])
    folder = discovery.here()
    if folder is None and PROJECT in wanted:
        gathered.problems.append(discovery.NOWHERE)
    for table in discovery.tables(folder, chosen):
        try:
            if table.scope in wanted and os.path.realpath(table.path) != os.path.realpath(own):
                gathered.found.extend(discovery.read(table))
                gathered.tables.append(table)
        except ConfigError as exc:
            gathered.problems.extend(problem for problem in exc.problems if problem not in gathered.problems)
    if gathered.problems == [discovery.NOWHERE] and not gathered.tables:
        raise ConfigError(gathered.problems)
    return gathered


def chosen_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes that were asked for."""
    given = tuple(scopes) or DEFAULT_SCOPES
    return SCOPES if ALL in given else given


def left_out(clients: Iterable[str], scopes: Iterable[str]) -> list[str]:
    """Return the files of this folder's project that have servers, if the project was not asked for."""
    if PROJECT in chosen_scopes(scopes):
        return []
    tables = discovery.tables(discovery.here(), tuple(clients) or tuple(KINDS))
    own = [table for table in tables if table.scope == PROJECT]
    return [table.path for table in own if any(found.bridge_to is None for found in discovery.readable(table))]


def gather_file(path: str) -> Gathered:
    """Return the entries of any file with servers in it. Raises ConfigError."""
    folder = discovery.here()
    if folder is None and not os.path.isabs(path):
        raise ConfigError([f"{path}: cannot be found from here: the current folder is gone; give the whole path"])
    same = [table for table in discovery.tables(folder) if os.path.realpath(table.path) == os.path.realpath(path)]
    if same:
        return Gathered(same, [found for table in same for found in discovery.read(table)], [])
    document = discovery.opened(path)
    if document is None:
        raise ConfigError([f"{path}: does not exist"])
    key = next((key for key in _WORDS if isinstance(document.tree.get(key), dict)), None)
    if key is None:
        raise ConfigError([f"{path}: has no servers in it; looked for {', '.join(_WORDS)}"])
    table = Table(_WORDS[key], os.path.abspath(path), (key,), USER, None)
    servers = discovery.servers_of(document, (key,))
    return Gathered([], [_found(table, name, raw) for name, raw in servers.items()], [])


def _found(table: Table, name: str, raw: Any) -> ClientServer:
    own = [client for key, client in _OWN_KEYS.items() if isinstance(raw, dict) and key in raw]
    client = own[0] if own and table.client == "file" else table.client
    reading = formats.read(KINDS[client].dialect if client in KINDS else "plain", raw)
    return ClientServer(table, name, raw if isinstance(raw, dict) else {}, *reading)


def title(client: str) -> str:
    """Return the display name of a client."""
    return KINDS[client].title if client in KINDS else client


def origin(found: ClientServer) -> str:
    """Return the origin of an entry, in a few words."""
    table = found.table
    where = os.path.basename(table.path) if table.client == "file" else title(table.client)
    return f"{where} ({table.folder})" if table.folder else where


# --- the plan


class Answers:
    """Answers to questions: each question is asked once, however many servers need the answer."""

    def __init__(self, ask: Callable[[Input], str] | None, is_later: bool = False) -> None:
        self._ask = ask
        self._is_later = is_later
        self._given: dict[tuple[str, str], str] = {}
        # Questions for later.
        self.pending: list[Input] = []

    def __call__(self, table: Table, name: str) -> Piece:
        """Return the answer. Raises UnusablePlaceholder if there is none."""
        question = _question(table, name)
        if self._is_later:
            if question not in self.pending:
                self.pending.append(question)
            return Kept(f"${{input:{name}}}")
        key = (table.path, name)
        if key not in self._given:
            self._given[key] = self._answer(question)
        value = self._given[key]
        is_secret = question.is_password or secret_patterns.is_secret(name, value) or secret_patterns.has_secret(value)
        return Secret(value, name) if is_secret and value else value

    def _answer(self, question: Input) -> str:
        if self._ask is not None:
            return self._ask(question)
        if question.default is None:
            raise UnusablePlaceholder(
                f"${{input:{question.name}}} is asked for by VS Code; type this at a terminal without --yes, and it is"
                " asked for here"
            )
        return question.default


class Imported(NamedTuple):
    """Result of an import. `changed` is None if the config had everything already."""

    changed: Changed | None
    secrets_in: str | None  # the store of the new secrets, in words
    daemon: str | None  # result of the reload, in a sentence


def plan(places: Places, found: Iterable[ClientServer], answers: Answers, with_disabled: bool) -> ImportPlan:
    """Return the plan of an import. Raises ConfigError for a config with problems, and VaultError."""
    path = places.config_file()
    servers = edit_config.examined(path, read_file(path, FILE_LIMIT_BYTES)).config.servers
    known = KnownServers(
        servers,
        _secrets(),
        lambda each: backups.imported(each.table, each.name) if each.table.client in KINDS else None,
        lambda name: shutil.which(os.path.expanduser(name)),
        placeholders.read_env_file,
        full_path,
    )
    return planner.plan(found, ImportEnvironment(os.environ, home_dir(), answers, os.sep), known, with_disabled)


def _secrets() -> planner.SecretOf:
    """Return a function that reads stored secrets, each one once and only on demand."""
    vault = Vault("secrets")
    names = frozenset(vault.entries())
    return cache(lambda name: vault.get(name) if name in names else None)


def carry_out(places: Places, made: ImportPlan) -> Imported:
    """Execute the plan. Raises HearthError, and then nothing is changed."""
    changed, where = None, None
    new = {name: each.value for name, each in made.secrets.items() if each.is_new} if made.servers else {}
    links = [(each.table, each.name, server) for each, server in made.links() if each.table.client in KINDS]
    stored: list[str] = []
    former: backups.Former = {}
    try:
        for name, value in new.items():
            where = Vault("secrets").put(name, value)
            stored.append(name)
        former = backups.remember(links)
        if made.servers:
            changed = edit_config.change(places, lambda data: _added(places, data, made), dry_run=False)
    except BaseException:
        _take_back(stored, former)
        raise
    return Imported(changed, where, edit_config.tell_daemon(places) if changed else None)


def _added(places: Places, data: bytes | None, made: ImportPlan) -> bytes:
    path = places.config_file()
    there = edit_config.examined(path, data).config.servers
    for server in made.servers:
        if server.name in there:
            raise Refused(f"{path} was changed meanwhile, and has a server {server.name!r} now; try again")
        data = editor.added(path, data, server.name, server.entry)
    assert data is not None
    return data


def _take_back(names: list[str], former: backups.Former) -> None:
    # A record of a server that Hearth does not have is ignored.
    with contextlib.suppress(HearthError):
        backups.put_records(former)
    for name in names:
        # A secret that stays is never used; the error that is reported is the first one.
        with contextlib.suppress(VaultError):
            Vault("secrets").remove(name)


# --- inputs


def _question(table: Table, name: str) -> Input:
    try:
        found = placeholders.read_inputs(table.path).get(name)
    except ConfigError as exc:
        raise UnusablePlaceholder(str(exc)) from exc
    if found is None:
        raise UnusablePlaceholder(f"${{input:{name}}} is not explained in {table.path}")
    if found.is_command:
        raise UnusablePlaceholder(f"${{input:{name}}} is answered by a command of VS Code, which Hearth cannot run")
    wanted = [each.name for each in discovery.read(table) if f"${{input:{name}}}" in json.dumps(each.raw)]
    described = found.description.rstrip(": ") or name
    return (
        found._replace(description=f"{described} ({', '.join(wanted)} in {title(table.client)})") if wanted else found
    )


# --- programs


def full_path(command: str, search_path: str | None, folder: str | None) -> str | None:
    """Return the full path of a command as a client started from this shell would find it, or None.

    `search_path` and `folder` are the PATH and the working folder of the entry, where it sets them.
    """
    command = os.path.expanduser(command)
    if not os.path.dirname(command):
        found = shutil.which(command, path=search_path)
        # A folder in PATH may be relative, such as node_modules/.bin.
        return os.path.abspath(found) if found else None
    path = os.path.join(os.path.expanduser(folder or ""), command)
    # A path that is still relative depends on the folder that the client runs in.
    return shutil.which(os.path.normpath(path)) if os.path.isabs(path) else None


def program_problem(entry: Mapping[str, Any]) -> str | None:
    """Return why an entry's command, given by its path, cannot be run.

    None if it can be run, or if only the daemon can resolve it.
    """
    command, folder = str(entry.get("command") or ""), str(entry.get("cwd") or "")
    if not os.path.dirname(command) or _REFERENCE in command + folder:
        return None
    path = os.path.join(os.path.expanduser(folder), os.path.expanduser(command))
    if not os.path.isabs(path) or shutil.which(path):
        return None
    return f"the command {path!r} {'is not a program' if os.path.exists(path) else 'does not exist'}"


# --- literal secrets in an entry, as an import would find them, and the offer to move them to the vault


def literal_secrets(entry: Entry) -> list[tuple[str, str]]:
    """Return the variables and headers whose value is or contains a secret, as (key, name)."""
    apart = {"env": placeholders.named, "headers": placeholders.header}
    return [
        (key, name)
        for key, hidden in apart.items()
        for name, value in (entry.get(key) or {}).items()
        if _has_secret([hidden(name, _text(value))])
    ]


def literal_places(entry: Entry) -> list[str]:
    """Return the places of secrets in an entry: `env.NAME`, `headers.NAME`, `args`, `url`."""
    found = [f"{key}.{name}" for key, name in literal_secrets(entry)]
    found += ["args"] if _has_secret(placeholders.arguments([_text(each) for each in entry.get("args") or ()])) else []
    return found + (["url"] if _has_secret([placeholders.url(_text(entry.get("url") or ""))]) else [])


def _text(value: str) -> Text:
    return draft.text_of(value, lambda _: None)


def _has_secret(texts: Iterable[Text]) -> bool:
    return any(isinstance(piece, Secret) for text in texts for piece in text)


def place_elsewhere(server: str, entry: Entry, is_wanted: Callable[[str], bool] | None = None) -> list[str]:
    """Move secrets to the vault if the user wants that, and put references into the entry; return a note on each."""
    notes = []
    for key, name in literal_secrets(entry):
        secret = _UNUSABLE.sub("_", f"{server}-{name}".lower())
        value = entry[key][name]
        scheme, _, rest = value.partition(" ")
        # "Bearer xyz": the first word is no secret, and stays in the file.
        prefix, value = (f"{scheme} ", rest) if key == "headers" and rest else ("", value)
        reference = f"{prefix}${{keyring:{secret}}}"
        if is_wanted and is_wanted(name):
            where = Vault("secrets").put(secret, value)
            entry[key][name] = reference
            notes.append(f"{name} is kept in {where} as {secret!r}; the file has ${{keyring:{secret}}}.")
        else:
            option = f"--env {name}='{reference}'" if key == "env" else f"--header '{name}: {reference}'"
            notes.append(
                f"{name} looks like a secret, and will stand in the file as it is. To keep it out of there:"
                f" `hearth secret set {secret}`, then this command with --replace and {option}"
            )
    return notes + _notes_on_the_rest(server, entry)


def _notes_on_the_rest(server: str, entry: Entry) -> list[str]:
    """Return notes on arguments and addresses with a possible secret: only its owner knows which part is secret."""
    written = {"args": "an argument", "url": "a part of the url"}
    return [
        f"{written[place]} looks like a secret, and will stand in the file as it is. To keep it out of there:"
        f" `hearth secret set {server}`, and write ${{keyring:{server}}} in its place"
        for place in literal_places(entry)
        if place in written
    ]

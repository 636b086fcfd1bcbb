"""Import of clients' servers into Hearth's config: the plan, with this shell and this config, and its execution.

A plan is executed completely or not at all: first the secrets, because the config refers to them; then the record of
which entry became which server; last one edit of the config, with a notice to a running daemon. If a step fails, the
steps before it are undone.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from hearth import secret_patterns
from hearth.clients import backups, discovery
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import placeholders, planner
from hearth.clients.importer.placeholders import ImportEnvironment, Input, UnusablePlaceholder
from hearth.clients.importer.planner import ImportPlan, KnownServers
from hearth.clients.importer.templates import Kept, Secret
from hearth.clients.table import KINDS, Table
from hearth.config import editor
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError, HearthError, Refused, VaultError
from hearth.ops import edit_config
from hearth.ops.edit_config import Changed
from hearth.ops.gather_servers import title
from hearth.paths import Places, home_dir
from hearth.secrets.vault import Vault

Piece = str | Secret | Kept

# Marks a reference, which only the daemon resolves.
_REFERENCE = "${"


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
        former = backups.remember_all(links)
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
        data = (
            editor.first(path, server.name, server.entry)
            if data is None
            else editor.added(path, data, server.name, server.entry)
        )
    assert data is not None
    return data


def _take_back(names: list[str], former: backups.Former) -> None:
    # A record of a server that Hearth does not have is ignored.
    with contextlib.suppress(HearthError):
        backups.take_back(former)
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

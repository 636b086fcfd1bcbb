"""Servers of clients into Hearth's config: the plan with this shell and this config, and its carrying out.

Either everything of a plan is done, or nothing is left of it: secrets first, as the config names them; then whose entry
became which server; last one edit of the config, of which a running daemon is told. If one fails, those before it go.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from hearth.clients import backups
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import placeholders, planner
from hearth.clients.importer.placeholders import ImportEnvironment
from hearth.clients.importer.planner import ImportPlan, KnownServers
from hearth.clients.table import KINDS
from hearth.config import editor
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import HearthError, Refused, VaultError
from hearth.ops import edit_config, programs
from hearth.ops.edit_config import Changed
from hearth.ops.input_answers import Answers
from hearth.paths import Places, home_dir
from hearth.secrets.vault import Vault


class Imported(NamedTuple):
    """What was done. `changed` is None where the config had everything already."""

    changed: Changed | None
    secrets_in: str | None  # where the new secrets lie, in words
    daemon: str | None  # what a running one made of it


def plan(places: Places, found: Iterable[ClientServer], answers: Answers, with_disabled: bool) -> ImportPlan:
    """What is to be done. Raises ConfigError for a config with mistakes, and VaultError."""
    path = places.config_file()
    servers = edit_config.examined(path, read_file(path, FILE_LIMIT_BYTES)).config.servers
    known = KnownServers(
        servers,
        _secrets(),
        lambda each: backups.imported(each.table, each.name) if each.table.client in KINDS else None,
        lambda name: shutil.which(os.path.expanduser(name)),
        placeholders.read_env_file,
        programs.full_path,
    )
    return planner.plan(found, ImportEnvironment(os.environ, home_dir(), answers, os.sep), known, with_disabled)


def _secrets() -> planner.SecretOf:
    """What is stored, each asked for once, and only when somebody wants to know."""
    vault = Vault("secrets")
    names = frozenset(vault.entries())
    return cache(lambda name: vault.get(name) if name in names else None)


def carry_out(places: Places, made: ImportPlan) -> Imported:
    """Do what was planned. Raises HearthError, and then nothing is done."""
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
    # A name that Hearth has no server of is taken for none.
    with contextlib.suppress(HearthError):
        backups.take_back(former)
    for name in names:
        # What is left is found by nobody; the reason that is told is the first one.
        with contextlib.suppress(VaultError):
            Vault("secrets").remove(name)

"""Clients on this machine and the servers in their files. Read-only.

A client is installed if one of its files, its folder or its command exists.
"""

import fnmatch
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hearth.clients import formats
from hearth.clients.table import KINDS, LOCAL, PROJECT, USER, ClientKind, ConfigPlace, Machine, Table, signs
from hearth.config.document import Document, parse
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError
from hearth.host import system
from hearth.paths import home_dir

# Message for a request about the current project when `here` returns None.
NOWHERE = "the current folder is gone, so nothing is known of its project; go to another folder and try again"


class ClientServer(NamedTuple):
    """Server entry in a client's table."""

    table: Table
    name: str  # its key in the client's file
    raw: dict[str, Any]  # as written there
    entry: dict[str, Any]  # with Hearth's keys, references unchanged
    disabled: bool
    bridge_to: str | None  # "" for the whole hub, NAME for `--server NAME`, None: not a bridge of ours
    notes: list[str]  # phrases on settings that were not understood


def this_machine() -> Machine:
    """Return this machine."""
    return Machine(system.PLATFORM, home_dir(), os.environ)


def here() -> str | None:
    """Return the current folder; None if it was removed while this process runs."""
    try:
        return os.getcwd()
    except OSError:
        return None


def tables(folder: str | None, clients: Iterable[str] = tuple(KINDS), machine: Machine | None = None) -> list[Table]:
    """Return the tables of the clients on this machine, and the project tables around the folder, if one is given.

    Every installed client has a user table, whether or not its file exists. Raises nothing: a broken file has a table
    as well, and `read` says what is wrong with it.
    """
    machine = machine or this_machine()
    found: list[Table] = []
    for name in clients:
        kind = KINDS[name]
        for place in _user_places(kind, machine):
            found.append(Table(name, place.path, place.keys, USER, None))
            if kind.has_local:
                found += _local_tables(name, place)
        found += _project_tables(kind, folder, machine) if folder is not None else []
    return found


def read(table: Table) -> list[ClientServer]:
    """Return the entries of a table, in the file's order.

    Raises ConfigError for a file that cannot be read or is broken.
    """
    document = opened(table.path)
    return [] if document is None else found_in(table, document)


def readable(table: Table) -> list[ClientServer]:
    """Return the entries of a table; none for a file that cannot be read or is broken, which others report."""
    try:
        return read(table)
    except ConfigError:
        return []


def found_in(table: Table, document: Document) -> list[ClientServer]:
    """Return the entries of a table in a parsed file. Raises ConfigError if the keys lead to something else."""
    dialect = KINDS[table.client].dialect
    found = []
    for name, raw in servers_of(document, table.keys).items():
        reading = formats.read(dialect, raw)
        disabled = reading.disabled or formats.is_disabled_beside(dialect, document.tree, table.keys, name)
        is_object = isinstance(raw, dict)
        found.append(ClientServer(table, name, raw if is_object else {}, reading.entry, disabled, *reading[2:]))
    return found


def opened(path: str) -> Document | None:
    """Return the parsed file, or None if it does not exist. Raises ConfigError."""
    data = read_file(path, FILE_LIMIT_BYTES)
    return None if data is None else parse(path, data)


def servers_of(document: Document, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the table that the keys lead to; an empty one if it is missing.

    Raises ConfigError if the keys lead to something else.
    """
    tree: Any = document.tree
    for number, key in enumerate(keys):
        tree = tree.get(key)
        if tree is None:
            return {}
        if not isinstance(tree, dict):
            path = ".".join(keys[: number + 1])
            raise ConfigError([f"{document.at(keys[: number + 1])}: {path} must be an object with servers in it"])
    servers: dict[str, Any] = tree
    return servers


def is_installed(kind: ClientKind, machine: Machine) -> bool:
    """Return whether the client is on this machine, by its command or its folders."""
    path = machine.environ.get("PATH")
    return any(map(os.path.isdir, signs(kind, machine))) or any(shutil.which(each, path=path) for each in kind.commands)


def _user_places(kind: ClientKind, machine: Machine) -> list[ConfigPlace]:
    places = [each for place in kind.places(machine) for each in _expanded(place)]
    there = [place for place in places if os.path.lexists(place.path)]
    if kind.name == "claude-code" and len(there) > 1:
        # Claude Code reads one of them: the file of earlier versions, if it exists.
        return there[-1:]
    taken = {os.path.dirname(place.path) for place in there}
    to_make = [place for place in places if place.is_made and os.path.dirname(place.path) not in taken]
    if kind.signs is None:
        made = [place for place in to_make if os.path.isdir(os.path.dirname(place.path))]
    else:
        made = to_make[:1] if not there and is_installed(kind, machine) else []
    if not there and not made and is_installed(kind, machine):
        made = to_make[:1]
    return [place for place in places if place in there or place in made]


def _expanded(place: ConfigPlace) -> Iterator[ConfigPlace]:
    """Yield the places that match a path with `*`; a path without it is yielded as it is."""
    base, star, _ = place.path.partition("*")
    if not star:
        yield place
        return
    folder = os.path.dirname(base)
    rest = place.path[len(folder) + 1 :].split(os.sep)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name, *rest[1:])
        if fnmatch.fnmatchcase(name, rest[0]) and os.path.lexists(path):
            yield place._replace(path=path)


def _local_tables(client: str, place: ConfigPlace) -> list[Table]:
    """Return the project tables in the user's own file, without empty ones."""
    try:
        document = opened(place.path)
    except ConfigError:
        return []
    projects = document.tree.get("projects") if document else None
    if not isinstance(projects, dict):
        return []
    return [
        Table(client, place.path, ("projects", folder, *place.keys), LOCAL, folder)
        for folder, project in projects.items()
        if isinstance(project, dict) and project.get(place.keys[0])
    ]


def _project_tables(kind: ClientKind, folder: str, machine: Machine) -> list[Table]:
    for above in _upwards(os.path.abspath(folder), machine.home):
        paths = [os.path.join(above, *parts) for parts in kind.project]
        found = [Table(kind.name, path, kind.project_keys, PROJECT, above) for path in paths if os.path.isfile(path)]
        if found:
            return found
    return []


def _upwards(folder: str, home: str) -> Iterator[str]:
    """Yield the folder and its parents, up to the root of the repository.

    The home is left out: its files are the user's, not a project's.
    """
    while folder not in (os.path.dirname(folder), os.path.abspath(home)):
        yield folder
        if os.path.lexists(os.path.join(folder, ".git")):
            return
        folder = os.path.dirname(folder)

"""Servers in clients' files, or in a named file, for `hearth import` and `hearth setup`. Reads only."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from hearth.clients import discovery, formats
from hearth.clients.discovery import ClientServer
from hearth.clients.table import KINDS, LOCAL, PROJECT, SCOPES, USER, Table
from hearth.errors import ConfigError

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
    return [table.path for table in tables if table.scope == PROJECT and _has_servers(table)]


def _has_servers(table: Table) -> bool:
    try:
        return any(found.bridge_to is None for found in discovery.read(table))
    except ConfigError:
        return False


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

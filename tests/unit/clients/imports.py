"""Entries of clients for tests of the import, without any file: a plan for them in a shell that is made up."""

from collections.abc import Mapping
from typing import Any

from hearth.clients import formats
from hearth.clients.discovery import ClientServer
from hearth.clients.importer import planner
from hearth.clients.importer.placeholders import ImportEnvironment, Kept, Secret, UnusablePlaceholder
from hearth.clients.table import KINDS, Table
from hearth.config import ServerSpec
from hearth.config.layers import Examination

FOLDER = "/home/me/shop"
PROGRAMS = {"npx": "/usr/bin/npx", "uvx": "/usr/bin/uvx", "docker": "/usr/bin/docker", "node": "/usr/bin/node"}


def table(client: str, scope: str = "user", folder: str | None = None) -> Table:
    """A table of a client's."""
    keys = ("projects", folder or "", "mcpServers") if scope == "local" else ("mcpServers",)
    return Table(client, f"/home/me/.{client}.json", keys, scope, folder)


def found(name: str, raw: dict[str, Any], client: str = "claude-code", folder: str | None = None) -> ClientServer:
    """An entry as it is found in the file of a client."""
    where = table(client, "project" if folder else "user", folder)
    reading = formats.read(KINDS[client].dialect, raw)
    return ClientServer(where, name, raw, *reading)


def nobody(_: Table, name: str) -> str | Secret | Kept:
    """There is nobody to ask."""
    raise UnusablePlaceholder(f"${{input:{name}}} has to be asked for")


class Shell:
    """What the import looks at besides the entries."""

    def __init__(self, **environ: str) -> None:
        self.environ = environ
        self.servers: dict[str, ServerSpec] = {}
        self.secrets: dict[str, str] = {}
        self.imported: dict[str, str] = {}
        self.programs = dict(PROGRAMS)
        self.files: dict[str, Mapping[str, str] | str] = {}
        self.answer: Any = nobody

    def _program(self, command: str, search_path: str | None, folder: str | None) -> str | None:
        if "/" in command:
            path = command if command.startswith("/") else f"{folder}/{command.removeprefix('./')}"
            return path if path in self.programs.values() else None
        return self.programs.get(command) if search_path is None else self.programs.get(f"{search_path}/{command}")

    def plan(self, *entries: ClientServer, with_disabled: bool = False) -> planner.ImportPlan:
        """The plan; what it would put into the config is right."""
        known = planner.KnownServers(
            self.servers,
            self.secrets.get,
            lambda each: self.imported.get(each.name),
            lambda name: self.programs.get(name) or (name if name in self.programs.values() else None),
            lambda path: self.files.get(path, f"{path} does not exist"),
            self._program,
        )
        around = ImportEnvironment(self.environ, "/home/me", self.answer)
        made = planner.plan(entries, around, known, with_disabled)
        read(made)
        return made

    def adopt(self, made: planner.ImportPlan) -> None:
        """As if the plan had been carried out."""
        self.servers |= read(made)
        self.secrets |= {name: each.value for name, each in made.secrets.items()}


def read(made: planner.ImportPlan) -> dict[str, ServerSpec]:
    """The plan's servers as the config's reader has them, from TOML."""
    from hearth.config import editor

    data: bytes | None = None
    for server in made.servers:
        data = editor.added("config.toml", data, server.name, server.entry)
    examination = Examination("config.toml")
    if data is not None:
        examination.read_file(data)
    examination.finish()
    assert examination.problems == []
    assert examination.warnings == []
    return dict(examination.config.servers)


def plan(*entries: ClientServer, **environ: str) -> planner.ImportPlan:
    """The plan for these in an empty Hearth."""
    return Shell(**environ).plan(*entries)


def entry(made: planner.ImportPlan) -> dict[str, Any]:
    """What the only server of a plan has in the config."""
    assert made.left == []
    (server,) = made.servers
    return server.entry

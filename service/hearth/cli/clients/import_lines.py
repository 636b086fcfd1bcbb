"""What an import comes to, as text for people and as a document for programs. Pure; no secret's value is in either."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hearth.clients.discovery import ClientServer
from hearth.clients.importer.planner import ImportedServer, ImportPlan
from hearth.mcp.isolation import Mode
from hearth.ops.gather_servers import origin
from hearth.output import table

# Who shares a process.
MODES: dict[Mode, str] = {"shared": "one for all", "workspace": "one per folder", "session": "one per session"}
_INDENT = "  "


def plan_lines(plan: ImportPlan, path: str, width: int) -> list[str]:
    """The plan, in groups; a group with nothing in it is left out."""
    groups = (
        _servers(plan.servers, path, width),
        _section("Hearth has already:", [f"{match.name} ({_origins(match.sources)})" for match in plan.matched]),
        _section("Bridges to Hearth already:", _bridges(plan.bridges)),
        _section("Kept as secrets, with only a reference in the config:", _secrets(plan)),
        _section("Left where they are:", [f"{where}: {_of(names, why)}" for where, names, why in by_client(plan.left)]),
        _section("To know:", notes(plan)),
    )
    return [line for group in groups for line in group]


def notes(plan: ImportPlan) -> list[str]:
    """What should be known of the servers."""
    said = [(each.name, note) for each in plan.servers for note in each.notes]
    said += [(match.name, note) for match in plan.matched for note in match.notes]
    return [table.clean(_of(name, note)) for name, note in said]


def _of(name: str, phrase: str) -> str:
    return f"{name}: {phrase}"


def _section(heading: str, lines: Iterable[str]) -> list[str]:
    indented = [_INDENT + table.clean(line) for line in lines]
    return [heading, *indented] if indented else []


def _servers(servers: Sequence[ImportedServer], path: str, width: int) -> list[str]:
    if not servers:
        return []
    rows = [(each.name, f"{MODES[each.mode]} ({each.reason})", f"from {_origins(each.sources)}") for each in servers]
    # The columns' headers would say no more than the cells do.
    lines = table.columns(("", "", ""), rows, width - len(_INDENT))[1:]
    said = [(_INDENT + line, _INDENT * 3 + started(each.entry)) for line, each in zip(lines, servers, strict=True)]
    return [f"To be added to {path}:", *(line for pair in said for line in pair)]


def started(entry: Mapping[str, Any]) -> str:
    """Return the command line or the address of an entry, whole: a part that is cut off could be the hostile one.

    Secrets are references by now. Characters that are not printable are shown as escapes.
    """
    if entry.get("url"):
        return visible(entry["url"])
    variables = [f"{name}={value}" for name, value in entry.get("env", {}).items()]
    words = shlex.join([*variables, entry["command"], *entry.get("args", [])])
    return visible(f"{words} (in {entry['cwd']})" if entry.get("cwd") else words)


def visible(text: str) -> str:
    """Return a text with an escape for each character that a terminal would act on or not show."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _origins(sources: Iterable[ClientServer]) -> str:
    return ", ".join(dict.fromkeys(map(origin, sources)))


def _bridges(bridges: Iterable[ClientServer]) -> list[str]:
    return [f"{where}: {names}" for where, names, _ in by_client((found, "") for found in bridges)]


def by_client(entries: Iterable[tuple[ClientServer, str]]) -> list[tuple[str, str, str]]:
    """Group entries of one client of which the same is said: the client, the names of the entries, what is said."""
    groups: dict[tuple[str, str], list[str]] = {}
    for found, said in entries:
        groups.setdefault((origin(found), said), []).append(found.name)
    return [(where, ", ".join(dict.fromkeys(names)), said) for (where, said), names in groups.items()]


def _secrets(plan: ImportPlan) -> list[str]:
    return [f"{name} ({', '.join(each.servers)})" for name, each in plan.secrets.items()]


def as_document(plan: ImportPlan, path: str) -> dict[str, Any]:
    """The plan for programs."""
    return {
        "config": path,
        "servers": [
            {
                "name": each.name,
                "entry": each.entry,
                "isolation": each.mode,
                "reason": each.reason,
                "from": [place(found) for found in each.sources],
                "secrets": each.secrets,
                "notes": each.notes,
            }
            for each in plan.servers
        ],
        "present": [
            {"name": each.name, "from": [place(found) for found in each.sources], "notes": each.notes}
            for each in plan.matched
        ],
        "bridges": [place(found) for found in plan.bridges],
        "left": [{**place(each.found), "reason": each.reason} for each in plan.left],
        "secrets": [
            {"name": name, "servers": each.servers, "stored": not each.is_new} for name, each in plan.secrets.items()
        ],
    }


def place(found: ClientServer) -> dict[str, Any]:
    """Return where an entry stands, for programs."""
    where = found.table
    return {
        "client": where.client,
        "path": where.path,
        "scope": where.scope,
        "folder": where.folder,
        "name": found.name,
    }

"""Which entries of a client give way to which servers of Hearth's. Decides; `linking` acts.

An entry gives way when it was imported, or when Hearth has a server of its name that is defined in the same words.
Where nothing gives way and nothing leads to Hearth yet, one entry for all servers is added. Knows neither files nor
terminals.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hearth.clients.connector import WHOLE
from hearth.clients.discovery import ClientServer
from hearth.clients.table import Table
from hearth.config import ServerSpec

# Of an entry, what makes it this server and no other.
_DEFINITION = ("command", "args", "env", "cwd", "url", "headers")


class TablePlan(NamedTuple):
    """What is to be done with one table."""

    table: Table
    replace: dict[str, str]  # entry to server
    whole: bool
    notes: list[str]  # what stays as it is, in sentences


def plans(
    found: Mapping[Table, Sequence[ClientServer]],
    servers: Mapping[str, ServerSpec],
    imported: Callable[[Table, str], str | None],
    way: str | None = None,
) -> list[TablePlan]:
    """What is to be done with the tables of one client; `way` is "one", "each" or not said."""
    planned: list[TablePlan] = []
    for tables in _by_folder(found):
        each = [_plan(table, found[table], servers, imported, way) for table in tables]
        leads = any(entry.bridge_to is not None for table in tables for entry in found[table])
        if way == "one" or (way is None and not leads and not any(plan.replace for plan in each)):
            each[0] = each[0]._replace(whole=True)
        planned += each
    return planned


def server_for(
    entry: ClientServer, servers: Mapping[str, ServerSpec], imported: Callable[[Table, str], str | None]
) -> str | None:
    """The server of Hearth's that an entry is."""
    known = imported(entry.table, entry.name)
    if known in servers:
        return known
    spec = servers.get(entry.name)
    return entry.name if spec is not None and _is_same(entry.entry, spec) else None


def _is_same(entry: Mapping[str, object], spec: ServerSpec) -> bool:
    own = {key: getattr(spec, key) or None for key in _DEFINITION}
    own["args"] = list(spec.args) or None
    return all((entry.get(key) or None) == own[key] for key in _DEFINITION)


def _by_folder(tables: Iterable[Table]) -> list[list[Table]]:
    """Those together that one installation of the client reads: opencode's two files, Claude Code's projects."""
    folders: dict[str, list[Table]] = {}
    for table in tables:
        folders.setdefault(os.path.dirname(table.path), []).append(table)
    return list(folders.values())


def _plan(
    table: Table,
    found: Sequence[ClientServer],
    servers: Mapping[str, ServerSpec],
    imported: Callable[[Table, str], str | None],
    way: str | None,
) -> TablePlan:
    plan = TablePlan(table, {}, False, [])
    for entry in found:
        server = server_for(entry, servers, imported)
        if entry.bridge_to is not None:
            # Those of ours are looked at again: Hearth may have moved.
            if entry.bridge_to in servers:
                plan.replace[entry.name] = entry.bridge_to
            elif entry.bridge_to == "" and entry.name == WHOLE:
                plan = plan._replace(whole=True)
        elif way == "one":
            if server and not entry.disabled:
                plan.notes.append(f"{entry.name}: stays, so its tools are offered twice; --each would replace it")
        elif server is not None:
            plan.replace[entry.name] = server
        else:
            plan.notes.append(f"{entry.name}: {_why_it_stays(entry)}")
    return plan


def _why_it_stays(entry: ClientServer) -> str:
    if not entry.entry.get("command") and not entry.entry.get("url"):
        return "stays as it is: it " + (entry.notes[0] if entry.notes else "has neither a command nor a url")
    return f"is not among Hearth's servers, and stays as it is; `hearth import {entry.table.client}` brings it there"

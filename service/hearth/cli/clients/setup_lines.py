"""What `hearth setup` is about to do and has done, as text for people and as a document for programs. Pure."""

from collections.abc import Container
from typing import Any

from hearth.cli.clients import import_lines
from hearth.clients.connector import TableOutcome
from hearth.clients.discovery import ClientServer
from hearth.control_client.service_state import ADVICE_ON_PATH
from hearth.ops.connect_clients import Links
from hearth.ops.gather_servers import origin, title
from hearth.ops.setup_plan import ServiceStep, Setup, is_new, short
from hearth.ops.smoke_test import Trial
from hearth.output import table
from hearth.paths import Places

_INDENT = "  "


def plan_lines(setup: Setup, places: Places, home: str, width: int) -> list[str]:
    """The whole plan."""
    clients = ", ".join(title(client) for client in setup.gathered.clients())
    return [
        f"Clients: {clients}",
        *import_lines.plan_lines(setup.imports, short(places.config_file(), home), width),
        *_files(setup.links, home),
        *_service(setup.service, home),
    ]


def _files(links: Links, home: str) -> list[str]:
    changed = [f"{_INDENT}{short(each.table.path, home)}: {_change(each)}" for each in links.changed]
    problems = [f"{_INDENT}{table.clean(problem)}" for problem in links.problems]
    return [
        *(["Files of clients to be changed, with a way back:", *map(table.clean, changed)] if changed else []),
        *(["Not to be connected:", *problems] if problems else []),
    ]


def _change(outcome: TableOutcome) -> str:
    replaced = [change.name for change in outcome.changes if change.was is not None]
    added = [change.name for change in outcome.changes if change.was is None]
    where = f" in {outcome.table.folder}" if outcome.table.folder else ""
    said = [f"{', '.join(replaced)}{where} through Hearth"] if replaced else []
    said += [f"{', '.join(added)} added, which offers every server"] if added else []
    return "; ".join(said)


def _service(service: ServiceStep, home: str) -> list[str]:
    units = service.units
    if units is None:
        return [f"Service: {service.reason}."]
    if not is_new(units):
        return [f"Service: {units.manager} holds the socket; nothing changes."]
    names = ", ".join(units.plan.write or units.plan.remove)
    lines = [f"Service: {units.manager} is to hold the socket: {names} in {short(units.folder, home)}."]
    if units.search_path:
        lines.append(f"{_INDENT}The servers' programs are looked for in this shell's PATH, which is kept.")
    lines += [f"{_INDENT}Not in {folder}: {reason}." for folder, reason in units.left_out]
    return lines


def trial_lines(setup: Setup, trials: list[Trial], width: int, logged: Container[str]) -> list[str]:
    """List the servers that answered; then those that did not and have a client already, each with what to do.

    Servers whose clients were left alone are in the summary. `logged` has the names of servers with a log.
    """
    left = {each.server for each in setup.failed}
    failed = [each for each in trials if each.problem and each.server not in left]
    rows = [(each.server, f"{each.tools} tool{'' if each.tools == 1 else 's'}") for each in trials if not each.problem]
    if not rows and not failed:
        return []
    lines = ["Tried as a client would:"]
    lines += [_INDENT + line for line in table.columns(("", ""), rows, width)[1:]] if rows else []
    for each in failed:
        lines.append(f"{_INDENT}{each.server}: {table.clean(str(each.problem))}")
        lines += [f"{_INDENT * 2}{advice}" for advice in _advice(each, each.server in logged)]
    return lines


def summary_lines(setup: Setup, trials: list[Trial], logged: Container[str]) -> list[str]:
    """Say how many entries were moved to Hearth and how many were left, each of these with its reason."""
    moved, left = len(setup.moved()), len(setup.left())
    if not moved and not left:
        return []
    entries = f"{moved} {'entry' if moved == 1 else 'entries'} moved to Hearth"
    lines = [f"{entries}, {left} left as {'it was' if left == 1 else 'they were'}{':' if left else '.'}"]
    lines += [
        f"{_INDENT}{table.clean(f'{names} ({where}): {reason}')}"
        for where, names, reason in import_lines.by_client(setup.imports.left)
    ]
    for trial in trials:
        if sources := [each for each in setup.failed if each.server == trial.server]:
            entries = ", ".join(_entry(each.found) for each in sources)
            lines.append(f"{_INDENT}{entries}: {table.clean(sources[0].reason)}")
            lines += [f"{_INDENT * 2}{advice}" for advice in _advice(trial, trial.server in logged)]
    return lines


def _entry(found: ClientServer) -> str:
    return table.clean(f"{found.name} ({origin(found)})")


def _advice(failed: Trial, has_log: bool) -> list[str]:
    problem = str(failed.problem)
    if "hearth " in problem:
        return []  # it says itself what to type
    if "PATH" in problem:
        return [f"{ADVICE_ON_PATH} Then `hearth setup` again."]
    said = f"`hearth logs {failed.server}` has what it said; " if has_log else ""
    return [f"{said}`hearth call {failed.server}` tries it again."]


def as_document(setup: Setup, places: Places, trials: list[Trial], problems: list[str], done: bool) -> dict[str, Any]:
    """Everything for programs."""
    units = setup.service.units
    return {
        "done": done,
        "clients": setup.gathered.clients(),
        "import": import_lines.as_document(setup.imports, places.config_file()),
        "service": {
            "manager": units.manager if units else None,
            "folder": units.folder if units else None,
            "written": list(units.plan.write) if units else [],
            "reason": setup.service.reason,
        },
        "files": [
            {
                "client": each.table.client,
                "path": each.table.path,
                "keys": list(each.table.keys),
                "replaced": [change.name for change in each.changes if change.was is not None],
                "added": [change.name for change in each.changes if change.was is None],
                "notes": each.notes,
            }
            for each in setup.links.changed
        ],
        "trials": [each._asdict() for each in trials],
        "moved": [import_lines.place(each) for each in setup.moved()],
        "left": [{**import_lines.place(each.found), "reason": each.reason} for each in setup.left()],
        "problems": problems,
    }

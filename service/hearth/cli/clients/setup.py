"""`hearth setup`."""

import os
import shlex
from collections.abc import Callable, Container
from typing import Any

import click

from hearth.cli.clients import import_
from hearth.cli.clients.import_ import Manner, client_options, with_manner
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import ask_for_input, complain, note, print_json, tell
from hearth.clients.bridge_entries import TableOutcome
from hearth.clients.importer.placeholders import Input
from hearth.control_client.service_state import ADVICE_ON_PATH
from hearth.errors import HearthError
from hearth.ops import import_servers, setup_plan, tool_caller
from hearth.ops.connect_clients import Links
from hearth.ops.import_servers import Answers, origin, title
from hearth.ops.setup_plan import ServiceStep, SetupPlan, is_new, short
from hearth.ops.tool_caller import Trial
from hearth.output import table, terminal
from hearth.output.terminal import Spinner
from hearth.paths import Places, home_dir

_UNFINISHED = 1

_INDENT = "  "


@click.command(short_help="Set everything up in one go.")
@client_options
@click.option("--one", is_flag=True, help="Give each client one entry that offers every server; replace none.")
@click.option("--no-service", is_flag=True, help="Leave the service manager alone; the first bridge starts the daemon.")
@with_manner
@with_places
def setup(
    places: Places,
    clients: tuple[str, ...],
    scopes: tuple[str, ...],
    disabled: bool,
    one: bool,
    no_service: bool,
    manner: Manner,
) -> int:
    """Set everything up: find the MCP clients on this machine, take over their servers (`hearth import`), have the
    service manager hold the socket (`hearth install`), try each server as a client would, and point the clients at
    Hearth (`hearth connect`). The plan is shown first, and asked for once.

    An entry whose server does not answer through Hearth stays as it is in the client, and is named with the reason;
    that is no failure. Doing it again changes nothing, or does what is left. Exits with 1 when a step failed.
    `hearth disconnect --all` brings every client's file back, byte for byte.

    \b
    Examples:
      hearth setup --dry-run
      hearth setup
      hearth setup --client claude-code --client codex --yes
    """
    with Spinner(import_.WAITING) as spinner:
        # Questions are asked while the plan is made, so that the plan shown contains every answer.
        answers = Answers(_ask_beside(spinner) if manner.can_ask else None, is_later=manner.dry_run)
        gathered = import_servers.gather(clients, scopes, places.config_file())
        if gathered.problems and not gathered.tables:
            # The problems are in clients' files, not in Hearth's config or the command as typed: no ConfigError.
            raise HearthError("; ".join(gathered.problems))
        planned = setup_plan.make(places, gathered, answers, disabled=disabled, service=not no_service, one=one)
    if not gathered.tables:
        document = as_document(planned, places, [], [], done=False)
        tell(manner.as_json, document, import_.nothing_found(gathered))
        return 0
    if not manner.as_json:
        _show(planned, places)
        import_.say_more(clients, scopes, answers)
    if manner.dry_run:
        if manner.as_json:
            print_json(as_document(planned, places, [], [], done=False))
        return 0
    if not planned.is_done():
        manner.ask_for_leave("Do it?", " to do it")
    elif not manner.as_json:
        problems = gathered.problems or planned.links.problems
        click.echo(f"Nothing {'else ' if problems else ''}is left to do.")
    return _do(places, planned, manner.as_json)


def _ask_beside(spinner: Spinner) -> Callable[[Input], str]:
    """Return a function that asks for an input and pauses the spinner meanwhile."""

    def ask(question: Input) -> str:
        with spinner.paused():
            return ask_for_input(question)

    return ask


def _do(places: Places, planned: SetupPlan, as_json: bool) -> int:
    problems = list(planned.gathered.problems)
    with Spinner("storing secrets and writing the config"):
        # A failure here ends the setup: later steps would connect clients to servers that do not exist.
        done = setup_plan.import_servers(places, planned)
    if done.changed and not as_json:
        click.echo(f"Servers: {len(planned.imports.servers)} added to {done.changed.path}. {done.daemon}")
        if done.secrets_in:
            click.echo(f"Secrets are kept in {done.secrets_in}.")
    try:
        with Spinner("asking the service manager"):
            service = setup_plan.install_service(places, planned)
    except HearthError as exc:
        service = setup_plan.ServiceStep(None, str(exc))
        problems.append(f"the service could not be set up: {exc}; `hearth install` tries it again")
    trials = _tried(places, planned)
    finished = setup_plan.connect(places, planned._replace(service=service), trials)
    problems += finished.links.problems
    if as_json:
        print_json(as_document(finished, places, trials, problems, done=not problems))
    else:
        _report(finished, places, trials, problems)
    return _UNFINISHED if problems else 0


def _tried(places: Places, planned: SetupPlan) -> list[Trial]:
    names = planned.tried(setup_plan.enabled(places))
    commands = setup_plan.commands(places, planned.gathered.tables, names)
    with Spinner("trying the servers") as spinner:
        return tool_caller.try_all(places, commands, spinner.tell)


# --- reports


def _show(planned: SetupPlan, places: Places) -> None:
    note(*(f"{problem}; it is left out" for problem in planned.gathered.problems))
    click.echo("\n".join(plan_lines(planned, places, home_dir(), terminal.width())))
    if not planned.gathered.found:
        click.echo(f"{import_.nothing_found(planned.gathered)} `hearth add NAME -- COMMAND` adds one.")


def _report(finished: SetupPlan, places: Places, trials: list[Trial], problems: list[str]) -> None:
    for outcome in finished.links.changed:
        names = ", ".join(table.clean(change.name) for change in outcome.changes)
        click.echo(f"{import_servers.title(outcome.table.client)} is connected: {names} in {outcome.table.path}.")
        note(*outcome.notes)
    units = finished.service.units
    if units and units.enabled:
        click.echo(f"{units.manager} listens on {places.socket} and starts the daemon with the first connection.")
    logged = {each.server for each in trials if os.path.exists(places.server_log(each.server))}
    lines = trial_lines(finished, trials, terminal.width(), logged)
    click.echo("\n".join(lines + summary_lines(finished, trials, logged)))
    complain(*problems)
    if problems:
        click.echo("Not everything could be done. Mend that; `hearth setup` again does what is left.", err=True)
    _say_undo(finished, places)


def _say_undo(finished: SetupPlan, places: Places) -> None:
    if finished.links.changed:
        click.echo("Restart your clients to pick up the change.")
    words = ["hearth disconnect --all"]
    if finished.service.units:
        words.append(shlex.join(["hearth", "uninstall", *places.arguments()]))
    if finished.imports.servers:
        words.append(shlex.join(["hearth", "remove", "NAME", *places.arguments()]))
    secrets = ", which names the secrets that are left over" if finished.imports.secrets else ""
    click.echo(f"Undo: {', '.join(f'`{word}`' for word in words)}{secrets}.")


# --- text and document


def plan_lines(setup: SetupPlan, places: Places, home: str, width: int) -> list[str]:
    """Return the lines of the whole plan."""
    clients = ", ".join(title(client) for client in setup.gathered.clients())
    return [
        f"Clients: {clients}",
        *import_.plan_lines(setup.imports, short(places.config_file(), home), width),
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
    replaced, added = _names(outcome)
    where = f" in {outcome.table.folder}" if outcome.table.folder else ""
    said = [f"{', '.join(replaced)}{where} through Hearth"] if replaced else []
    said += [f"{', '.join(added)} added, which offers every server"] if added else []
    return "; ".join(said)


def _names(outcome: TableOutcome) -> tuple[list[str], list[str]]:
    """Return the names of the entries that are replaced, and of those that are added."""
    replaced = [change.name for change in outcome.changes if change.was is not None]
    return replaced, [change.name for change in outcome.changes if change.was is None]


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


def trial_lines(setup: SetupPlan, trials: list[Trial], width: int, logged: Container[str]) -> list[str]:
    """List the servers that answered; then those that failed and are connected already, each with advice.

    Servers whose clients were left alone are in the summary. `logged` contains the names of servers with a log.
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


def summary_lines(setup: SetupPlan, trials: list[Trial], logged: Container[str]) -> list[str]:
    """Return the number of connected entries and of entries left alone, each of the latter with its reason."""
    moved, left = len(setup.moved()), len(setup.left())
    if not moved and not left:
        return []
    entries = f"{moved} {'entry' if moved == 1 else 'entries'} moved to Hearth"
    lines = [f"{entries}, {left} left as {'it was' if left == 1 else 'they were'}{':' if left else '.'}"]
    lines += [
        f"{_INDENT}{table.clean(f'{names} ({where}): {reason}')}"
        for where, names, reason in import_.by_client(setup.imports.left)
    ]
    for trial in trials:
        if sources := [each for each in setup.failed if each.server == trial.server]:
            entries = ", ".join(table.clean(f"{each.found.name} ({origin(each.found)})") for each in sources)
            lines.append(f"{_INDENT}{entries}: {table.clean(sources[0].reason)}")
            lines += [f"{_INDENT * 2}{advice}" for advice in _advice(trial, trial.server in logged)]
    return lines


def _advice(failed: Trial, has_log: bool) -> list[str]:
    problem = str(failed.problem)
    if "hearth " in problem:
        return []  # the problem names the command to type
    if "PATH" in problem:
        return [f"{ADVICE_ON_PATH} Then `hearth setup` again."]
    said = f"`hearth logs {failed.server}` has what it said; " if has_log else ""
    return [f"{said}`hearth call {failed.server}` tries it again."]


def as_document(
    setup: SetupPlan, places: Places, trials: list[Trial], problems: list[str], done: bool
) -> dict[str, Any]:
    """Return the plan and its results as a JSON document."""
    units = setup.service.units
    return {
        "done": done,
        "clients": setup.gathered.clients(),
        "import": import_.as_document(setup.imports, places.config_file()),
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
                **dict(zip(("replaced", "added"), _names(each), strict=True)),
                "notes": each.notes,
            }
            for each in setup.links.changed
        ],
        "trials": [each._asdict() for each in trials],
        "moved": [import_.place(each) for each in setup.moved()],
        "left": [{**import_.place(each.found), "reason": each.reason} for each in setup.left()],
        "problems": problems,
    }

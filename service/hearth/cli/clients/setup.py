"""`hearth setup`."""

import os
import shlex
from typing import NamedTuple

import click

from hearth.cli.clients import import_, setup_lines
from hearth.cli.clients.import_options import Manner, client_options, with_manner
from hearth.cli.target import with_places
from hearth.errors import HearthError, Refused
from hearth.ops import gather_servers, import_servers, setup_plan, smoke_test
from hearth.ops.input_answers import Answers, at_terminal
from hearth.ops.setup_plan import Setup
from hearth.ops.smoke_test import Trial
from hearth.output import documents, table, terminal
from hearth.output.spinner import Spinner
from hearth.paths import Places, home_dir

_UNFINISHED = 1


class _Wishes(NamedTuple):
    """What was typed."""

    clients: tuple[str, ...]
    scopes: tuple[str, ...]
    disabled: bool
    one: bool
    service: bool


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
    Hearth (`hearth connect`). What is about to be done is shown first, and asked for once.

    An entry whose server does not answer through Hearth stays as it is in the client, and is named with the reason;
    that is no failure. Doing it again changes nothing, or does what is left. Exits with 1 when a step failed.
    `hearth disconnect --all` brings every client's file back, byte for byte.

    \b
    Examples:
      hearth setup --dry-run
      hearth setup
      hearth setup --client claude-code --client codex --yes
    """
    wishes = _Wishes(clients, scopes, disabled, one, not no_service)
    answers = Answers(None, is_later=manner.can_ask or manner.dry_run)
    with Spinner(import_.WAITING):
        planned = _planned(places, wishes, answers)
    if not planned.gathered.tables:
        _report_nothing(planned, places, manner.as_json)
        return 0
    if not manner.as_json:
        _show(planned, places)
        import_.say_more(clients, scopes, answers)
    if manner.dry_run:
        if manner.as_json:
            _print(planned, places, [], [], done=False)
        return 0
    if not planned.is_done():
        planned = _asked(places, wishes, planned, manner)
    elif not manner.as_json:
        problems = planned.gathered.problems or planned.links.problems
        click.echo(f"Nothing {'else ' if problems else ''}is left to do.")
    return _do(places, wishes, planned, manner.as_json)


def _planned(places: Places, wishes: _Wishes, answers: Answers) -> Setup:
    gathered = gather_servers.gather(wishes.clients, wishes.scopes, places.config_file())
    if gathered.problems and not gathered.tables:
        # Files of clients: neither Hearth's config nor the command as typed, so no ConfigError.
        raise HearthError("; ".join(gathered.problems))
    imports = import_servers.plan(places, gathered.found, answers, wishes.disabled)
    service = setup_plan.service(places, wishes.service, dry_run=True)
    return Setup(gathered, imports, service, setup_plan.links(places, gathered, imports, wishes.one))


def _asked(places: Places, wishes: _Wishes, planned: Setup, manner: Manner) -> Setup:
    """The plan that the person agreed to, with the answers to what had to be asked. Raises Refused, click.Abort."""
    if manner.can_ask:
        if not click.confirm("Do it?", default=True, err=True):
            raise Refused("nothing was done")
        return _planned(places, wishes, Answers(at_terminal))
    if not manner.yes:
        raise Refused("there is no terminal to ask at, and nothing was done: say --yes to do it")
    return planned


def _do(places: Places, wishes: _Wishes, planned: Setup, as_json: bool) -> int:
    problems = list(planned.gathered.problems)
    with Spinner("storing secrets and writing the config"):
        # If it fails nothing is done: what comes after it would lead clients to servers that are not there.
        done = setup_plan.import_servers(places, planned.imports)
    if done.changed and not as_json:
        click.echo(f"Servers: {len(planned.imports.servers)} added to {done.changed.path}. {done.daemon}")
        if done.secrets_in:
            click.echo(f"Secrets are kept in {done.secrets_in}.")
    try:
        with Spinner("asking the service manager"):
            service = setup_plan.service(places, wishes.service, dry_run=False)
    except HearthError as exc:
        service = setup_plan.ServiceStep(None, str(exc))
        problems.append(f"the service could not be set up: {exc}; `hearth install` tries it again")
    trials = _tried(places, planned)
    finished = setup_plan.connect(places, planned._replace(service=service), trials)
    problems += finished.links.problems
    if as_json:
        _print(finished, places, trials, problems, done=not problems)
    else:
        _report(finished, places, trials, problems)
    return _UNFINISHED if problems else 0


def _tried(places: Places, planned: Setup) -> list[Trial]:
    names = planned.tried(setup_plan.enabled(places))
    commands = setup_plan.commands(places, planned.gathered.tables, names)
    with Spinner("trying the servers") as spinner:
        return smoke_test.try_all(places, commands, spinner.tell)


# --- what is said


def _show(planned: Setup, places: Places) -> None:
    for problem in planned.gathered.problems:
        click.echo(f"{click.style('note:', fg='yellow')} {problem}; it is left out", err=True)
    click.echo("\n".join(setup_lines.plan_lines(planned, places, home_dir(), terminal.width())))
    if not planned.gathered.found:
        click.echo(f"{import_.nothing_found(planned.gathered)} `hearth add NAME -- COMMAND` adds one.")


def _report_nothing(planned: Setup, places: Places, as_json: bool) -> None:
    if as_json:
        _print(planned, places, [], [], done=False)
    else:
        click.echo(import_.nothing_found(planned.gathered))


def _report(finished: Setup, places: Places, trials: list[Trial], problems: list[str]) -> None:
    for outcome in finished.links.changed:
        names = ", ".join(table.clean(change.name) for change in outcome.changes)
        click.echo(f"{gather_servers.title(outcome.table.client)} is connected: {names} in {outcome.table.path}.")
        for note in outcome.notes:
            click.echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
    units = finished.service.units
    if units and units.enabled:
        click.echo(f"{units.manager} listens on {places.socket} and starts the daemon with the first connection.")
    logged = {each.server for each in trials if os.path.exists(places.server_log(each.server))}
    lines = setup_lines.trial_lines(finished, trials, terminal.width(), logged)
    click.echo("\n".join(lines + setup_lines.summary_lines(finished, trials, logged)))
    for problem in problems:
        click.echo(f"{click.style('hearth:', fg='red')} {problem}", err=True)
    if problems:
        click.echo("Not everything could be done. Mend that; `hearth setup` again does what is left.", err=True)
    _say_undo(finished, places)


def _say_undo(finished: Setup, places: Places) -> None:
    if finished.links.changed:
        click.echo("Clients that run take it up when they are started anew.")
    words = ["hearth disconnect --all"]
    if finished.service.units:
        words.append(shlex.join(["hearth", "uninstall", *places.arguments()]))
    if finished.imports.servers:
        words.append(shlex.join(["hearth", "remove", "NAME", *places.arguments()]))
    secrets = ", which names the secrets that are left over" if finished.imports.secrets else ""
    click.echo(f"Undo: {', '.join(f'`{word}`' for word in words)}{secrets}.")


def _print(found: Setup, places: Places, trials: list[Trial], problems: list[str], done: bool) -> None:
    document = setup_lines.as_document(found, places, trials, problems, done)
    documents.show(document)

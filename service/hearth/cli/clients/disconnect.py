"""`hearth disconnect`."""

import click

from hearth.cli.clients import client_changes
from hearth.cli.tools.diff import styled
from hearth.clients import connector
from hearth.clients.connector import TableOutcome
from hearth.clients.table import KINDS
from hearth.errors import ConfigError
from hearth.ops import connect_clients
from hearth.output import documents


@click.command(short_help="Bring MCP clients' files back.")
@click.argument("clients", nargs=-1, metavar="[CLIENT]...", shell_complete=client_changes.complete_client)
@click.option("--all", "every", is_flag=True, help="Every client that is connected.")
@click.option("--below", metavar="FOLDER", help="With --all: only entries that start a program below FOLDER.")
@click.option("--dry-run", is_flag=True, help="Show what would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def disconnect(clients: tuple[str, ...], every: bool, below: str | None, dry_run: bool, as_json: bool) -> int:
    """Undo `hearth connect`: a client's file becomes what it was, byte for byte. If the client has saved it since,
    only Hearth's entries give way to what was there before, and the rest stays. An entry that somebody has changed
    meanwhile is left, and said. A file that was made for it is removed. What somebody has removed is not brought
    back; the file as it was is then kept, and its place is said.

    Servers that were imported stay in Hearth's config.

    \b
    Examples:
      hearth disconnect cursor
      hearth disconnect --all --dry-run
      hearth disconnect --all
    """
    names = client_changes.check_names(clients)
    if below is not None and not every:
        raise click.UsageError("--below goes with --all: name clients, or say --all.")
    connected = connector.connected() if below is None else connect_clients.connected_below(below)
    if bool(names) == every:
        known = client_changes.enumeration(dict.fromkeys(each.client for each in connected)) if connected else "none"
        raise click.UsageError(f"Name clients, or say --all. Connected: {known}.")
    # The client of a damaged trace is unknown: the trace may belong to any client that was named and not found.
    damaged = connector.damaged()
    is_in_the_way = every or not {each.client for each in connected}.issuperset(names)
    done = connect_clients.restored((table for table in connected if every or table.client in names), dry_run)
    outcomes = done.outcomes
    problems = (damaged if is_in_the_way else []) + done.problems
    code = ConfigError.exit_code if is_in_the_way and damaged else done.exit_code
    if as_json:
        changes = [client_changes.document(outcome, "disconnected", dry_run) for outcome in outcomes]
        documents.show({"clients": changes, "problems": problems})
    else:
        report(outcomes, dry_run)
        _say_unconnected(names, [table.client for table in connected])
        for problem in problems:
            click.echo(f"{click.style('hearth:', fg='red')} {problem}", err=True)
        for problem in damaged if not is_in_the_way else ():
            click.echo(f"{click.style('note:', fg='yellow')} {problem}", err=True)
    return code


def report(outcomes: list[TableOutcome], dry_run: bool) -> None:
    """Print the diff of a dry run, or each client file that was restored."""
    for outcome in outcomes:
        for line in client_changes.shown(outcome) if dry_run else ():
            click.echo(styled(line))
        title = client_changes.title(outcome.table.client)
        for note in outcome.notes:
            click.echo(f"{click.style('note:', fg='yellow')} {title}: {note}", err=True)
        if outcome.changes and not dry_run:
            click.echo(f"{title} is disconnected: {_deed(outcome)}.")
    if not outcomes:
        click.echo("Nothing had to be undone.")


def _deed(outcome: TableOutcome) -> str:
    if outcome.is_removed:
        return f"{outcome.table.path} was made for it, and is removed"
    names = client_changes.enumeration(change.name for change in outcome.changes)
    exactly = ", every byte as it was" if outcome.is_exact else ""
    return f"{names} in {outcome.table.path}{exactly}"


def _say_unconnected(names: list[str], connected: list[str]) -> None:
    for name in names:
        if name not in connected:
            click.echo(f"{KINDS[name].title} is not connected.")

"""`hearth import`."""

import shlex
from collections.abc import Sequence

import click

from hearth.cli.clients import client_names, import_lines
from hearth.cli.clients.import_options import Manner, client_options, with_manner
from hearth.cli.target import with_places
from hearth.clients.importer.planner import ImportPlan
from hearth.clients.table import KINDS
from hearth.errors import ConfigError, Refused
from hearth.ops import gather_servers, import_servers
from hearth.ops.gather_servers import Gathered
from hearth.ops.input_answers import Answers, at_terminal
from hearth.output import documents, table, terminal
from hearth.output.spinner import Spinner
from hearth.paths import Places

WAITING = "looking at your clients; a keyring may want to be unlocked"


@click.command("import", short_help="Take over the servers of your MCP clients.")
@click.argument("targets", nargs=-1, metavar="[CLIENT | FILE]...", shell_complete=client_names.complete_client)
@client_options
@with_manner
@with_places
def import_(
    places: Places,
    targets: tuple[str, ...],
    clients: tuple[str, ...],
    scopes: tuple[str, ...],
    disabled: bool,
    manner: Manner,
) -> None:
    """Take over the servers of MCP clients into Hearth's config, or those of a file: mcpServers JSON, VS Code's
    mcp.json, Codex's TOML. The clients' files are only read; `hearth connect` then points the clients at Hearth.

    The same server in several clients becomes one. Tokens go where `hearth secret` keeps them, and the config
    gets references. Variables are resolved in this shell, as the service does not see it. Who shares each server is
    said with the reason.

    \b
    Examples:
      hearth import --dry-run             what would come of all clients
      hearth import claude-code codex
      hearth import ~/old/mcp.json
      hearth import --scope project       the servers of this folder's project
    """
    named, files = gather_servers.split_targets(targets)
    found = _gather([*clients, *named], files, scopes, places.config_file())
    answers = Answers(None, is_later=manner.can_ask or manner.dry_run)
    with Spinner(WAITING):
        made = import_servers.plan(places, found.found, answers, disabled)
    if not manner.as_json:
        show(made, found, places)
        if not files:
            say_more([*clients, *named], scopes, answers)
    if manner.dry_run or not made.links():
        _finish(made, None, places, manner.as_json)
        return
    if manner.can_ask:
        if not click.confirm("Import them?", default=True, err=True):
            raise Refused("nothing was done")
        made = import_servers.plan(places, found.found, Answers(at_terminal), disabled)
    elif not manner.yes and made.servers:
        raise Refused("there is no terminal to ask at, and nothing was done: say --yes, or --dry-run to look only")
    with Spinner("storing"):
        done = import_servers.carry_out(places, made)
    _finish(made, done, places, manner.as_json)


def _gather(clients: list[str], files: list[str], scopes: tuple[str, ...], own: str) -> Gathered:
    if not files:
        found = gather_servers.gather(clients, scopes, own)
        if found.problems and not found.tables:
            raise ConfigError(found.problems)
        return found
    parts = [gather_servers.gather_file(path) for path in files]
    if clients:
        parts.append(gather_servers.gather(clients, scopes, own))
    return Gathered(
        [table for part in parts for table in part.tables],
        [found for part in parts for found in part.found],
        [problem for part in parts for problem in part.problems],
    )


def show(made: ImportPlan, found: Gathered, places: Places) -> None:
    """Print the plan."""
    for problem in found.problems:
        click.echo(f"{click.style('note:', fg='yellow')} {problem}; its servers are left out", err=True)
    lines = import_lines.plan_lines(made, places.config_file(), terminal.width())
    click.echo("\n".join(lines) or nothing_found(found))


def say_more(clients: Sequence[str], scopes: Sequence[str], answers: Answers) -> None:
    """Say what will be asked for, and what was not looked at."""
    if answers.pending:
        click.echo(f"To be asked for: {', '.join(table.clean(each.description) for each in answers.pending)}.")
    for path in gather_servers.left_out(clients, scopes):
        click.echo(f"{path} is this project's, and others': left out without --scope project.")


def nothing_found(found: Gathered) -> str:
    """What is said when there is no server anywhere."""
    if found.tables:
        names = ", ".join(gather_servers.title(client) for client in found.clients())
        return f"No server was found in {names}."
    return f"No MCP client was found; looked for {', '.join(kind.title for kind in KINDS.values())}."


def _finish(made: ImportPlan, done: import_servers.Imported | None, places: Places, as_json: bool) -> None:
    if as_json:
        document = import_lines.as_document(made, places.config_file())
        document["imported"] = done is not None
        document["daemon"] = done.daemon if done else None
        documents.show(document)
        return
    if done is None:
        return
    if done.changed:
        click.echo(f"{len(made.servers)} added to {done.changed.path}. {done.daemon}")
        if done.secrets_in:
            click.echo(f"Secrets are kept in {done.secrets_in}.")
        words = shlex.join(["hearth", "remove", "NAME", *places.arguments()])
        click.echo(f"`{words}` takes one out again.")
    clients = dict.fromkeys(found.table.client for found, _ in made.links() if found.table.client in KINDS)
    if clients:
        words = shlex.join(["hearth", "connect", *clients, *places.arguments()])
        click.echo(f"The clients still start their own; `{words}` points them at Hearth.")

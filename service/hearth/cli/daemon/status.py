"""`hearth status`."""

import json

import click

from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.ops import tool_catalog
from hearth.output import status_lines, terminal
from hearth.paths import Places


@click.command(short_help="Say what runs, without waking anything.")
@click.option("--json", "as_json", is_flag=True, help="Print the status document as JSON.")
@with_places
def status(places: Places, as_json: bool) -> None:
    """Say whether the daemon runs, what it serves and how many are attached.

    Looks at the registry first and never wakes a daemon that is out. Exits with 0 in either case; with 4
    when a daemon runs and does not answer.

    \b
    Examples:
      hearth status
      hearth status --json | jq .pid
    """
    document = tool_catalog.complete_status(places, running_daemon.document(places))
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n".join(status_lines.status_lines(document, terminal.width())))

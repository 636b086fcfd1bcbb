"""`hearth sessions`."""

import json

import click

from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.ops import tool_catalog
from hearth.output import status_lines, terminal
from hearth.paths import Places


@click.command(short_help="List who is attached.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_places
def sessions(places: Places, as_json: bool) -> None:
    """List who is attached: every agent, editor or script with an open session. The owner has a star; one
    that does not answer (stopped with Ctrl-Z, say) a z. One over HTTP is idle between its requests.

    \b
    Examples:
      hearth sessions
      hearth sessions --json | jq '.[].client'
    """
    document = tool_catalog.complete_status(places, running_daemon.document(places))
    if as_json:
        click.echo(json.dumps(document.get("sessions") or [], indent=2))
    else:
        click.echo("\n".join(status_lines.sessions_text(document, terminal.width())))

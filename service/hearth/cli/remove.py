"""`hearth remove`."""

import json

import click

from hearth.cli import config_change, config_file, server_names
from hearth.cli.target import with_places
from hearth.config import edits
from hearth.paths import Places


@click.command(short_help="Take an MCP server out of the config.")
@click.argument("name", shell_complete=server_names.complete_server)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@with_places
def remove(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Take an MCP server out of the config. The rest of the file stays as it is, comments above the entry included; one
    with mistakes is refused. A running daemon takes it up at once, and lets the server's calls in flight
    finish. To leave a server out for a while, write `disabled = true` into its entry instead.

    \b
    Examples:
      hearth remove time
      hearth remove time --dry-run
    """

    def make(data: bytes | None) -> bytes:
        path = places.config_file()
        server_names.check([name], config_file.examined(path, data).config.servers, path)
        assert data is not None
        return edits.removed(path, data, name)

    changed = config_file.change(places, make, dry_run)._replace(warnings=[])
    daemon = None if dry_run else config_file.tell_daemon(places)
    if as_json:
        document = config_change.document("removed", name, changed, dry_run, [], daemon)
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif dry_run:
        click.echo("\n".join(config_change.diff(changed)))
    else:
        click.echo(f"{name} is no longer in {changed.path}. {daemon}")

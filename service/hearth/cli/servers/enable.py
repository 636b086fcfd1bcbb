"""`hearth enable` and `hearth disable`."""

import click

from hearth.cli import target
from hearth.cli.config import change
from hearth.cli.target import with_places
from hearth.config import editor
from hearth.config.schema import SERVERS
from hearth.ops import edit_config
from hearth.output import documents
from hearth.paths import Places


@click.command(short_help="Serve a disabled MCP server again.")
@click.argument("name", shell_complete=target.complete_server)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def enable(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Serve an MCP server again that was disabled: `disabled` is taken out of its entry in the config. Every other byte
    of the file stays, and a running daemon takes it up at once. Exits with 0 also if it is enabled already, with 2
    if there is no such server.

    \b
    Examples:
      hearth enable github
      hearth enable github --dry-run
    """
    _change(places, name, False, dry_run, as_json)


@click.command(short_help="Leave an MCP server out for a while.")
@click.argument("name", shell_complete=target.complete_server)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def disable(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Leave an MCP server out without losing its entry: `disabled = true` is written into it. A running daemon lets
    its calls in flight finish, ends it and tells the clients. `hearth enable` brings it back. Exits with 0 also if
    it is disabled already, with 2 if there is no such server.

    \b
    Examples:
      hearth disable github
      hearth disable github --json | jq -r .daemon
    """
    _change(places, name, True, dry_run, as_json)


def _change(places: Places, name: str, disabled: bool, dry_run: bool, as_json: bool) -> None:
    path = places.config_file()

    def make(data: bytes | None) -> bytes:
        servers = edit_config.examined(path, data).config.servers
        target.check_server_names([name], servers, path)
        assert data is not None
        if servers[name].disabled == disabled:
            return data
        if disabled:
            return editor.assigned(path, data, (SERVERS, name, "disabled"), True)
        return editor.unassigned(path, data, (SERVERS, name, "disabled"))

    action = "disabled" if disabled else "enabled"
    change.apply_change(places, name, action, make, dry_run, as_json)

"""`hearth connect`."""

import json

import click

from hearth import config
from hearth.bridge.options import MODES
from hearth.cli.entry import client_config
from hearth.cli.target import with_places
from hearth.errors import ConfigError
from hearth.paths import Places


@click.command(short_help="Print what connects an MCP client.")
@click.option("--print", "print_only", is_flag=True, help="Print the entry; change nothing.")
@click.option("--server", "servers", multiple=True, metavar="NAME", help="Offer only this server, under its own name.")
@click.option("--name", default="hearth", show_default=True, metavar="KEY", help="The entry's name in the client.")
@click.option("--mode", type=click.Choice(MODES), help="How tools are offered; without it the config decides.")
@click.option("--role", metavar="ROLE", help="The role that the agent claims.")
@click.option("--agent-id", metavar="ID", help="The id that the agent claims.")
@with_places
def connect(
    places: Places,
    print_only: bool,
    servers: tuple[str, ...],
    name: str,
    mode: str | None,
    role: str | None,
    agent_id: str | None,
) -> None:
    """Print the mcpServers entry that connects an MCP client, as JSON to paste into the client's config.

    With --server the entry offers one server under its tools' own names: a drop-in for the entry that the
    client has now. With --mode search the agent is given three tools that find, describe and call all
    others, however many there are; with --mode auto only where there are many. Writing into clients' files is not
    done yet, so --print must be given.

    \b
    Examples:
      hearth connect --print
      hearth connect --print --server github --server time
      hearth connect --print --mode search
    """
    if not print_only:
        raise click.UsageError("Say --print, and paste what it prints: clients' files are not written yet.")
    _note_unknown(places, servers)
    options = (("--mode", mode), ("--role", role), ("--agent-id", agent_id))
    extra = [word for option, value in options if value for word in (option, value)]
    click.echo(json.dumps(client_config(places, servers, name, extra), indent=2))


def _note_unknown(places: Places, servers: tuple[str, ...]) -> None:
    """The entry is printed all the same: the server may be configured later."""
    if not servers:
        return
    try:
        known = config.load(places).servers
    except ConfigError:
        # Nothing is known of what it means to say; `hearth config check` tells.
        return
    for server in servers:
        if server not in known:
            click.echo(f"hearth: note: no server {server!r} is configured in {places.config_file()}.", err=True)

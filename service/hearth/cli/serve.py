"""`hearth serve`."""

import click

from hearth.cli.target import with_places
from hearth.paths import Places


@click.command(short_help="Run the daemon in the foreground.")
@with_places
def serve(places: Places) -> int:
    """Run the daemon in the foreground until Ctrl-C. Seldom needed: systemd, or the first bridge, starts it
    by itself. Exits with 3 when another daemon of the same profile runs.

    \b
    Examples:
      hearth serve
      hearth serve --config ./mcp.json
    """
    from hearth.server import main

    return main(places.arguments())

"""`hearth restart`."""

import click

from hearth.cli import ending, liveness
from hearth.cli.control import Control
from hearth.cli.target import with_places
from hearth.paths import Places


@click.command(short_help="Replace the daemon; bridges come back.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    help="Seconds to wait for its end.",
)
@with_places
def restart(places: Places, yes: bool, timeout: float) -> None:
    """Send the daemon away and have every attached bridge come back at once, which lights a new one.

    For a new version of Hearth, say. Bridges repeat what was not answered; agents notice nothing. With
    nobody attached it stays out until the next connection.

    \b
    Examples:
      hearth restart
      hearth restart --yes
    """
    lit = liveness.find(places)
    if lit is None:
        click.echo("hearth is not running: the next connection lights it.")
        return
    with Control(lit.endpoint, lit.pid) as control:
        ending.ask_about_sessions(control, "restart", yes)
        ending.end(control, lit, restart=True, seconds=timeout)
    click.echo(f"pid {lit.pid} has gone; attached bridges, or the next connection, light a new one.")

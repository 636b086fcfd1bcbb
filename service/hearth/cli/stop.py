"""`hearth stop`."""

import click

from hearth.cli import ending, liveness
from hearth.cli.control import Control
from hearth.cli.target import with_places
from hearth.paths import Places


@click.command(short_help="Let the daemon finish, and go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    help="Seconds to wait for its end.",
)
@with_places
def stop(places: Places, yes: bool, timeout: float) -> None:
    """Let the daemon finish its calls, stop its MCP servers and go. Waits until its process has gone.

    When somebody is attached it says who and asks. Bridges survive: the next call of any of them lights a
    new daemon. When nothing runs there is nothing to do, and nothing is woken.

    \b
    Examples:
      hearth stop
      hearth stop --yes --profile work
    """
    lit = liveness.find(places)
    if lit is None:
        click.echo("hearth is not running.")
        return
    with Control(lit.endpoint, lit.pid) as control:
        ending.ask_about_sessions(control, "stop", yes)
        ending.end(control, lit, restart=False, seconds=timeout)
    click.echo(f"Stopped (pid {lit.pid}). The next connection lights it again.")

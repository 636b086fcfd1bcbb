"""`hearth logs`."""

import os
import sys

import click

from hearth.cli import journal, server_names, tail
from hearth.cli.numbers import WholeNumber
from hearth.cli.target import with_places
from hearth.errors import HearthError
from hearth.paths import Places


@click.command(short_help="Print the daemon's log, or a server's.")
@click.argument("name", required=False, shell_complete=server_names.complete_server)
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.option(
    "--lines",
    "-n",
    type=WholeNumber(min=0),
    default=50,
    show_default=True,
    help="How many lines to begin with.",
)
@with_places
def logs(places: Places, name: str | None, follow: bool, lines: int) -> None:
    """Print the daemon's log: from the journal when systemd starts the daemon, else from its log file.
    With NAME, print what that MCP server has written to its stderr, with time and pid.
    Works whether it runs or not, and wakes nothing.

    \b
    Examples:
      hearth logs -n 200
      hearth logs -f
      hearth logs github -f
    """
    if name is not None:
        _print_server(places, name, follow, lines)
        return
    command = journal.command(places, follow, lines)
    if command:
        sys.stdout.flush()
        os.execvp(command[0], command)
    if not os.path.lexists(places.log):
        raise HearthError(f"there is no log yet: {places.log} is written when the daemon first runs")
    tail.show(places.log, follow, lines)


def _print_server(places: Places, name: str, follow: bool, lines: int) -> None:
    path = places.server_log(name)
    # Also of a server that is configured no longer.
    if not os.path.lexists(path):
        _explain_absence(places, name, path, follow)
    tail.show(path, follow, lines)


def _explain_absence(places: Places, name: str, path: str, follow: bool) -> None:
    """Raise the reason why there is nothing to show; return where it is worth waiting for."""
    servers = server_names.configured(places)
    server_names.check([name], servers, places.config_file())
    if servers[name].command is None:
        raise HearthError(f"server {name!r} is reached by its url: what it writes to its stderr stays where it runs")
    if not follow:
        raise HearthError(f"server {name!r} has written nothing to its stderr yet: {path} is not there")

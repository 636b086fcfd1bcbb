"""`hearth logs`."""

import os
import sys

import click

from hearth.cli import journal, tail
from hearth.cli.target import with_places
from hearth.errors import HearthError
from hearth.paths import Places


@click.command(short_help="Print the daemon's log.")
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    help="How many lines to begin with.",
)
@with_places
def logs(places: Places, follow: bool, lines: int) -> None:
    """Print the daemon's log: from the journal when systemd starts the daemon, else from its log file.
    Works whether it runs or not, and wakes nothing.

    \b
    Examples:
      hearth logs -n 200
      hearth logs -f
    """
    command = journal.command(places, follow, lines)
    if command:
        sys.stdout.flush()
        os.execvp(command[0], command)
    _print_file(places.log, follow, lines)


def _print_file(path: str, follow: bool, lines: int) -> None:
    try:
        file = open(path, "rb")  # noqa: SIM115  # `follow` replaces it after a rotation
    except FileNotFoundError as exc:
        raise HearthError(f"there is no log yet: {path} is written when the daemon first runs") from exc
    except OSError as exc:
        raise HearthError(f"cannot read {path}: {exc.strerror}") from exc
    output = sys.stdout.buffer
    output.write(tail.last_lines(file, lines))
    output.flush()
    if not follow:
        file.close()
        return
    for data in tail.follow(path, file):
        output.write(data)
        output.flush()

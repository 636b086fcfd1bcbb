"""`hearth logs`."""

import os
import sys
import time

import click

from hearth.cli.daemon import journal, log_lines, tail
from hearth.cli.numbers import WholeNumber
from hearth.cli.servers import server_names
from hearth.cli.target import with_places
from hearth.errors import HearthError
from hearth.output import documents
from hearth.paths import Places

LINES_BY_DEFAULT = 50
# More than any log here holds; what `--since` leaves is printed whole.
ALL_LINES = 1_000_000_000


@click.command(short_help="Print the daemon's log, or a server's.")
@click.argument("name", required=False, shell_complete=server_names.complete_server)
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.option("--lines", "-n", type=WholeNumber(min=0),
              help=f"How many lines to begin with.  [default: {LINES_BY_DEFAULT}; all with --since]")  # fmt: skip
@click.option("--since", metavar="WHEN",
              help="Only lines from then on: 10m, 2h, 3d, today, 09:30, 2026-11-18, '2026-11-18 09:30'.")  # fmt: skip
@documents.json_option("Print an object on a line for each line: `time` and `text`.")
@with_places
def logs(places: Places, name: str | None, follow: bool, lines: int | None, since: str | None, as_json: bool) -> int:
    """Print the daemon's log: from the journal when systemd starts the daemon, else from its log file.
    With NAME, print what that MCP server has written to its stderr, with time and pid.
    Works whether it runs or not, and wakes nothing.

    Times are local. Lines that are printed with --json have their time in ISO 8601, null where a line has none.

    \b
    Examples:
      hearth logs -n 200
      hearth logs -f
      hearth logs github -f
      hearth logs --since 10m
      hearth logs github --since '2026-11-18 09:30' --json | jq -r .text
    """
    begin = _begin(since)
    count = lines if lines is not None else LINES_BY_DEFAULT if begin is None else ALL_LINES
    wanted = tail.LogSelection(follow, count, begin, as_json)
    if name is not None:
        _print_server(places, name, wanted)
        return 0
    command = journal.command(places, wanted)
    if command and as_json:
        return journal.show_json(command)
    if command:
        sys.stdout.flush()
        os.execvp(command[0], command)
    if not os.path.lexists(places.log):
        raise HearthError(f"there is no log yet: {places.log} is written when the daemon first runs")
    tail.show(places.log, wanted)
    return 0


def _begin(since: str | None) -> float | None:
    try:
        return None if since is None else log_lines.moment(since, time.time())
    except ValueError as exc:
        raise click.UsageError(f"--since: {exc}.") from exc


def _print_server(places: Places, name: str, wanted: tail.LogSelection) -> None:
    path = places.server_log(name)
    # Also of a server that is configured no longer.
    if not os.path.lexists(path):
        _explain_absence(places, name, path, wanted.follow)
    tail.show(path, wanted)


def _explain_absence(places: Places, name: str, path: str, follow: bool) -> None:
    """Raise the reason why there is nothing to show; return where it is worth waiting for."""
    servers = server_names.configured(places)
    server_names.check([name], servers, places.config_file())
    if servers[name].command is None:
        raise HearthError(f"server {name!r} is reached by its url: what it writes to its stderr stays where it runs")
    if not follow:
        raise HearthError(f"server {name!r} has written nothing to its stderr yet: {path} is not there")

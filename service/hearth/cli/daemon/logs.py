"""`hearth logs`."""

import json
import os
import shutil
import subprocess
import sys
import time

import click

from hearth.cli import target
from hearth.cli.daemon import log_lines
from hearth.cli.daemon.log_lines import LogSelection
from hearth.cli.target import WholeNumber, with_places
from hearth.control_client import running_daemon, systemd_unit
from hearth.errors import HearthError, Unreachable
from hearth.output import documents
from hearth.paths import Places

LINES_BY_DEFAULT = 50
# More lines than any log has: all lines that `--since` selects are printed.
ALL_LINES = 1_000_000_000


@click.command(short_help="Print the daemon's log, or a server's.")
@click.argument("name", required=False, shell_complete=target.complete_server)
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
    wanted = log_lines.LogSelection(follow, count, begin, as_json)
    if name is not None:
        _print_server(places, name, wanted)
        return 0
    command = journal_command(places, wanted)
    if command and as_json:
        return show_json(command)
    if command:
        sys.stdout.flush()
        os.execvp(command[0], command)
    if not os.path.lexists(places.log):
        raise HearthError(f"there is no log yet: {places.log} is written when the daemon first runs")
    log_lines.show_file(places.log, wanted)
    return 0


def _begin(since: str | None) -> float | None:
    try:
        return None if since is None else log_lines.moment(since, time.time())
    except ValueError as exc:
        raise click.UsageError(f"--since: {exc}.") from exc


def _print_server(places: Places, name: str, wanted: log_lines.LogSelection) -> None:
    path = places.server_log(name)
    # The log of a server that is no longer configured is shown, too.
    if not os.path.lexists(path):
        _explain_absence(places, name, path, wanted.follow)
    log_lines.show_file(path, wanted)


def _explain_absence(places: Places, name: str, path: str, follow: bool) -> None:
    """Raise an error that says why there is no log; return if a log may still appear."""
    servers = target.served(places)
    target.check_server_names([name], servers, places.config_file())
    if servers[name].command is None and servers[name].url is None:
        raise HearthError(f"{name!r} is a pack: what it has to say is in the daemon's log, `hearth logs`")
    if servers[name].command is None:
        raise HearthError(f"server {name!r} is reached by its url: what it writes to its stderr stays where it runs")
    if not follow:
        raise HearthError(f"server {name!r} has written nothing to its stderr yet: {path} is not there")


# --- the journal


def journal_command(places: Places, wanted: LogSelection) -> list[str] | None:
    """Return the journalctl command that shows the log, or None if the log is in the file."""
    units = systemd_unit.units_of(places)
    if units is None or not shutil.which("journalctl") or not _systemd_starts_it(places):
        return None
    asked = ["journalctl", *units.scope, "--unit", units.service, "--lines", str(wanted.lines)]
    if wanted.begin is not None:
        asked += ["--since", f"@{wanted.begin:.0f}"]
    if wanted.as_json:
        asked += ["--output", "json"]
    return [*asked, "--follow"] if wanted.follow else asked


def show_json(command: list[str]) -> int:
    """Run a journalctl with `--output json`, print its lines in the form of `hearth logs`, and return its exit code."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(_journal_entry(line))
            sys.stdout.buffer.flush()
    return process.returncode


def _journal_entry(line: bytes) -> bytes:
    fields = json.loads(line)
    message = fields.get("MESSAGE")
    # journalctl prints text that is not UTF-8 as a list of bytes, and very long text as null.
    text = bytes(message).decode("utf-8", "replace") if isinstance(message, list) else str(message or "")
    return log_lines.entry(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, text)


def _systemd_starts_it(places: Places) -> bool:
    daemon = running_daemon.find(places)
    if daemon:
        try:
            with daemon.control() as control:
                return control.status().get("activation") == "systemd"
        except Unreachable:
            # The log of a daemon that does not answer is needed most.
            service = systemd_unit.look(places, "service")
            return bool(service and service.pid == daemon.pid)
    held = systemd_unit.look(places, "socket")
    return bool(held and held.active in {"active", "failed"})

"""`hearth audit`: rows of the audit log, selected, followed, exported and verified. Reads the files; wakes nothing."""

import glob
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import click

from hearth.cli.daemon import logs
from hearth.cli.daemon_choice import WholeNumber, complete_server, with_places
from hearth.cli.messages import complain, json_option, json_text, note, tell
from hearth.cli.policy.role import complete_role
from hearth.control_client import systemd_unit
from hearth.errors import HearthError, Refused
from hearth.host import private_files
from hearth.host.folders import refusal
from hearth.output import table, terminal
from hearth.paths import Places
from hearth.policy import audit_reading
from hearth.policy.audit_files import AuditHead
from hearth.policy.audit_reading import AuditFilter, AuditRow, Verification

ROWS_BY_DEFAULT = 50
# No portable notification exists for a database that grows; a quarter of a second appears immediate.
POLL_SECONDS = 0.25
# A journal of many months is searched in seconds.
JOURNAL_SECONDS = 60.0
# As many as an id of a role token has; --json has all of a digest.
DIGEST_CHARACTERS = 12
# Rows of one table: columns are as wide as their widest cell, and a year of rows does not fit into memory.
TABLE_ROWS = 1000

_FILTERS = ("kind", "session", "client", "agent", "role", "server", "tool", "decision")
_HELP = {
    "kind": "call, decision, hook, stop, token, policy, session or audit.",
    "session": "Of this session.",
    "client": "Of this client.",
    "agent": "Of this agent.",
    "role": "Under this role.",
    "server": "To this server.",
    "tool": "To this tool, by the server's own name.",
    "decision": "With this decision: allow, deny, ask, approved, denied or expired.",
}
_COLUMNS = [
    table.Column("TIME"),
    table.Column("KIND", 1),
    table.Column("ROLE", 2, optional=True),
    table.Column("AGENT", 6, optional=True),
    table.Column("SESSION", 7, optional=True),
    table.Column("CLIENT", 8, optional=True),
    table.Column("TOOL", optional=True),
    table.Column("DECISION", optional=True),
    table.Column("BY", 4, optional=True),
    table.Column("OUTCOME", 5, optional=True),
    table.Column("TOOK", 9, optional=True),
    table.Column("DIGEST", 10, optional=True),
    table.Column("REASON", 3, optional=True),
]


def _filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(_FILTERS):
        complete = {"server": complete_server, "role": complete_role}.get(name)
        function = click.option(f"--{name}", metavar=name.upper(), help=_HELP[name], shell_complete=complete)(function)
    return function


@click.command(short_help="Show who did and decided what.")
@_filter_options
@click.option("--since", metavar="WHEN",
              help="Only from then on: 10m, 2h, 3d, today, 09:30, 2026-11-18, '2026-11-18 09:30'.")  # fmt: skip
@click.option("--until", metavar="WHEN", help="Only before then, in the same forms.")
@click.option("--lines", "-n", type=WholeNumber(min=0),
              help=f"How many rows, the newest ones.  [default: {ROWS_BY_DEFAULT}; all with --since]")  # fmt: skip
@click.option("--follow", "-f", is_flag=True, help="Go on printing what is added.")
@click.option("--export", metavar="PATH", type=click.Path(dir_okay=False),
              help="Write the selected rows to a new file, an object on a line; all without -n.")  # fmt: skip
@click.option("--verify", is_flag=True, help="Check that no row was changed, removed or cut off.")
@json_option("Print an object on a line for each row.")
@with_places
def audit(
    places: Places,
    since: str | None,
    until: str | None,
    lines: int | None,
    follow: bool,
    export: str | None,
    verify: bool,
    as_json: bool,
    **filters: str | None,
) -> int:
    """Show the audit log: calls, decisions and who made them, hooks, stop checks, tokens and policies. Hearth keeps it
    when there is a policy.toml. A value with `*`, `?` or `[` is a pattern.

    With --verify every row is checked, and the log is held against the heads that the daemon wrote to its own log
    and journal, by which a tail that was cut off is found. The exit code is 1 if anything is wrong. --since leaves
    out older heads: say it if you have moved an older audit log away yourself.

    \b
    Examples:
      hearth audit
      hearth audit --role dev --decision 'den*' --since today
      hearth audit --server github --tool 'merge_*' -n 10
      hearth audit -f --kind decision
      hearth audit --since 2026-11-01 --until 2026-12-01 --export november.jsonl
      hearth audit --json --since 1h | jq -r 'select(.outcome == "error") | .tool'
      hearth audit --verify
    """
    begin, end = _moment("--since", since), _moment("--until", until)
    if verify:
        _refuse_with_verify(until=until, lines=lines, follow=follow, export=export, **filters)
        return _verify(places, begin, as_json)
    if export and follow:
        raise click.UsageError("--export writes what there is, and --follow does not end: give one of them.")
    wanted = AuditFilter(**filters, since=begin, until=end)
    if export:
        return _export(places, wanted, lines, export, as_json)
    if not follow and not as_json and not os.path.isdir(places.audit):
        click.echo(f"There is no audit log: {_why_none(places)}")
        return 0
    count = lines if lines is not None or begin is not None else ROWS_BY_DEFAULT
    if follow:
        _follow(places.audit, wanted, count, as_json)
    elif as_json:
        for row in audit_reading.rows(places.audit, wanted, count):
            click.echo(json_line(row))
    else:
        _show(audit_reading.rows(places.audit, wanted, count))
    return 0


def _why_none(places: Places) -> str:
    if os.path.exists(places.policy_file()):
        return f"nothing was recorded yet in {places.audit}."
    return f"{places.policy_file()} does not exist. `hearth policy init` writes one."


def _moment(option: str, text: str | None) -> float | None:
    try:
        return None if text is None else logs.moment(text, time.time())
    except ValueError as exc:
        raise click.UsageError(f"{option}: {exc}.") from exc


# --- printing


def document(row: AuditRow) -> dict[str, object]:
    """Return a row for programs; what is unknown is null."""
    values = {**row.entry._asdict(), "time": _iso(row.entry.time)}
    keys = {"decided_by": "decidedBy"}
    entry = {keys.get(name, name): value if value != "" else None for name, value in values.items()}
    return {"seq": row.seq, **entry, "hash": row.hash}


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="milliseconds")


def json_line(row: AuditRow) -> str:
    """Return a row as JSON on one line."""
    return json_text(document(row), indent=None)


def cells(row: AuditRow) -> list[str]:
    """Return a row for people: the cells of `_COLUMNS`."""
    entry = row.entry
    by = "/".join(part for part in (entry.decided_by, entry.channel) if part)
    tool = "__".join(part for part in (entry.server, entry.tool) if part)
    took = "" if entry.duration is None else f"{entry.duration * 1000:.0f} ms"
    moment = datetime.fromtimestamp(entry.time).strftime("%Y-%m-%d %H:%M:%S")
    who = [entry.role, entry.agent, entry.session, entry.client]
    return [
        moment,
        entry.kind,
        *who,
        tool,
        entry.decision,
        by,
        entry.outcome,
        took,
        entry.digest[:DIGEST_CHARACTERS],
        entry.reason,
    ]


def _show(rows: Iterator[AuditRow]) -> None:
    shown = [cells(row) for row in islice(rows, TABLE_ROWS)]
    if not shown:
        click.echo("No row of the audit log is like that.")
    while shown:
        click.echo("\n".join(table.ranked(_COLUMNS, shown, terminal.width())))
        shown = [cells(row) for row in islice(rows, TABLE_ROWS)]


def _follow(folder: str, wanted: AuditFilter, count: int | None, as_json: bool) -> None:
    # Before the rows are read: one that is written meanwhile is shown by the loop.
    seen = audit_reading.last_number(folder)
    for row in audit_reading.rows(folder, wanted, count):
        if row.seq <= seen:
            _echo(row, as_json)
    while True:
        last = audit_reading.last_number(folder)
        for row in audit_reading.rows_after(folder, wanted, seen):
            if row.seq <= last:
                _echo(row, as_json)
        seen = max(seen, last)
        time.sleep(POLL_SECONDS)


def _echo(row: AuditRow, as_json: bool) -> None:
    click.echo(json_line(row) if as_json else table.clean(table.GAP.join(cell for cell in cells(row) if cell)))
    sys.stdout.flush()


# --- export


def _export(places: Places, wanted: AuditFilter, lines: int | None, path: str, as_json: bool) -> int:
    if os.path.lexists(path):
        raise Refused(f"{path} exists already, and is left alone: name a new file, or remove this one")
    # A name of its own until it is complete: half an export must not look like a whole one.
    temporary = private_files.beside(path)
    count = 0
    try:
        try:
            with open(private_files.open_private(temporary), "w", encoding="utf-8") as file:
                for row in audit_reading.rows(places.audit, wanted, lines):
                    file.write(json.dumps(document(row)) + "\n")
                    count += 1
            private_files.replace(temporary, path)
        finally:
            private_files.remove(temporary)
    except OSError as exc:
        raise refusal("write", path, exc) from exc
    rows = "1 row is" if count == 1 else f"{count} rows are"
    tell(as_json, {"path": os.path.abspath(path), "rows": count}, f"{rows} in {path}, for you only.")
    return 0


# --- verification


def _refuse_with_verify(**others: object) -> None:
    for name, value in others.items():
        if value:
            raise click.UsageError(f"--verify checks the whole log: leave out --{name}.")


def _verify(places: Places, begin: float | None, as_json: bool) -> int:
    found = audit_reading.verify(places.audit, recorded_heads(places, begin))
    tell(as_json, {"ok": found.ok, **found._asdict(), "path": places.audit}, *_summary(places, found))
    if not as_json:
        complain(*map(table.clean, found.problems))
    return 0 if found.ok else HearthError.exit_code


def _summary(places: Places, found: Verification) -> list[str]:
    if not found.ok:
        return []
    if not found.last:
        return [f"There is nothing to verify: {places.audit} has no rows, and no log tells of any."]
    heads = "1 recorded head agrees" if found.heads == 1 else f"{found.heads} recorded heads agree"
    return [f"Rows {found.first} to {found.last} are as they were written, and {heads} with them."]


def recorded_heads(places: Places, begin: float | None) -> list[AuditHead]:
    """Return the heads in the daemon's log files and its journal, since then if given."""
    return audit_reading.heads_in([*_log_lines(places, begin), *_journal_lines(places, begin)])


def _log_lines(places: Places, begin: float | None) -> Iterator[str]:
    for path in (places.log, *sorted(glob.glob(glob.escape(places.log) + ".[0-9]"))):
        try:
            with open(path, "rb", opener=private_files.open_to_read) as file:
                for line in file:
                    if b"audit head" in line and (begin is None or (logs.stamp(line) or 0.0) >= begin):
                        yield line.decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except OSError as exc:
            note(f"{path} cannot be read ({exc.strerror}): its heads are not compared")


def _journal_lines(places: Places, begin: float | None) -> list[str]:
    units = systemd_unit.units_of(places)
    if units is None or not shutil.which("journalctl"):
        return []
    command = ["journalctl", *units.scope, "--unit", units.service, "--output", "cat", "--grep", "audit head count="]
    if begin is not None:
        command += ["--since", f"@{begin:.0f}"]
    try:
        found = subprocess.run(command, capture_output=True, check=False, timeout=JOURNAL_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as exc:
        note(f"the journal cannot be read ({exc}): its heads are not compared")
        return []
    said = found.stderr.decode("utf-8", "replace").strip()
    # Without a match the exit code is 1, too, and nothing is said.
    if found.returncode and said and "No journal files were found" not in said:
        note(table.clean(f"the journal cannot be read ({said.splitlines()[0]}): its heads are not compared"))
    return found.stdout.decode("utf-8", "replace").splitlines()

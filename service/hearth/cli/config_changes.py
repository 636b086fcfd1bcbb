"""Text and JSON that verbs print about a change to the config."""

import difflib
from typing import Any

import click

from hearth.ops import edit_config
from hearth.ops.edit_config import Change, Changed
from hearth.output import documents, table
from hearth.paths import Places


def diff(changed: Changed) -> list[str]:
    """Return the lines that differ, without context lines: these may contain secrets of other servers."""
    former, new = (_lines(data) for data in (changed.former or b"", changed.new))
    found = list(difflib.unified_diff(former, new, changed.path, changed.path, n=0, lineterm=""))
    return [line.rstrip("\r") for line in found]


def document(action: str, name: str, changed: Changed, dry_run: bool, notes: list[str], daemon: str | None) -> Any:
    """Return the change as a JSON document."""
    return {
        "action": action,
        "name": name,
        "path": changed.path,
        "dryRun": dry_run,
        "created": changed.former is None,
        "diff": diff(changed),
        "warnings": notes + changed.warnings,
        "daemon": daemon,
    }


def _lines(data: bytes) -> list[str]:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return data.decode(encoding, "replace").split("\n")


# --- single values


def apply_change(
    places: Places,
    name: str,
    action: str,
    make: Change,
    dry_run: bool,
    as_json: bool,
    notes: list[str] | None = None,
    at_start: bool = False,
) -> None:
    """Change the config and print the result. `make` may add to the notes. Raises ConfigError, Refused.

    `at_start`: the change takes effect at the next start of the daemon.
    """
    changed = edit_config.change(places, make, dry_run)._replace(warnings=[])
    is_new = changed.new != changed.former
    daemon = edit_config.tell_daemon(places, at_start) if is_new and not dry_run else None
    if as_json:
        documents.show(document(action, name, changed, dry_run, notes or [], daemon))
        return
    for note in notes or ():
        click.echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
    if not is_new:
        click.echo(table.clean(f"{name} is {action} already."))
    elif dry_run:
        click.echo("\n".join(diff(changed)))
    else:
        click.echo(table.clean(f"{name} is {action} in {changed.path}. {daemon}"))

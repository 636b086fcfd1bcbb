"""A change of a value in the config, as the verbs do it that change one: made, taken up by a daemon, and told of."""

import click

from hearth.cli.config import change
from hearth.ops import edit_config
from hearth.ops.edit_config import Change
from hearth.output import documents, table
from hearth.paths import Places


def apply(
    places: Places,
    name: str,
    action: str,
    make: Change,
    dry_run: bool,
    as_json: bool,
    notes: list[str] | None = None,
    at_start: bool = False,
) -> None:
    """Change the config and print what was done. `make` may add to the notes. Raises ConfigError, Refused.

    `at_start`: a running daemon takes the change up when it starts next.
    """
    changed = edit_config.change(places, make, dry_run)._replace(warnings=[])
    is_new = changed.new != changed.former
    daemon = edit_config.tell_daemon(places, at_start) if is_new and not dry_run else None
    if as_json:
        documents.show(change.document(action, name, changed, dry_run, notes or [], daemon))
        return
    for note in notes or ():
        click.echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
    if not is_new:
        click.echo(table.clean(f"{name} is {action} already."))
    elif dry_run:
        click.echo("\n".join(change.diff(changed)))
    else:
        click.echo(table.clean(f"{name} is {action} in {changed.path}. {daemon}"))

"""A change of a value in the config, as the verbs do it that change one: made, taken up by a daemon, and told of."""

import click

from hearth.cli import config_change, config_file, documents, table
from hearth.cli.config_file import Change
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
    changed = config_file.change(places, make, dry_run)._replace(warnings=[])
    is_new = changed.new != changed.former
    daemon = config_file.tell_daemon(places, at_start) if is_new and not dry_run else None
    if as_json:
        documents.show(config_change.document(action, name, changed, dry_run, notes or [], daemon))
        return
    for note in notes or ():
        click.echo(f"{click.style('note:', fg='yellow')} {note}", err=True)
    if not is_new:
        click.echo(table.clean(f"{name} is {action} already."))
    elif dry_run:
        click.echo("\n".join(config_change.diff(changed)))
    else:
        click.echo(table.clean(f"{name} is {action} in {changed.path}. {daemon}"))

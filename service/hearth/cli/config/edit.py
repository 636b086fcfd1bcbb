"""`hearth config edit`."""

import os
import sys

import click

from hearth.cli.config import change
from hearth.cli.target import with_places
from hearth.config import editor
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError
from hearth.host import private_files
from hearth.ops import edit_config, shutdown
from hearth.output import documents
from hearth.paths import Places


@click.command(short_help="Change the file in your editor.")
@documents.json_option("Print what was changed as JSON; asks nothing.")
@with_places
def edit(places: Places, as_json: bool) -> None:
    """Open the config in your editor ($VISUAL, $EDITOR or what the system has), check what was saved and put it in
    place. The file itself stays as it was until the new text is right: with mistakes in it you are asked whether to
    edit again. A text that you give up is kept beside the config, and the exit code is 2.

    A running daemon takes the change up at once.

    \b
    Examples:
      hearth config edit
      EDITOR=nano hearth config edit --profile work
    """
    path = places.config_file()
    former = read_file(path, FILE_LIMIT_BYTES)
    text = editor.blank(path) if former is None else former
    while True:
        saved = click.edit(text, extension=os.path.splitext(path)[1] or ".toml")
        if saved is None or saved == former:
            _say(as_json, edit_config.Changed(path, former, former or b"", []), None)
            return
        text = saved
        try:
            changed = edit_config.replace(places, former, text)
            break
        except ConfigError as exc:
            _offer_another_try(path, text, exc, as_json)
    _say(as_json, changed, edit_config.tell_daemon(places))


def _offer_another_try(path: str, text: bytes, error: ConfigError, as_json: bool) -> None:
    """Return if the person edits again. Raises ConfigError if not; the text is kept."""
    if not as_json and sys.stdin.isatty():
        for problem in error.problems:
            click.echo(f"{click.style('problem:', fg='red')} {problem}", err=True)
        if shutdown.confirm("The config is not changed. Edit again?"):
            return
        error = ConfigError([])
    kept = f"{path}.rejected"
    private_files.write(kept, text)
    raise ConfigError([*error.problems, f"{path} is not changed; your text is in {kept}"])


def _say(as_json: bool, changed: edit_config.Changed, daemon: str | None) -> None:
    if as_json:
        documents.show(change.document("edited", os.path.basename(changed.path), changed, False, [], daemon))
    elif daemon is None:
        click.echo(f"{changed.path} is not changed.")
    else:
        click.echo(f"{changed.path} is changed. {daemon}")

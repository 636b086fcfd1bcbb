"""`hearth config edit|show|check|path`, and the group that `get` and `set` belong to."""

import json
import os
import sys

import click

from hearth import config as configuration
from hearth.cli import asking
from hearth.cli.config import change
from hearth.cli.config.values import get, set_
from hearth.cli.target import with_places
from hearth.config import editor
from hearth.config import show as config_show
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.errors import ConfigError
from hearth.host import private_files
from hearth.ops import edit_config
from hearth.output import documents, status_lines, table, terminal
from hearth.paths import Places
from hearth.secrets import references


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
    """Return if the user wants to edit again. Raises ConfigError if not; the text is kept."""
    if not as_json and sys.stdin.isatty():
        for problem in error.problems:
            click.echo(f"{click.style('problem:', fg='red')} {problem}", err=True)
        if asking.confirm("The config is not changed. Edit again?"):
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


@click.group()
def config() -> None:
    """Look at the configuration, and change it: what is in force, what is wrong with it, where it is.

    It is read from config.toml, or from any JSON file with mcpServers in it; HEARTH_* variables go over the
    file, and flags over both.

    \b
    Examples:
      hearth config path               the file that is read
      hearth config check              is it right? (exit code 2 if not)
      hearth config show               every value, and where it comes from
      hearth config get idle_timeout   one value
      hearth config set idle_timeout 600
      hearth config edit               in your editor, checked before it is saved
    """


config.add_command(get)


config.add_command(set_)


config.add_command(edit)


@config.command()
@documents.json_option("Print the path, and whether the file exists, as JSON.")
@with_places
def path(places: Places, as_json: bool) -> None:
    """Print the path of the file that is read, or would be if it existed.

    \b
    Examples:
      $EDITOR "$(hearth config path)"
      hearth config path --profile work
      hearth config path --json | jq .exists
    """
    found = places.config_file()
    if as_json:
        documents.show({"path": found, "exists": os.path.exists(found)})
    else:
        click.echo(found)


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@with_places
def show(places: Places, as_json: bool) -> None:
    """Print the configuration in force, and where each value comes from. Values of env and headers are
    masked; references such as ${TOKEN} are shown, not what they stand for.

    This is what a daemon started from this shell would use; one that systemd starts has systemd's environment.

    \b
    Examples:
      hearth config show
      HEARTH_IDLE_TIMEOUT=0 hearth config show --json | jq .settings.idle_timeout
    """
    found = configuration.examine(places)
    if found.problems:
        raise ConfigError(found.problems)
    if as_json:
        documents.show(config_show.document(found))
        return
    rows = [
        (name, json.dumps(setting["value"]), str(setting["origin"]))
        for name, setting in config_show.settings(found).items()
    ]
    click.echo("\n".join(table.columns(("SETTING", "VALUE", "FROM"), rows, terminal.width())))
    for name, spec in found.config.servers.items():
        click.echo(f"\nmcpServers.{table.clean(name)}  ({found.server_origin(name)})")
        for key, value in config_show.server(spec).items():
            click.echo(f"  {key} = {documents.text(value, None)}")
    for name, spec in found.config.packs.items():
        click.echo(f"\npacks.{table.clean(name)}")
        for key, value in config_show.pack(spec).items():
            click.echo(f"  {key} = {documents.text(value, None)}")


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print the problems and warnings as JSON.")
@with_places
def check(places: Places, as_json: bool) -> int:
    """Look for mistakes: keys that are not known, values that cannot be, servers without a command. Prints
    all of them with file and line. Exits with 2 if there is a problem, with 0 if there are warnings only.

    Nothing is started and no daemon is asked. References are tried in this shell's environment.

    \b
    Examples:
      hearth config check && hearth reload
      hearth config check --config ~/.claude.json
    """
    found = configuration.examine(places)
    enabled = [spec for spec in found.config.servers.values() if not spec.disabled]
    warnings = found.warnings + references.unresolved(enabled, os.environ)
    if as_json:
        click.echo(json.dumps({"path": found.path, "problems": found.problems, "warnings": warnings}, indent=2))
        return ConfigError.exit_code if found.problems else 0
    for problem in found.problems:
        click.echo(f"{click.style('problem:', fg='red')} {table.clean(problem)}")
    for warning in warnings:
        click.echo(f"{click.style('warning:', fg='yellow')} {table.clean(warning)}")
    if not found.problems:
        servers = status_lines.count(len(found.config.servers), "MCP server")
        state = f"is right: {servers}" if found.config.hash else "does not exist, so the defaults hold"
        click.echo(f"{found.path} {state}.")
    return ConfigError.exit_code if found.problems else 0

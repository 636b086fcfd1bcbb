"""`hearth config show|check|path`, and the group that `get`, `set` and `edit` belong to."""

import json
import os

import click

from hearth import config as configuration
from hearth.cli.config.edit import edit
from hearth.cli.config.values import get, set_
from hearth.cli.target import with_places
from hearth.config import show as config_show
from hearth.errors import ConfigError
from hearth.output import documents, status_lines, table, terminal
from hearth.paths import Places
from hearth.secrets import references


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

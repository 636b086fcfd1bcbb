"""`hearth config get` and `hearth config set`."""

import os

import click
from click.shell_completion import CompletionItem

from hearth import config as configuration
from hearth.cli.config import keys, value_change
from hearth.cli.servers import server_names
from hearth.cli.target import with_places
from hearth.config import editor, show
from hearth.config.schema import AT_START, variable_of
from hearth.errors import ConfigError
from hearth.ops import edit_config, literal_secrets
from hearth.output import documents
from hearth.paths import Places


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = server_names.places_of(ctx)
    servers = server_names.configured(places) if places else {}
    return [CompletionItem(name) for name in keys.names(servers) if name.startswith(incomplete)]


@click.command(short_help="Print one value.")
@click.argument("key", shell_complete=_complete)
@documents.json_option("Print the key, its value and where it comes from as JSON.")
@with_places
def get(places: Places, key: str, as_json: bool) -> None:
    """Print one value of the configuration in force: of a setting, of a server or of a key of a server. Texts are
    printed as they are, everything else as JSON. Values of env and headers are masked.

    Exits with 2 when there is no such key, or when the config has mistakes.

    \b
    Examples:
      hearth config get idle_timeout
      hearth config get mcpServers.github.command
      hearth config get mcpServers.github --json | jq .value.args
    """
    found = configuration.examine(places)
    if found.problems:
        raise ConfigError(found.problems)
    name = keys.parse(key, found.config.servers)
    if name.setting:
        value, origin = show.setting_value(found.config, name.setting), found.origin(name.setting)
    else:
        server = name.server or ""
        entry = show.server(found.config.servers[server])
        value, origin = entry.get(name.key) if name.key else entry, found.server_origin(server)
    if as_json:
        documents.show({"key": key, "value": value, "origin": origin})
    else:
        click.echo(value if isinstance(value, str) else documents.text(value, None))


@click.command("set", short_help="Change one value.")
@click.argument("key", shell_complete=_complete)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Take the value out, so that the default holds.")
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def set_(places: Places, key: str, value: str | None, unset: bool, dry_run: bool, as_json: bool) -> None:
    """Change one value in the config file: of a setting, or of a key of a server. Every other byte of the file stays.
    A value that cannot be used is refused, and so is a file with mistakes (exit code 2). A running daemon takes the
    change up at once.

    Lists are written with commas for a setting (alice.example,bob.example), and as JSON for a key of a server.

    \b
    Examples:
      hearth config set idle_timeout 600
      hearth config set owner.approve always
      hearth config set mcpServers.github.call_timeout 60
      hearth config set mcpServers.github.args '["-y", "server-github"]' --dry-run
      hearth config set idle_timeout --unset
    """
    if unset == (value is not None):
        raise click.UsageError("Give a VALUE, or --unset, and not both.")
    path, notes = places.config_file(), list[str]()

    def make(data: bytes | None) -> bytes:
        name = keys.parse(key, edit_config.examined(path, data).config.servers)
        if value is None:
            if name.key is None and name.server:
                raise click.UsageError(f"`hearth remove {name.server}` takes a whole server out.")
            if data is None:
                raise click.UsageError(f"{path} does not exist, so the default holds already.")
            return editor.unassigned(path, data, name.path)
        parsed = keys.value(name, value)
        if name.server and name.key:
            notes[:] = literal_secrets.place_elsewhere(name.server, {name.key: parsed}, ask=False)
        return editor.assigned(path, data, name.path, parsed)

    if os.environ.get(variable_of(key)):
        notes.append(f"{variable_of(key)} is set in this shell, and wins over the file")
    value_change.apply(
        places, key, "unset" if unset else "set", make, dry_run, as_json, notes, at_start=key in AT_START
    )

"""`hearth config get` and `hearth config set`."""

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from hearth import config as configuration
from hearth.cli import target
from hearth.cli.config import change
from hearth.cli.servers import add
from hearth.cli.target import with_places
from hearth.config import editor, show
from hearth.config.schema import AT_START, SERVER_KEYS, SERVERS, SETTINGS, path_of, variable_of
from hearth.config.spelling import nearest
from hearth.config.value_kinds import BadValue
from hearth.errors import ConfigError
from hearth.ops import edit_config, literal_secrets
from hearth.output import documents
from hearth.paths import Places

_PREFIX = f"{SERVERS}."


class KeyName(NamedTuple):
    """Name of a setting, of a server, or of a key of a server."""

    setting: str | None = None
    server: str | None = None
    key: str | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """Keys that lead to the value in a file."""
        if self.setting:
            return tuple(map(str, path_of(self.setting)))
        return tuple(part for part in (SERVERS, self.server, self.key) if part is not None)


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = target.places_of(ctx)
    servers = target.configured(places) if places else {}
    return [CompletionItem(name) for name in key_names(servers) if name.startswith(incomplete)]


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
    name = parse_key(key, found.config.servers)
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
        name = parse_key(key, edit_config.examined(path, data).config.servers)
        if value is None:
            if name.key is None and name.server:
                raise click.UsageError(f"`hearth remove {name.server}` takes a whole server out.")
            if data is None:
                raise click.UsageError(f"{path} does not exist, so the default holds already.")
            return editor.unassigned(path, data, name.path)
        parsed = parse_value(name, value)
        if name.server and name.key:
            notes[:] = literal_secrets.place_elsewhere(name.server, {name.key: parsed})
        return editor.assigned(path, data, name.path, parsed)

    if os.environ.get(variable_of(key)):
        notes.append(f"{variable_of(key)} is set in this shell, and wins over the file")
    change.apply_change(
        places, key, "unset" if unset else "set", make, dry_run, as_json, notes, at_start=key in AT_START
    )


# --- keys


def parse_key(text: str, servers: Iterable[str]) -> KeyName:
    """Parse a name. Raises click.UsageError, which suggests the nearest name."""
    if text in SETTINGS:
        return KeyName(setting=text)
    if not text.startswith(_PREFIX):
        raise click.UsageError(f"There is no setting {text!r}.{_hint(text, SETTINGS)}")
    rest = text.removeprefix(_PREFIX)
    # A server's name may contain dots: the longest name that fits is meant.
    for name in sorted(servers, key=len, reverse=True):
        if rest == name:
            return KeyName(server=name)
        if rest.startswith(f"{name}."):
            key = rest.removeprefix(f"{name}.")
            if key not in SERVER_KEYS:
                raise click.UsageError(f"A server has no key {key!r}.{_hint(key, SERVER_KEYS)}")
            return KeyName(server=name, key=key)
    raise click.UsageError(f"There is no server for {text!r} in the config.{_hint(rest.partition('.')[0], servers)}")


def parse_value(name: KeyName, text: str) -> Any:
    """Parse the value of a name, with the checks of the config's reader. Raises click.UsageError."""
    if name.setting is None:
        if name.key is None:
            raise click.UsageError(
                "Name a key of the server, such as `.call_timeout`; `hearth add` writes a whole one."
            )
        found = add.parse_setting(name.key, text)
        add.check_setting(name.key, found)
        return found
    kind = SETTINGS[name.setting]
    found = kind.from_text(text)
    try:
        kind.check(found)
    except BadValue as exc:
        raise click.UsageError(f"{name.setting} {exc}.") from exc
    return found


def key_names(servers: Iterable[str]) -> list[str]:
    """Return every valid name, for completion."""
    return [*SETTINGS, *(f"{_PREFIX}{server}.{key}" for server in servers for key in SERVER_KEYS)]


def _hint(text: str, known: Iterable[str]) -> str:
    near = nearest(text, list(known))
    return f" Did you mean {near!r}?" if near else " `hearth config show` lists what there is."

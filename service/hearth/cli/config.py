"""`hearth config edit|show|check|path|get|set`."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from hearth import config as configuration
from hearth.cli import config_changes, daemon_choice
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import completed, confirm, json_option, json_text, print_json, suggestion, tell
from hearth.config import editor
from hearth.config import show as config_show
from hearth.config.loader import FILE_LIMIT_BYTES, read_file
from hearth.config.schema import AT_START, SERVER_KEYS, SERVERS, SETTINGS, path_of, variable_of
from hearth.config.value_kinds import BadValue
from hearth.errors import ConfigError
from hearth.host import private_files
from hearth.ops import edit_config
from hearth.output import status_lines, table, terminal
from hearth.paths import Places
from hearth.secrets import references

_PREFIX = f"{SERVERS}."


@click.group()
def config() -> None:
    """Look at the configuration, and change it: what is in force, what is wrong with it, where it is.

    The file is config.toml, or any JSON file with mcpServers in it; HEARTH_* variables go over the file, and flags
    over both.

    \b
    Examples:
      hearth config path               the file that is read
      hearth config check              is it right? (exit code 2 if not)
      hearth config show               every value, and where it comes from
      hearth config get idle_timeout   one value
      hearth config set idle_timeout 600
      hearth config edit               in your editor, checked before it is saved
    """


@config.command()
@json_option("Print the path, and whether the file exists, as JSON.")
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
    tell(as_json, {"path": found, "exists": os.path.exists(found)}, found)


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
    found = daemon_choice.examined(places)
    if as_json:
        print_json(config_show.document(found))
        return
    rows = [
        (name, json.dumps(setting["value"]), str(setting["origin"]))
        for name, setting in config_show.settings(found).items()
    ]
    click.echo("\n".join(table.columns(("SETTING", "VALUE", "FROM"), rows, terminal.width())))
    for name, spec in found.config.servers.items():
        _show_entry(f"mcpServers.{table.clean(name)}  ({found.server_origin(name)})", config_show.server(spec))
    for name, spec in found.config.packs.items():
        _show_entry(f"packs.{table.clean(name)}", config_show.pack(spec))
    for name, provider in found.config.agents.providers.items():
        _show_entry(f"agents.providers.{table.clean(name)}", config_show.provider(provider))


def _show_entry(title: str, entry: Mapping[str, Any]) -> None:
    click.echo("\n".join(["", title, *(f"  {key} = {json_text(value, None)}" for key, value in entry.items())]))


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
    lines = [f"{click.style('problem:', fg='red')} {table.clean(problem)}" for problem in found.problems]
    lines += [f"{click.style('warning:', fg='yellow')} {table.clean(warning)}" for warning in warnings]
    if not found.problems:
        servers = status_lines.count(len(found.config.servers), "MCP server")
        state = f"is right: {servers}" if found.config.hash else "does not exist, so the defaults hold"
        lines.append(f"{found.path} {state}.")
    tell(as_json, {"path": found.path, "problems": found.problems, "warnings": warnings}, *lines)
    return ConfigError.exit_code if found.problems else 0


# --- edit


@config.command(short_help="Change the file in your editor.")
@json_option("Print what was changed as JSON; asks nothing.")
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
    # Before anybody types.
    edit_config.check(places)
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
        if confirm("The config is not changed. Edit again?"):
            return
        error = ConfigError([])
    kept = f"{path}.rejected"
    private_files.write(kept, text)
    raise ConfigError([*error.problems, f"{path} is not changed; your text is in {kept}"])


def _say(as_json: bool, changed: edit_config.Changed, daemon: str | None) -> None:
    document = config_changes.document("edited", os.path.basename(changed.path), changed, False, [], daemon)
    said = "is not changed." if daemon is None else f"is changed. {daemon}"
    tell(as_json, document, f"{changed.path} {said}")


# --- get and set


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
    places = daemon_choice.places_of(ctx)
    servers = daemon_choice.configured(places) if places else {}
    return completed(key_names(servers), incomplete)


@config.command(short_help="Print one value.")
@click.argument("key", shell_complete=_complete)
@json_option("Print the key, its value and where it comes from as JSON.")
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
    found = daemon_choice.examined(places)
    name = parse_key(key, found.config.servers)
    if name.setting:
        value, origin = config_show.setting_value(found.config, name.setting), found.origin(name.setting)
    else:
        server = name.server or ""
        entry = config_show.server(found.config.servers[server])
        value, origin = entry.get(name.key) if name.key else entry, found.server_origin(server)
    shown = value if isinstance(value, str) else json_text(value, None)
    tell(as_json, {"key": key, "value": value, "origin": origin}, shown)


@config.command("set", short_help="Change one value.")
@click.argument("key", shell_complete=_complete)
@click.argument("value", required=False)
@click.option("--unset", is_flag=True, help="Take the value out, so that the default holds.")
@config_changes.with_edit
def set_(edit: config_changes.ConfigEdit, key: str, value: str | None, unset: bool) -> None:
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
    path, notes = edit.path, list[str]()

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
            from hearth.ops import import_servers  # the other verbs do without it

            notes[:] = import_servers.place_elsewhere(name.server, {name.key: parsed})
        return editor.assigned(path, data, name.path, parsed)

    if os.environ.get(variable_of(key)):
        notes.append(f"{variable_of(key)} is set in this shell, and wins over the file")
    edit.value(key, "unset" if unset else "set", make, notes, at_start=key in AT_START)


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
        found = config_changes.parse_setting(name.key, text)
        config_changes.check_setting(name.key, found)
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
    return f" {suggestion(text, known, '`hearth config show` lists what there is.')}"

"""`hearth add`, `hearth enable`, `hearth disable`, `hearth remove` and `hearth pack`."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli import config_changes, daemon_choice
from hearth.cli.config_changes import ConfigEdit
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import ask_to_store_secret, can_ask, json_option, suggestion, tell
from hearth.config import ServerSpec, editor
from hearth.config.schema import PACKS, PACKS_KEY, SERVERS
from hearth.errors import Refused, VaultError
from hearth.ops import edit_config, import_servers
from hearth.output import table, terminal
from hearth.paths import Places
from hearth.secrets import references
from hearth.secrets.vault import Vault

Entry = dict[str, Any]


class Adding(click.Command):
    """Command that explains an unknown option: options of the server's command are easily mistaken for Hearth's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises click.UsageError with a hint for an unknown option, probably the server's own."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"{error.format_message()} If it is for the server, put `--` before the server's command.", ctx
            ) from error


@click.command(cls=Adding, short_help="Put an MCP server into the config.")
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[-- COMMAND [ARG]...]", type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="The address of a server that runs elsewhere, instead of a command.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for the command.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="An HTTP header for the URL.")
@click.option("--cwd", metavar="PATH", help="The folder that the command runs in.")
@click.option(
    "--isolation", type=click.Choice(["auto", "shared", "workspace", "session"]), help="Who shares a process of it."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any other key of a server's entry.")
@click.option("--force", is_flag=True, help="Add it although its program is not there.")
@click.option("--replace", is_flag=True, help="Put it in the place of the server that has this name.")
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON, and ask nothing.")
@with_places
def add(
    places: Places,
    name: str,
    force: bool,
    replace: bool,
    dry_run: bool,
    as_json: bool,
    settings: tuple[str, ...],
    **options: Any,
) -> None:
    """Put an MCP server into the config. The file keeps its comments, its order and every other byte; one with mistakes
    is refused and stays as it is. A running daemon takes it up at once. Nothing is started or tried; but a command that
    is given by its path must be a program, unless --force is said.

    Values may refer to secrets that are kept elsewhere: ${keyring:NAME}, ${file:PATH}, ${env:NAME}. Quote them,
    or the shell takes them away.

    \b
    Examples:
      hearth add time -- uvx mcp-server-time
      hearth add github --env 'GITHUB_TOKEN=${keyring:github}' -- npx -y @modelcontextprotocol/server-github
      hearth add search --url https://example.com/mcp --header 'Authorization: Bearer ${keyring:search}'
      hearth add build --cwd ~/src --set call_timeout=60 --dry-run -- ./mcp-build
    """
    if not name.strip() or any(not character.isprintable() for character in name):
        raise click.UsageError("The name must not be empty, or have control characters in it.")
    entry = make_entry(settings=settings, **options)
    if not force and (problem := import_servers.program_problem(entry)):
        raise Refused(f"{problem}, and nothing was added: correct the path, or say --force to add it all the same")
    asks = can_ask() and not as_json and not dry_run
    notes = import_servers.place_elsewhere(name, entry, ask_to_store_secret if asks else None)
    replaced = False

    def make(data: bytes | None) -> bytes:
        nonlocal replaced
        path = places.config_file()
        replaced = name in edit_config.examined(path, data).config.servers
        if replaced and not replace:
            raise Refused(f"there is a server {name!r} in {path} already: say --replace, or choose another name")
        return editor.added(path, data, name, entry)

    changed = edit_config.change(places, make, dry_run)
    daemon = None if dry_run else edit_config.tell_daemon(places)
    about = [each for each in changed.warnings if f"server {name!r}" in each]
    words = shlex.join([name, *places.arguments()])
    # The replaced entry is lost: removing the new one does not restore it.
    undo = "" if replaced else f" Undo: `hearth remove {words}`."
    said = (f"{name} is in {changed.path}. {daemon}", f"Try it: `hearth call {words}`.{undo}")
    action = "replaced" if replaced else "added"
    edit = ConfigEdit(places, dry_run, as_json)
    edit.show(action, name, changed._replace(warnings=about), daemon, notes, notes + about, *said)


def make_entry(
    command: Sequence[str],
    url: str | None,
    variables: Sequence[str],
    headers: Sequence[str],
    settings: Sequence[str],
    **keys: str | None,
) -> Entry:
    """Return the entry from the options, with its keys in the usual order. Raises click.UsageError."""
    if bool(command) == bool(url):
        raise click.UsageError("Give either a command, behind `--`, or --url." + (" Not both." if url else ""))
    made: Entry = {"command": command[0], "args": list(command[1:])} if command else {"url": url}
    made["env"] = dict(_pair(each, "=", "--env", "NAME=VALUE") for each in variables)
    made["headers"] = dict(_pair(each, ":", "--header", "'NAME: VALUE'") for each in headers)
    made |= keys
    made = {key: value for key, value in made.items() if value not in (None, [], {})}
    for setting in settings:
        key, text = _pair(setting, "=", "--set", "KEY=VALUE")
        made[key] = config_changes.parse_setting(key, text)
    for key, value in made.items():
        config_changes.check_setting(key, value)
    return made


def _pair(text: str, separator: str, option: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found or not name.strip():
        raise click.UsageError(f"{option} takes {form}, not {_shown(text)!r}.")
    return name.strip(), value.strip() if separator == ":" else value


def _shown(text: str) -> str:
    # Text without a separator may be a bare secret instead of a name and a value.
    return text if len(text) <= 12 else text[:4] + "…"


# --- entries that are there


@click.command(short_help="Serve a disabled MCP server again.")
@click.argument("name", shell_complete=daemon_choice.complete_server)
@config_changes.with_edit
def enable(edit: ConfigEdit, name: str) -> None:
    """Serve an MCP server again that was disabled: `disabled` is taken out of its entry in the config. Every other byte
    of the file stays, and a running daemon takes it up at once. Exits with 0 also if it is enabled already, with 2
    if there is no such server.

    \b
    Examples:
      hearth enable github
      hearth enable github --dry-run
    """
    _change(edit, name, False)


@click.command(short_help="Leave an MCP server out for a while.")
@click.argument("name", shell_complete=daemon_choice.complete_server)
@config_changes.with_edit
def disable(edit: ConfigEdit, name: str) -> None:
    """Leave an MCP server out without losing its entry: `disabled = true` is written into it. A running daemon lets
    its calls in flight finish, ends it and tells the clients. `hearth enable` brings it back. Exits with 0 also if
    it is disabled already, with 2 if there is no such server.

    \b
    Examples:
      hearth disable github
      hearth disable github --json | jq -r .daemon
    """
    _change(edit, name, True)


def _change(edit: ConfigEdit, name: str, disabled: bool) -> None:
    path = edit.path

    def make(data: bytes | None) -> bytes:
        servers = edit_config.examined(path, data).config.servers
        daemon_choice.check_server_names([name], servers, path)
        assert data is not None
        if servers[name].disabled == disabled:
            return data
        if disabled:
            return editor.assigned(path, data, (SERVERS, name, "disabled"), True)
        return editor.unassigned(path, data, (SERVERS, name, "disabled"))

    edit.value(name, "disabled" if disabled else "enabled", make)


@click.command(short_help="Take an MCP server out of the config.")
@click.argument("name", shell_complete=daemon_choice.complete_server)
@config_changes.with_edit
def remove(edit: ConfigEdit, name: str) -> None:
    """Take an MCP server out of the config. The rest of the file stays as it is, comments above the entry included; one
    with mistakes is refused. A running daemon takes it up at once, and lets the server's calls in flight
    finish. To leave a server out for a while, use `hearth disable` instead.

    \b
    Examples:
      hearth remove time
      hearth remove time --dry-run
    """

    servers: dict[str, ServerSpec] = {}

    def make(data: bytes | None) -> bytes:
        nonlocal servers
        path = edit.path
        servers = dict(edit_config.examined(path, data).config.servers)
        daemon_choice.check_server_names([name], servers, path)
        assert data is not None
        return editor.removed(path, data, name)

    changed = edit_config.change(edit.places, make, edit.dry_run)._replace(warnings=[])
    daemon = None if edit.dry_run else edit_config.tell_daemon(edit.places)
    notes = _left_over(servers.pop(name), servers.values())
    said = table.clean(f"{name} is no longer in {changed.path}. {daemon}")
    edit.show("removed", name, changed, daemon, notes, [], said, *(f"{note[:1].upper()}{note[1:]}." for note in notes))


def _left_over(removed: ServerSpec, others: Iterable[ServerSpec]) -> list[str]:
    """Return notes on the stored secrets that only the removed server referred to."""
    unused = references.secret_names(removed).difference(*map(references.secret_names, others))
    try:
        stored = Vault("secrets").entries() if unused else {}
    except VaultError:
        return []  # the removal is done; `hearth doctor` reports a damaged vault
    return [
        f"no server refers to the secret {secret!r} any more, and it is still kept: `hearth secret remove {secret}`"
        for secret in sorted(unused & stored.keys())
    ]


def _complete_pack(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=text) for name, text in PACKS.items() if name.startswith(incomplete)]


@click.group(short_help="Switch packs on and off: tools that live in the daemon.")
def pack() -> None:
    """Switch packs on and off. A pack is an MCP server that lives in the daemon: no process, nothing to install. Its
    tools are offered to clients as those of any other server, as NAME__TOOL. None is on until you switch it on.

    \b
    Examples:
      hearth pack list
      hearth pack enable hearth
      hearth pack disable hearth
    """


@pack.command("list", short_help="List the packs, and which of them are on.")
@json_option("Print the packs as JSON.")
@with_places
def list_packs(places: Places, as_json: bool) -> None:
    """List every pack, whether the config has it on, and what it is for. Exits with 2 when the config has mistakes.

    \b
    Examples:
      hearth pack list
      hearth pack list --json | jq -r '.packs[] | select(.enabled).name'
    """
    found = daemon_choice.examined(places)
    specs = found.config.packs
    packs = [
        {"name": name, "enabled": name in specs and not specs[name].disabled, "description": text}
        for name, text in PACKS.items()
    ]
    rows = [(str(each["name"]), "on" if each["enabled"] else "off", str(each["description"])) for each in packs]
    lines = table.columns(("PACK", "STATE", "WHAT IT DOES"), rows, terminal.width())
    tell(as_json, {"path": found.path, "packs": packs}, *lines)


@pack.command("enable", short_help="Switch a pack on.")
@click.argument("name", shell_complete=_complete_pack)
@config_changes.with_edit
def enable_pack(edit: ConfigEdit, name: str) -> None:
    """Switch a pack on: `enabled = true` is written into its table in the config. Every other byte of the file stays. A
    running daemon takes it up at once and tells the clients. Exits with 0 also if it is on already, with 2 if there is
    no such pack, or an MCP server has its name.

    \b
    Examples:
      hearth pack enable hearth
      hearth pack enable hearth --dry-run
    """
    _switch(edit, name, True)


@pack.command("disable", short_help="Switch a pack off.")
@click.argument("name", shell_complete=_complete_pack)
@config_changes.with_edit
def disable_pack(edit: ConfigEdit, name: str) -> None:
    """Switch a pack off: `enabled = false` is written into its table in the config; its other keys stay. A running
    daemon lets its calls in flight finish and tells the clients. Exits with 0 also if it is off already, with 2 if
    there is no such pack.

    \b
    Examples:
      hearth pack disable hearth
      hearth pack disable hearth --json | jq -r .daemon
    """
    _switch(edit, name, False)


def _switch(edit: ConfigEdit, name: str, enabled: bool) -> None:
    if name not in PACKS:
        hint = suggestion(name, PACKS, f"Known: {', '.join(PACKS)}.")
        raise click.UsageError(f"There is no pack {name!r}. {hint}")
    path = edit.path

    def make(data: bytes | None) -> bytes:
        spec = edit_config.examined(path, data).config.packs.get(name)
        is_on = spec is not None and not spec.disabled
        if is_on == enabled:
            return editor.blank(path) if data is None else data
        return editor.assigned(path, data, (PACKS_KEY, name, "enabled"), enabled)

    edit.value(name, "enabled" if enabled else "disabled", make)

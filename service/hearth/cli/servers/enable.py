"""`hearth enable`, `hearth disable`, `hearth remove` and `hearth pack`."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from hearth.cli import config_changes, daemon_choice
from hearth.cli.config_changes import ConfigEdit
from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import json_option, suggestion, tell
from hearth.config import ServerSpec, editor
from hearth.config.schema import PACKS, PACKS_KEY, SERVERS
from hearth.errors import VaultError
from hearth.ops import edit_config
from hearth.output import table, terminal
from hearth.paths import Places
from hearth.secrets import references
from hearth.secrets.vault import Vault


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

"""`hearth pack`."""

import click
from click.shell_completion import CompletionItem

from hearth import config
from hearth.cli.config import change
from hearth.cli.target import with_places
from hearth.config import editor
from hearth.config.schema import PACKS, PACKS_KEY
from hearth.config.spelling import nearest
from hearth.errors import ConfigError
from hearth.ops import edit_config
from hearth.output import documents, table, terminal
from hearth.paths import Places


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
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
@documents.json_option("Print the packs as JSON.")
@with_places
def list_(places: Places, as_json: bool) -> None:
    """List every pack, whether the config has it on, and what it is for. Exits with 2 when the config has mistakes.

    \b
    Examples:
      hearth pack list
      hearth pack list --json | jq -r '.packs[] | select(.enabled).name'
    """
    found = config.examine(places)
    if found.problems:
        raise ConfigError(found.problems)
    specs = found.config.packs
    packs = [
        {"name": name, "enabled": name in specs and not specs[name].disabled, "description": text}
        for name, text in PACKS.items()
    ]
    if as_json:
        documents.show({"path": found.path, "packs": packs})
        return
    rows = [(str(each["name"]), "on" if each["enabled"] else "off", str(each["description"])) for each in packs]
    click.echo("\n".join(table.columns(("PACK", "STATE", "WHAT IT DOES"), rows, terminal.width())))


@pack.command(short_help="Switch a pack on.")
@click.argument("name", shell_complete=_complete)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def enable(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Switch a pack on: `enabled = true` is written into its table in the config. Every other byte of the file stays. A
    running daemon takes it up at once and tells the clients. Exits with 0 also if it is on already, with 2 if there is
    no such pack, or an MCP server has its name.

    \b
    Examples:
      hearth pack enable hearth
      hearth pack enable hearth --dry-run
    """
    _switch(places, name, True, dry_run, as_json)


@pack.command(short_help="Switch a pack off.")
@click.argument("name", shell_complete=_complete)
@click.option("--dry-run", is_flag=True, help="Show the lines that would change; change nothing.")
@documents.json_option()
@with_places
def disable(places: Places, name: str, dry_run: bool, as_json: bool) -> None:
    """Switch a pack off: `enabled = false` is written into its table in the config; its other keys stay. A running
    daemon lets its calls in flight finish and tells the clients. Exits with 0 also if it is off already, with 2 if
    there is no such pack.

    \b
    Examples:
      hearth pack disable hearth
      hearth pack disable hearth --json | jq -r .daemon
    """
    _switch(places, name, False, dry_run, as_json)


def _switch(places: Places, name: str, enabled: bool, dry_run: bool, as_json: bool) -> None:
    if name not in PACKS:
        near = nearest(name, PACKS)
        hint = f"Did you mean {near!r}?" if near else f"Known: {', '.join(PACKS)}."
        raise click.UsageError(f"There is no pack {name!r}. {hint}")
    path = places.config_file()

    def make(data: bytes | None) -> bytes:
        spec = edit_config.examined(path, data).config.packs.get(name)
        is_on = spec is not None and not spec.disabled
        if is_on == enabled:
            return editor.blank(path) if data is None else data
        return editor.assigned(path, data, (PACKS_KEY, name, "enabled"), enabled)

    change.apply_change(places, name, "enabled" if enabled else "disabled", make, dry_run, as_json)

"""`hearth tools diff`."""

import json

import click

from hearth import config
from hearth.cli.servers import server_names
from hearth.cli.target import with_places
from hearth.cli.tools import tool_changes
from hearth.config import ServerSpec
from hearth.errors import StartError
from hearth.mcp.pinning import Change
from hearth.output import table
from hearth.paths import Places
from hearth.upstreams.pin_store import PinStore


@click.command(short_help="Show tools that are described otherwise than before.")
@click.argument("server", required=False, shell_complete=server_names.complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with full definitions.")
@with_places
def diff(places: Places, server: str | None, as_json: bool) -> int:
    """Show the tools whose definitions differ from those that were first seen or last approved: changed ones line
    by line, new ones whole, and the names of those that are gone. Agents read these texts, and a server may
    change them at any time.

    Characters that do not show, or that turn the direction of text, are written as <U+202E> and the like.
    Wakes nothing: it shows what servers offered when they last ran.

    \b
    Examples:
      hearth tools diff
      hearth tools diff github
      hearth tools diff --json | jq -r '.[].tool'
    """
    pins = PinStore(places.pins)
    specs = chosen(places, pins, server)
    changes = {name: pins.changes(name) for name in specs}
    problems = [unreadable(name, problem) for name in specs if (problem := pins.problem(name))]
    if as_json:
        found = [tool_changes.document(name, changes[name], spec.pin) for name, spec in specs.items()]
        click.echo(json.dumps([each for one in found for each in one], indent=2))
    else:
        _show(specs, changes, bool(problems))
    for problem in problems:
        click.echo(f"{click.style('hearth:', fg='red')} {problem}", err=True)
    return StartError.exit_code if problems else 0


def unreadable(server: str, problem: str) -> str:
    """The sentence for a server whose file cannot be read."""
    return (
        f"{server}: what is known of its tools cannot be read: {tool_changes.visible(problem)}; "
        "move the file away to have them trusted anew"
    )


def _show(specs: dict[str, ServerSpec], changes: dict[str, list[Change]], is_partial: bool) -> None:
    for name, spec in specs.items():
        for line in tool_changes.lines(name, changes[name], spec.pin):
            click.echo(styled(line))
    changed = [name for name in specs if changes[name]]
    for name in changed:
        summary = tool_changes.summary(changes[name])
        click.echo(table.clean(f"{name}: {summary}. `hearth tools approve {name}` accepts them."))
    if not changed and not is_partial:
        click.echo("Every tool is as it was first seen or last approved.")


def chosen(places: Places, pins: PinStore, server: str | None) -> dict[str, ServerSpec]:
    """The servers that are meant, as configured; one that is named may have been taken out of the config.

    Raises click.UsageError for one that is nowhere.
    """
    configured = dict(config.examine(places).config.servers)
    if server is None:
        return configured
    seen = pins.servers()
    if server not in configured and server not in seen:
        server_names.check([server], dict.fromkeys([*configured, *seen]), places.config_file())
    return {server: configured.get(server, ServerSpec(name=server))}


def styled(line: str) -> str:
    """A line of a diff in its colour."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return click.style(line, fg=colours[line[0]]) if line[:1] in colours else line

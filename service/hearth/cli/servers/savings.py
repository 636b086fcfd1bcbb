"""`hearth savings`."""

import json
from collections.abc import Iterable, Iterator

import click

from hearth.cli.servers import savings_lines
from hearth.clients import discovery, running
from hearth.clients.running import ConfiguredCommand, client_of
from hearth.clients.table import KINDS, Table
from hearth.errors import ConfigError
from hearth.host import memory, process_table
from hearth.host.process_table import Process
from hearth.ops import savings as savings_estimate
from hearth.output import terminal


@click.command(short_help="Show what your MCP servers take now, and what they would through Hearth.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def savings(as_json: bool) -> None:
    """Look at the processes that run now: which MCP servers, how often, for which clients, how much memory they take,
    and what they would take if the clients shared them through Hearth.

    Needs no setup, starts nothing and changes nothing. Looks at your own processes only. Start your agents first: a
    server that is not running is not counted.

    \b
    Examples:
      hearth savings
      hearth savings --json | jq '.servers[] | {name, runs, withHearth}'
    """
    document = look()
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n".join(savings_lines.lines(document, terminal.width())))


def look() -> savings_lines.Document:
    """Survey the running processes; return what `--json` prints."""
    processes = process_table.own()
    found = running.survey(processes, list(_entries(processes)), process_table.is_on_pipes)
    servers = savings_estimate.servers_of(
        found.instances, process_table.variables_of, process_table.folder_of, memory.weigh
    )
    through_hearth = memory.weigh([*found.own, *found.shared])
    return savings_lines.document(
        savings_estimate.estimate(servers, bool(found.daemons)), found, through_hearth, memory.choose().name
    )


def _entries(processes: Iterable[Process]) -> Iterator[ConfiguredCommand]:
    """Read the servers in the files of clients, those of the projects that running clients work in among them."""
    for table in dict.fromkeys(_tables(processes)):
        try:
            entries = discovery.read(table)
        except ConfigError:
            continue
        for found in entries:
            command, args = found.entry.get("command"), found.entry.get("args") or []
            if isinstance(command, str) and found.bridge_to is None:
                yield ConfiguredCommand(
                    found.name, command, tuple(map(str, args)), tuple(map(str, found.entry.get("env") or ()))
                )


def _tables(processes: Iterable[Process]) -> Iterator[Table]:
    yield from discovery.tables(discovery.here(), KINDS)
    clients = {process.pid: kind for process in processes if (kind := client_of(process.argv))}
    projects = {(kind, process_table.folder_of(pid)) for pid, kind in clients.items()}
    for kind, folder in sorted((kind, folder) for kind, folder in projects if folder):
        yield from discovery.tables(folder, [kind])

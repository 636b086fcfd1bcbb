"""`hearth savings`."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from hearth.cli.messages import tell
from hearth.clients import discovery, running
from hearth.clients.running import ConfiguredCommand, Estimate, ServerWeight, Survey, client_of
from hearth.clients.table import KINDS, Table
from hearth.host import process_table
from hearth.host.process_table import RSS, ProcessInfo, Weight
from hearth.output import terminal
from hearth.output.status_lines import count
from hearth.output.table import clean, columns, megabytes

Document = dict[str, Any]
_WIDEST_TEXT = 100
_NOTHING = (
    "No MCP server runs outside Hearth now. Start your agents and run `hearth savings` again;"
    " `hearth demo` shows a comparison without them."
)
_RSS_NOTE = "RSS counts shared memory once in each process: on this system the figures are upper limits."
_NEXT = "`hearth setup --dry-run` shows what would change; `hearth setup` does it, `hearth disconnect --all` undoes it."


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
    tell(as_json, document, *savings_lines(document, terminal.width()))


def look() -> Document:
    """Survey the running processes; return the JSON document."""
    processes = process_table.own()
    found = running.survey(processes, list(_entries(processes)), process_table.is_on_pipes)
    servers = running.servers_of(
        found.instances, process_table.variables_of, process_table.folder_of, process_table.weigh
    )
    through_hearth = process_table.weigh([*found.own, *found.shared])
    estimate = running.estimate(servers, bool(found.daemons))
    return savings_document(estimate, found, through_hearth, process_table.choose().name)


def _entries(processes: Iterable[ProcessInfo]) -> Iterator[ConfiguredCommand]:
    """Yield the servers in clients' files, including files of the projects that running clients work in."""
    for table in dict.fromkeys(_tables(processes)):
        for found in discovery.readable(table):
            command, args = found.entry.get("command"), found.entry.get("args") or []
            if isinstance(command, str) and found.bridge_to is None:
                yield ConfiguredCommand(
                    found.name, command, tuple(map(str, args)), tuple(map(str, found.entry.get("env") or ()))
                )


def _tables(processes: Iterable[ProcessInfo]) -> Iterator[Table]:
    yield from discovery.tables(discovery.here(), KINDS)
    clients = {process.pid: kind for process in processes if (kind := client_of(process.argv))}
    projects = {(kind, process_table.folder_of(pid)) for pid, kind in clients.items()}
    for kind, folder in sorted((kind, folder) for kind, folder in projects if folder):
        yield from discovery.tables(folder, [kind])


# --- text and document


def savings_document(estimate: Estimate, survey: Survey, through_hearth: Weight | None, measure: str) -> Document:
    """Return the JSON document of a survey."""
    return {
        "measure": measure,
        "servers": [_server(server) for server in estimate.servers],
        "clients": len({(each.client, each.agent) for each in survey.instances if each.agent}),
        "now": {
            "runs": len(survey.instances),
            "processes": sum(len(each.pids) for each in survey.instances),
            "memoryBytes": estimate.now_bytes,
        },
        "withHearth": {
            "runs": sum(server.needed for server in estimate.servers),
            "memoryBytes": estimate.with_hearth_bytes,
            "serversBytes": estimate.servers_bytes,
            "daemonBytes": estimate.daemon_bytes,
            "bridgesBytes": estimate.bridges_bytes,
        },
        "throughHearth": {
            "daemons": len(survey.daemons),
            "bridges": len(survey.bridges),
            "processes": len(survey.shared),
            "memoryBytes": through_hearth.whole if through_hearth else None,
        },
    }


def _server(server: ServerWeight) -> Document:
    return {
        "name": server.name,
        "runs": len(server.instances),
        "withHearth": server.needed,
        "isolation": server.isolation,
        "clients": dict(sorted(Counter(each.client for each in server.instances).items())),
        "pids": [list(each.pids) for each in server.instances],
        "memoryBytes": server.weight.whole if server.weight else None,
    }


def savings_lines(found: Mapping[str, Any], width: int) -> list[str]:
    """Return the lines of the text output."""
    shared = _through_hearth(found["throughHearth"], found["measure"])
    if not found["servers"]:
        return [*_wrapped(_NOTHING, width), *shared]
    rows = [
        (
            each["name"],
            str(each["runs"]),
            str(each["withHearth"]),
            megabytes(each["memoryBytes"]),
            ", ".join(f"{client} × {number}" if number > 1 else client for client, number in each["clients"].items()),
        )
        for each in found["servers"]
    ]
    table = columns(("SERVER", "RUNS", "WITH HEARTH", f"MEMORY ({found['measure']})", "STARTED BY"), rows, width)
    notes = [_RSS_NOTE] if found["measure"] == RSS else []
    closing = [*_wrapped(_verdict(found), width), *shared, *notes, "", *_wrapped(_NEXT, width)]
    return [*table, "", *closing]


def _verdict(found: Mapping[str, Any]) -> str:
    now, then = found["now"], found["withHearth"]
    clients = count(found["clients"], "client") if found["clients"] else "No running client"
    daemon = f"daemon {megabytes(then['daemonBytes'])}" if then["daemonBytes"] else "the daemon runs already"
    difference = now["memoryBytes"] - then["memoryBytes"]
    end = (
        f"{megabytes(difference)} less"
        if difference > 0
        else "no less: these servers are too light, or too few, for sharing to save memory"
    )
    return clean(
        f"{clients}, {count(now['runs'], 'running server')}, {count(now['processes'], 'process', 'es')}:"
        f" {megabytes(now['memoryBytes'])}. With Hearth: {count(then['runs'], 'running server')}, about"
        f" {megabytes(then['memoryBytes'])} (servers {megabytes(then['serversBytes'])}, {daemon},"
        f" {count(now['runs'], 'bridge')} {megabytes(then['bridgesBytes'])}); {end}."
    )


def _through_hearth(shared: Mapping[str, Any], measure: str) -> list[str]:
    if not shared["daemons"]:
        return []
    servers, bridges = count(shared["processes"], "server process", "es"), count(shared["bridges"], "bridge")
    return [
        f"Through Hearth already: {servers}, {bridges},"
        f" {megabytes(shared['memoryBytes'])} ({measure}) with the daemon; see `hearth status`."
    ]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, min(width, _WIDEST_TEXT), break_long_words=False, break_on_hyphens=False)

"""`hearth ps`."""

import time
from typing import Any

import click

from hearth.cli.servers.upstreams import megabytes
from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.host import memory
from hearth.output import documents, table, terminal
from hearth.paths import Places

_HEADERS = ("PID", "PROCESS", "STATE", "USERS", "UP", "MEMORY")


@click.command(short_help="List the processes that run.")
@documents.json_option("Print a JSON array.")
@with_places
def ps(places: Places, as_json: bool) -> None:
    """List the processes that run: the daemon, and one line for each process of an MCP server, with the sessions
    that use it (USERS) and its memory. Servers that do not run are in `hearth ls`.

    Wakes nothing. Exits with 0 whether a daemon runs or not; with 4 when one runs and does not answer.

    \b
    Examples:
      hearth ps
      hearth ps --json | jq '.[] | select(.kind == "server").pid'
    """
    document = running_daemon.document(places)
    if document.get("running"):
        document["memoryBytes"] = memory.total(memory.choose(), [int(document["pid"])]) or None
    found = processes(document, time.time())
    if as_json:
        documents.show(found)
    elif not found:
        click.echo(f"hearth is not running, so no process does. {document.get('lights', '')}".rstrip())
    else:
        click.echo("\n".join(table.columns(_HEADERS, [_row(each) for each in found], terminal.width())))


def processes(document: dict[str, Any], now: float) -> list[dict[str, Any]]:
    """Return the processes that a status document names, the daemon first."""
    if not document.get("running"):
        return []
    daemon = {
        "pid": document.get("pid"),
        "kind": "daemon",
        "name": str(document.get("profile") or ""),
        "state": "degraded" if document.get("degraded") else "running",
        "sessions": len(document.get("sessions") or ()),
        "uptimeSeconds": document.get("uptimeSeconds"),
        "memoryBytes": document.get("memoryBytes"),
    }
    instances = (
        (str(server.get("name")), instance)
        for server in document.get("upstreams") or ()
        for instance in server.get("instances") or ()
        if instance.get("pids")
    )
    return [daemon, *(_process(name, instance, now) for name, instance in instances)]


def _process(name: str, instance: dict[str, Any], now: float) -> dict[str, Any]:
    begun = instance.get("startedAt")
    return {
        "pid": instance["pids"][0],
        "kind": "server",
        "name": name,
        "state": instance.get("state"),
        "sessions": instance.get("sessions"),
        "uptimeSeconds": max(0.0, now - begun) if isinstance(begun, int | float) else None,
        "memoryBytes": instance.get("memoryBytes"),
    }


def _row(process: dict[str, Any]) -> tuple[str, ...]:
    uptime, users = process["uptimeSeconds"], process["sessions"]
    return (
        str(process["pid"]),
        f"{process['kind']} {process['name']}",
        str(process["state"] or "-"),
        "-" if users is None else str(users),
        "-" if uptime is None else table.duration(uptime),
        megabytes(process["memoryBytes"]),
    )

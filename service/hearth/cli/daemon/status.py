"""`hearth status`, `hearth sessions`, `hearth events`, `hearth upstreams`, `hearth ls` and `hearth ps`."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from hearth.cli.daemon_choice import check_server_names, complete_server, with_places
from hearth.cli.messages import json_option, json_text, print_json, tell
from hearth.control_client import running_daemon
from hearth.host import process_table
from hearth.masking import escaped
from hearth.ops import tool_catalog
from hearth.output import status_lines, table, terminal
from hearth.output.table import duration
from hearth.paths import Places

Document = Mapping[str, Any]
_HEADERS = ("PID", "PROCESS", "STATE", "USERS", "UP", "MEMORY")
# Most events that the daemon keeps.
KEPT_EVENTS = 200
# Keys of an event that have a fixed place in each line.
_SHOWN_ELSEWHERE = frozenset({"type", "at"})


@click.command(short_help="Say what runs, without waking anything.")
@click.option("--json", "as_json", is_flag=True, help="Print the status document as JSON.")
@with_places
def status(places: Places, as_json: bool) -> None:
    """Say whether the daemon runs, what it serves and how many are attached.

    Looks at the registry first and never wakes a daemon that is out. Exits with 0 in either case; with 4
    when a daemon runs and does not answer.

    \b
    Examples:
      hearth status
      hearth status --json | jq .pid
    """
    document = tool_catalog.complete_status(places, running_daemon.document(places))
    tell(as_json, document, *status_lines.status_lines(document, terminal.width()))


@click.command(short_help="List who is attached.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@with_places
def sessions(places: Places, as_json: bool) -> None:
    """List who is attached: every agent, editor or script with an open session. The owner has a star; one
    that does not answer (stopped with Ctrl-Z, say) a z. One over HTTP is idle between its requests.

    \b
    Examples:
      hearth sessions
      hearth sessions --json | jq '.[].client'
    """
    document = tool_catalog.complete_status(places, running_daemon.document(places))
    lines = status_lines.sessions_text(document, terminal.width())
    tell(as_json, document.get("sessions") or [], *lines)


@click.command(short_help="Show what happens, as it happens.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on, calls included.")
@click.option("--lines", "-n", metavar="N", type=click.IntRange(0, KEPT_EVENTS), default=20, show_default=True,
              help="How many of the kept events to show first.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@with_places
def events(places: Places, follow: bool, lines: int, as_json: bool) -> None:
    """Show what happened in the running daemon: sessions that opened and closed, servers that started, stopped
    or failed, lists that changed, configs that were reloaded, logins that are needed. With --follow also every
    call, with its duration and whether it failed; never its arguments or its result.

    The daemon keeps the last 200 events, and no calls: those are seen only with --follow. Ctrl-C ends it, and
    so does the daemon's end. A reader that is too slow gets one `dropped` with the number of lost events.

    \b
    Examples:
      hearth events
      hearth events --follow
      hearth events -f -n 0 --json | jq -c 'select(.type == "call.finished" and .isError)'
    """
    daemon = running_daemon.find(places)
    if daemon is None:
        if not as_json:
            click.echo("hearth is not running: nothing happens.")
        return
    try:
        with daemon.control() as control:
            for event in control.events(follow, lines):
                click.echo(json_text(event, indent=None) if as_json else line_of(event))
    except KeyboardInterrupt:
        # Ctrl-C is the way to end the verb, not a failure.
        click.echo(err=True)


def line_of(event: Mapping[str, Any]) -> str:
    """Format an event as a line of text: its time, its type, and the rest as key=value."""
    at = event.get("at")
    clock = time.strftime("%H:%M:%S", time.localtime(at)) if isinstance(at, int | float) else "--:--:--"
    rest = " ".join(f"{key}={_value(value)}" for key, value in event.items() if key not in _SHOWN_ELSEWHERE)
    return escaped(f"{clock}  {event.get('type')!s:<16}  {rest}".rstrip())


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value * 1000:.1f}ms"
    if isinstance(value, list):
        return ",".join(map(str, value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return json_text(text, indent=None) if " " in text else text


# --- servers and processes


@click.command(short_help="List the MCP servers with their figures.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_server)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array: `upstreams` of the status document.")
@with_places
def upstreams(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers: state, processes, sessions that use them (USERS), calls in flight (BUSY), calls that
    ended and how many of these failed, the time that half of the last calls took at most (P50), and 95 of 100
    (P95), memory and restarts. Why one failed is said below. With a NAME, every instance of it is shown, too:
    servers are shared by all, by workspace or by nobody.

    Wakes nothing: with no daemon, it says what is configured, and what is known of it.

    \b
    Examples:
      hearth upstreams
      hearth upstreams github
      hearth upstreams --json | jq '.[] | select(.errors > 0).name'
    """
    _list(places, names, as_json)


@click.command(short_help="The same as `hearth upstreams`.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_server)
@json_option("Print a JSON array: `upstreams` of the status document.")
@with_places
def ls(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    """List the MCP servers: a short name for `hearth upstreams`, with the same output and exit codes.

    Wakes nothing: with no daemon, it says what is configured, and what is known of it.

    \b
    Examples:
      hearth ls
      hearth ls github
      hearth ls --json | jq -r '.[].name'
    """
    _list(places, names, as_json)


def _list(places: Places, names: tuple[str, ...], as_json: bool) -> None:
    document = tool_catalog.complete_status(places, running_daemon.document(places))
    found = tool_catalog.server_states(places, document)
    check_server_names(names, (each["name"] for each in found), str(document.get("configPath")))
    chosen = [each for each in found if not names or each["name"] in names]
    if as_json:
        print_json(chosen)
        return
    if not document.get("running"):
        click.echo(f"hearth is not running, so no server does. {document.get('lights', '')}".rstrip())
    if document.get("degraded"):
        click.echo(f"hearth cannot serve: {document['degraded']}")
    elif document.get("configError"):
        click.echo(f"The config cannot be used: {document['configError']}")
    if chosen:
        click.echo("\n".join(upstream_lines(chosen, time.time(), terminal.width(), bool(names))))
    elif not document.get("configError"):
        click.echo("No MCP server is configured: `hearth add NAME -- COMMAND` adds one.")


def upstream_lines(upstreams: Sequence[Document], now: float, width: int, with_instances: bool) -> list[str]:
    """Return a row for each server and, if asked for, one below it for each of its instances.

    The reasons of failed servers follow.
    """
    rows = []
    for each in upstreams:
        instances = each.get("instances") or []
        sums = {key: sum(int(instance.get(key) or 0) for instance in instances) for key in ("sessions", "inFlight")}
        rows.append({**each, **sums, "up": _up(each, now)})
        if with_instances:
            rows += [_instance_row(instance, now) for instance in instances]
    return table.listed(status_lines.SERVER_COLUMNS, rows, width) + status_lines.failure_lines(upstreams, width)


def _instance_row(instance: Document, now: float) -> dict[str, Any]:
    row = {"sessions": 0, "inFlight": 0, **instance, "up": _up(instance, now)}
    return {**row, "name": "  └", "isolation": instance.get("place") or "for all"}


def _up(each: Document, now: float) -> str:
    """Return how long the oldest instance has been running."""
    begun = [each.get("startedAt"), *(instance.get("startedAt") for instance in each.get("instances") or [])]
    known = [at for at in begun if isinstance(at, int | float)]
    return duration(max(0.0, now - min(known))) if known else "-"


@click.command(short_help="List the processes that run.")
@json_option("Print a JSON array.")
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
        document["memoryBytes"] = process_table.total(process_table.choose(), [int(document["pid"])]) or None
    found = processes(document, time.time())
    nothing = f"hearth is not running, so no process does. {document.get('lights', '')}".rstrip()
    lines = table.columns(_HEADERS, [_process_row(each) for each in found], terminal.width())
    tell(as_json, found, *(lines if found else [nothing]))


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


def _process_row(process: dict[str, Any]) -> tuple[str, ...]:
    uptime, users = process["uptimeSeconds"], process["sessions"]
    return (
        str(process["pid"]),
        f"{process['kind']} {process['name']}",
        str(process["state"] or "-"),
        "-" if users is None else str(users),
        "-" if uptime is None else duration(uptime),
        table.megabytes(process["memoryBytes"]),
    )

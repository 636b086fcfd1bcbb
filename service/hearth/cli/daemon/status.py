"""`hearth status`, `hearth sessions` and `hearth events`."""

import time
from collections.abc import Mapping
from typing import Any

import click

from hearth.cli.target import with_places
from hearth.control_client import running_daemon
from hearth.control_client.connection import ControlConnection
from hearth.masking import escaped
from hearth.ops import tool_catalog
from hearth.output import documents, status_lines, terminal
from hearth.paths import Places


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
    documents.tell(as_json, document, *status_lines.status_lines(document, terminal.width()))


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
    documents.tell(as_json, document.get("sessions") or [], *lines)


# Most events that the daemon keeps.
KEPT_EVENTS = 200
# Keys of an event that have a fixed place in each line.
_SHOWN_ELSEWHERE = frozenset({"type", "at"})


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
    lit = running_daemon.find(places)
    if lit is None:
        if not as_json:
            click.echo("hearth is not running: nothing happens.")
        return
    try:
        with ControlConnection(lit.endpoint, lit.pid, lit.token) as control:
            for event in control.events(follow, lines):
                click.echo(documents.text(event, indent=None) if as_json else line_of(event))
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
    return documents.text(text, indent=None) if " " in text else text

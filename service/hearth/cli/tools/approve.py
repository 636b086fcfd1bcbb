"""`hearth tools approve`."""

import sys

import click
from click.shell_completion import CompletionItem

from hearth.cli import asking, target
from hearth.cli.target import with_places
from hearth.cli.tools import diff
from hearth.control_client import running_daemon
from hearth.errors import FileAccessError, Refused
from hearth.host.folders import refusal
from hearth.mcp.pinning import Change
from hearth.output import documents, table
from hearth.paths import Places
from hearth.upstreams.pin_store import PinStore


def _complete_tool(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    places = target.places_of(ctx)
    server = ctx.params.get("server")
    changes = PinStore(places.pins).changes(server) if places and server else []
    return [CompletionItem(change.tool) for change in changes if change.tool.startswith(incomplete)]


@click.command(short_help="Accept tools as they are described now.")
@click.argument("server", shell_complete=target.complete_server)
@click.argument("tools", nargs=-1, metavar="[TOOL]...", shell_complete=_complete_tool)
@click.option("--yes", "-y", is_flag=True, help="Do not show them, and do not ask.")
@documents.json_option("Print what was approved as JSON; asks nothing, so say --yes.")
@with_places
def approve(places: Places, server: str, tools: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Accept the definitions of a server's tools that have changed, or of the TOOLs that are named. Shows them
    first, and asks; exactly what was shown is accepted. Of a server with `pin = true` they were withheld until
    then: a running daemon offers them at once.

    \b
    Examples:
      hearth tools approve github
      hearth tools approve github create_issue
      hearth tools approve github --yes
      hearth tools approve github --yes --json | jq -r '.approved[].tool'
    """
    pins = PinStore(places.pins)
    ((name, spec),) = diff.chosen(places, pins, server).items()
    problem = pins.problem(name)
    if problem:
        raise FileAccessError(diff.unreadable(name, problem))
    changes = _wanted(pins.changes(name), tools, name)
    if not changes:
        if as_json:
            documents.show({"server": name, "approved": []})
            return
        click.echo(f"Every tool of {table.clean(name)} is as it was first seen or last approved.")
        return
    if not yes:
        _ask(name, changes, spec.pin, as_json)
    try:
        pins.approve(name, changes)
    except OSError as exc:
        raise refusal("write to", pins.folder, exc) from exc
    daemon = running_daemon.find(places)
    if daemon:
        with daemon.control() as control:
            control.approved()
    if as_json:
        approved = [{"tool": change.tool, "change": change.kind} for change in changes]
        documents.show({"server": name, "approved": approved})
    else:
        click.echo(table.clean(f"Approved of {name}, {diff.change_summary(changes)}."))


def _wanted(changes: list[Change], tools: tuple[str, ...], server: str) -> list[Change]:
    known = {change.tool for change in changes}
    for tool in tools:
        if tool not in known:
            there = f"; these have: {', '.join(sorted(map(diff.visible, known)))}" if known else ""
            raise click.UsageError(f"Tool {tool!r} of {server} has not changed, or there is none{there}.")
    return [change for change in changes if not tools or change.tool in tools]


def _ask(server: str, changes: list[Change], is_pinned: bool, as_json: bool) -> None:
    if as_json:
        raise Refused("nothing was approved, and --json asks nothing: look at `hearth tools diff`, then say --yes")
    for line in diff.change_lines(server, changes, is_pinned):
        click.echo(diff.styled(line), err=True)
    if not sys.stdin.isatty():
        raise Refused("nothing was approved: there is no terminal to ask at; look at it, then say --yes")
    if not asking.confirm(f"Approve {diff.change_summary(changes)}?"):
        raise Refused("nothing was approved")

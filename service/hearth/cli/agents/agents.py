"""`hearth agents`: the agents of the running daemon, and what waits for a person."""

import os
import time
from typing import Any

import click
from click.shell_completion import CompletionItem

from hearth.cli.agents.agent_lines import agent_table
from hearth.cli.daemon_choice import places_of, with_places
from hearth.cli.messages import completed, json_option, json_text, tell
from hearth.control_client import running_daemon
from hearth.errors import HearthError
from hearth.output import terminal
from hearth.paths import Places

# Beginning of the types of events after which --watch looks again.
WATCHED = ("agent.", "approval.")


def complete_agent(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of agents, with their titles. Starts no daemon."""
    found = known_agents(places_of(ctx))
    return [
        CompletionItem(each["id"], help=str(each.get("title") or ""))
        for each in found
        if str(each.get("id")).startswith(incomplete)
    ]


def complete_mode(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the modes of the typed agent. Starts no daemon."""
    typed = ctx.params.get("id")
    modes = [each.get("availableModes") or [] for each in known_agents(places_of(ctx)) if each.get("id") == typed]
    return completed((str(mode.get("id")) for listed in modes for mode in listed), incomplete)


def known_agents(places: Places | None, include_closed: bool = False) -> list[dict[str, Any]]:
    """Return the agents of a running daemon; none where none answers."""
    try:
        daemon = running_daemon.find(places) if places else None
        if daemon is None:
            return []
        with daemon.control() as control:
            return [each for each in control.agents(include_closed)["agents"] if isinstance(each, dict)]
    except (HearthError, OSError, KeyError):
        return []


@click.command(short_help="List the agents, and what waits for you.")
@click.option("--all", "-a", "include_closed", is_flag=True, help="Closed agents, too.")
@click.option("--watch", "-w", is_flag=True, help="Show the list again whenever it changes, until Ctrl-C.")
@json_option("Print JSON; with --watch, one object per line.")
@with_places
def agents(places: Places, include_closed: bool, watch: bool, as_json: bool) -> None:
    """List the agents that the daemon runs: those that work come first. Permissions that wait for you are listed
    below, with what to type.

    Starts no daemon: agents of a daemon that has ended are listed again when the next one runs. In a shell below an
    agent, only that agent's descendants are listed.

    \b
    Examples:
      hearth agents
      hearth agents --all
      hearth agents --watch
      hearth agents --json | jq -r '.agents[] | select(.status == "running").id'
    """
    daemon = running_daemon.find(places)
    if daemon is None:
        said = f"hearth is not running, so no agent works. {running_daemon.start_hint(places)}".rstrip()
        tell(as_json, {"running": False, "agents": []}, said)
        return
    with daemon.control() as control:
        if not watch:
            _show(control.agents(include_closed), as_json)
            return
        with daemon.control() as feed:
            try:
                shown = None
                events = feed.events(True, 0)
                # Subscribed before the first list: nothing is missed between the list and the events.
                while True:
                    document = control.agents(include_closed)
                    if document != shown:
                        shown = document
                        _show_again(document, as_json)
                    if next((each for each in events if str(each.get("type")).startswith(WATCHED)), None) is None:
                        return
            except KeyboardInterrupt:
                click.echo(err=True)


def _show(document: dict[str, Any], as_json: bool) -> None:
    lines = agent_table(document["agents"], time.time(), terminal.width(), os.path.expanduser("~"))
    tell(as_json, {"running": True, **document}, *lines)


def _show_again(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json_text({"running": True, **document}, indent=None))
        return
    click.echo(click.style(time.strftime("%H:%M:%S"), dim=True))
    _show(document, as_json=False)
    click.echo()

"""`hearth stop`."""

import click

from hearth.cli import asking
from hearth.cli.target import Number, with_places
from hearth.control_client import running_daemon
from hearth.ops import shutdown
from hearth.output import documents
from hearth.paths import Places


@click.command(short_help="Let the daemon finish, and go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@click.option("--all", "everyone", is_flag=True, help="Every daemon of yours that runs from this installation.")
@click.option(
    "--timeout",
    type=Number(min=0),
    default=60,
    show_default=True,
    help="Seconds to wait for its end.",
)
@documents.json_option("Print what was stopped as JSON; asks nothing, so say --yes.")
@with_places
def stop(places: Places, yes: bool, everyone: bool, timeout: float, as_json: bool) -> None:
    """Let the daemon finish its calls, stop its MCP servers and go. Waits until its process has gone.

    When somebody is attached it says who and asks. Bridges survive: the next call of any of them lights a
    new daemon. When nothing runs there is nothing to do, and nothing is woken.

    \b
    Examples:
      hearth stop
      hearth stop --yes --profile work
      hearth stop --all
      hearth stop --yes --json | jq '.stopped[].pid'
    """
    daemon = running_daemon.find(places)
    # A key may be the hash of a config file; Places works with either.
    found = (
        {Places(key): each for key, each in running_daemon.own_daemons()}
        if everyone
        else {places: daemon}
        if daemon
        else {}
    )
    if not found and not as_json:
        click.echo("hearth is not running.")
    stopped = []
    for whose, each in found.items():
        with each.control() as control:
            asking.ask_about_sessions(control, "stop", yes, as_json)
            ports = shutdown.own_ports(control.status())
            asking.stop_daemon(control, each, restart=False, seconds=timeout)
        hint = shutdown.start_hint(whose, ports)
        stopped.append({"profile": whose.key, "pid": each.pid, "lights": hint})
        if not as_json:
            click.echo(f"Stopped (pid {each.pid}). {hint}")
    if as_json:
        documents.show({"stopped": stopped})

"""`hearth stop`, `hearth restart` and `hearth reload`."""

from typing import Any

import click

from hearth.cli import daemon_choice
from hearth.cli.daemon_choice import Number, with_places
from hearth.cli.messages import ask, ask_about_sessions, json_option, print_json, stop_daemon, tell
from hearth.control_client import running_daemon
from hearth.control_client.connection import ControlConnection
from hearth.control_client.running_daemon import RunningDaemon
from hearth.errors import ConfigError
from hearth.output import status_lines, table
from hearth.paths import Places


@click.command(short_help="Let the daemon finish, and go.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@click.option("--all", "everyone", is_flag=True, help="Every daemon of yours that runs from this installation.")
@click.option("--timeout", type=Number(min=0), default=60, show_default=True, help="Seconds to wait for its end.")
@json_option("Print what was stopped as JSON; asks nothing, so say --yes.")
@with_places
def stop(places: Places, yes: bool, everyone: bool, timeout: float, as_json: bool) -> None:
    """Let the daemon finish its calls, stop its MCP servers and go. Waits until its process has gone.

    When somebody is attached it says who and asks; also when agents are at work, because their turns are
    lost. Bridges survive: the next call of any of them lights a new daemon. When nothing runs there is nothing
    to do, and nothing is woken.

    \b
    Examples:
      hearth stop
      hearth stop --yes --profile work
      hearth stop --all
      hearth stop --yes --json | jq '.stopped[].pid'
    """
    found = _daemons(places, everyone)
    if not found and not as_json:
        click.echo("hearth is not running.")
    stopped = []
    for whose, each in found:
        with each.control() as control:
            ask_about_sessions(control, "stop", yes, as_json)
            hint = _end(control, each, whose, False, timeout)
        stopped.append({"profile": whose.key, "pid": each.pid, "lights": hint})
        if not as_json:
            click.echo(f"Stopped (pid {each.pid}). {hint}")
    if as_json:
        print_json({"stopped": stopped})


@click.command(short_help="Replace the daemon, or one server.")
@click.argument("server", required=False, shell_complete=daemon_choice.complete_server)
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@click.option("--when-quiet", is_flag=True,
              help="Go when no call is in flight and no agent at work, and do not wait for that.")  # fmt: skip
@click.option("--all", "everyone", is_flag=True, help="Every daemon of yours that runs from this installation.")
@click.option("--timeout", type=Number(min=0), default=60, show_default=True,
              help="Seconds to wait for the daemon's end.")  # fmt: skip
@json_option("Print what was restarted as JSON; asks nothing, so say --yes.")
@with_places
def restart(
    places: Places, server: str | None, yes: bool, when_quiet: bool, everyone: bool, timeout: float, as_json: bool
) -> None:
    """Send the daemon away and have every attached bridge come back at once, which lights a new one.

    For a new version of Hearth, say. Bridges repeat what was not answered; their clients notice nothing. Turns of
    agents that Hearth runs (`hearth agents`) are lost; --when-quiet waits for their end. With nobody attached it
    stays out until the next bridge, or, where a service manager holds the socket, the next connection. A port that
    was asked for with `hearth serve` is gone until that is typed again.

    With SERVER only that server's processes end, when their calls in flight are done; the next call starts it again,
    whatever it failed at before. For one that was given up, or that hangs.

    \b
    Examples:
      hearth restart
      hearth restart --yes
      hearth restart --all --when-quiet
      hearth restart github
      hearth restart --yes --json | jq '.restarted[].pid'
    """
    if server is not None:
        if everyone or when_quiet:
            raise click.UsageError("--all and --when-quiet are about daemons: leave out the server.")
        daemon_choice.check_server_names([server], daemon_choice.served(places), places.config_file())
    found = _daemons(places, everyone)
    if not found and not as_json:
        click.echo(f"hearth is not running. {running_daemon.start_hint(places)}")
    restarted = []
    for whose, daemon in found:
        with daemon.control() as control:
            if server is not None:
                _ask_about_calls(control.status(), server, yes, as_json)
                message = f"{control.restart(server)}."
            elif when_quiet:
                message = f"pid {daemon.pid} ({whose.key}): {control.shutdown(restart=True, when_quiet=True)}."
            else:
                ask_about_sessions(control, "restart", yes, as_json)
                hint = _end(control, daemon, whose, True, timeout)
                message = f"pid {daemon.pid} has gone; bridges that are attached light a new one at once. {hint}"
        restarted.append({"profile": whose.key, "pid": daemon.pid, "server": server, "message": message})
        if not as_json:
            click.echo(table.clean(message))
    if as_json:
        print_json({"restarted": restarted})


def _end(control: ControlConnection, daemon: RunningDaemon, places: Places, restart: bool, seconds: float) -> str:
    """Stop the daemon and wait for its end; return what starts the next one."""
    ports = running_daemon.own_ports(control.status())
    stop_daemon(control, daemon, restart, seconds)
    return running_daemon.start_hint(places, ports)


def _daemons(places: Places, everyone: bool) -> list[tuple[Places, RunningDaemon]]:
    """Return the daemon of these places, or every daemon of this installation."""
    if everyone:
        # A key may be the hash of a config file; Places works with either.
        return [(Places(key), each) for key, each in running_daemon.own_daemons()]
    daemon = running_daemon.find(places)
    return [(places, daemon)] if daemon else []


def _ask_about_calls(document: dict[str, Any], server: str, yes: bool, as_json: bool) -> None:
    """Let the user decide when calls of the server are in flight."""
    instances = [
        instance
        for each in document.get("upstreams") or []
        if each.get("name") == server
        for instance in each.get("instances") or []
    ]
    waiting = sum(int(instance.get("inFlight") or 0) for instance in instances)
    if waiting and not yes:
        ask(f"{status_lines.count(waiting, 'call')} to {server} in flight", "restart", as_json)


@click.command(short_help="Read the config again.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever is attached.")
@json_option()
@with_places
def reload(places: Places, yes: bool, as_json: bool) -> None:
    """Have the daemon read its config again. A config with a mistake in it is refused as a whole: the old
    one goes on, the mistakes are printed and the exit code is 2. Calls in flight finish under the old one.

    \b
    Examples:
      hearth config check && hearth reload
      hearth reload --yes
      hearth reload --yes --json | jq .reloaded
    """
    daemon = running_daemon.find(places)
    if daemon is None:
        _say(as_json, False, "hearth is not running: it reads the config when it is lit.")
        return
    with daemon.control() as control:
        ask_about_sessions(control, "reload", yes, as_json, ends_turns=False)
        ok, message = control.reload()
    if not ok:
        raise ConfigError(message.splitlines() or ["the daemon refused the config and did not say why"])
    _say(as_json, True, message or "Reloaded.")


def _say(as_json: bool, reloaded: bool, message: str) -> None:
    tell(as_json, {"reloaded": reloaded, "message": message}, message)

"""`hearth install` and `hearth uninstall`."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import click

from hearth.cli.clients import client_changes, connect
from hearth.cli.daemon_choice import target_options, typed
from hearth.cli.messages import complain, confirm, note, print_json, stop_daemon
from hearth.clients import discovery
from hearth.clients.discovery import ClientServer
from hearth.clients.table import Table
from hearth.control_client import running_daemon
from hearth.host import install as installation
from hearth.host import lasting_paths
from hearth.host.install.service_files import Outcome
from hearth.ops import connect_clients
from hearth.ops.connect_clients import Links
from hearth.ops.import_servers import title
from hearth.paths import DEFAULT_PROFILE, Places

DRY_RUN_HELP = "Change nothing; say what would be done."
# The wait of `hearth stop`: calls in flight may finish within drain_timeout.
STOP_SECONDS = 60.0


def _with_owner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a daemon, or users."""
    system = click.option("--system", is_flag=True, help="Units of the system, for a shared host (root, Linux).")
    users = click.option(
        "--user", "users", metavar="NAME", multiple=True, help="With --system: for whom. More than once."
    )
    return target_options(system(users(function)))


@click.command()
@_with_owner
@click.option("--path", metavar="PATH", help="Keep this PATH for the servers' programs, not this shell's (Linux).")
@click.option("--no-path", is_flag=True, help="Keep none: the PATH of the service manager holds (Linux).")
@click.option("--dry-run", is_flag=True, help=DRY_RUN_HELP)
@click.option("--no-enable", is_flag=True, help="Put the files in place, but do not start listening.")
@click.option("--service", is_flag=True, help="On Windows: a service for each user, instead of a logon task.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def install(
    profile: str | None,
    config: str | None,
    system: bool,
    users: tuple[str, ...],
    path: str | None,
    no_path: bool,
    dry_run: bool,
    no_enable: bool,
    service: bool,
    as_json: bool,
) -> None:
    """Let systemd, or launchd on macOS, hold the socket, and start the daemon with the first connection.

    On Linux it writes mcp.socket and mcp.service into ~/.config/systemd/user, and a drop-in with the PATH of this
    shell, so that systemd finds npx and uvx, too; then it enables the socket. Where a package has brought the
    units, it only enables them. On macOS it writes mcp.hearth.plist into ~/Library/LaunchAgents, with the
    PATH of this shell in it, and has launchd load it. On Windows it registers a task with the Task Scheduler, for
    this user only and without an administrator; or a service, which takes one. Without a service manager in reach
    it writes the files and says what to type.

    With --system, root sets up a socket for each named user of a shared host. The socket is there without a login,
    and the daemon runs as that user.

    \b
    Examples:
      hearth install
      hearth install --dry-run
      hearth install --path "$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin"
      hearth install --profile work
      sudo hearth install --system --user alice --user bob
    """
    name = _named_profile(profile, config, system)
    if users and not system:
        raise click.UsageError("--user goes with --system; without it, units are installed for you.")
    if path is not None and no_path:
        raise click.UsageError("--path and --no-path contradict each other.")
    if system and service:
        raise click.UsageError("--system is for Linux, --service for Windows.")
    search = lasting_paths.NOTHING if no_path else None if path is None else lasting_paths.exactly(path)
    if system:
        from hearth.host.install import systemd_system

        outcome = systemd_system.install(users, enable=not no_enable, dry_run=dry_run, search=search)
    else:
        outcome = installation.install(
            enable=not no_enable, dry_run=dry_run, profile=name, search=search, service=service
        )
    if as_json:
        print_json(_document(outcome, dry_run))
        return
    _say_files("would write" if dry_run else "wrote", outcome, outcome.plan.write)
    _say_files("already there:", outcome, outcome.plan.keep)
    _say_files("would remove" if dry_run else "removed", outcome, outcome.plan.remove)
    if outcome.manager_problem:
        click.echo(f"{outcome.manager} was not asked: {outcome.manager_problem}.")
    _say_path(outcome, chosen=search is not None)
    if outcome.enabled and not system:
        socket = Places(name).socket
        listens = f"{outcome.manager} listens on {socket} and starts the daemon with the first connection."
        click.echo(outcome.effect or listens)
        click.echo("Next: `hearth connect` shows your MCP clients, and leads them here.")
    elif outcome.enabled:
        click.echo(f"{outcome.manager} listens for {', '.join(users)}: their bridges find the socket by themselves.")
    heading = "To begin listening, you would then type:" if dry_run else "To begin listening, type:"
    _say_commands(heading, outcome.commands)


def _named_profile(profile: str | None, config: str | None, system: bool) -> str:
    """Return the profile whose units are meant. HEARTH_CONFIG is ignored: it names a daemon without units."""
    profile, config = typed(profile, config)
    if config:
        raise click.UsageError("a daemon of a config file has no units, its bridges start it: leave out --config.")
    if system and profile:
        raise click.UsageError("a profile is its user's own: --system has one socket for each user.")
    try:
        return Places(profile or DEFAULT_PROFILE).profile
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error


def _say_path(outcome: Outcome, chosen: bool) -> None:
    if outcome.search_path:
        click.echo(f"The programs of your servers will be looked for in {outcome.search_path}")
        if not chosen:
            click.echo("That is this shell's PATH; install again when it has changed.")
    for entry, reason in outcome.left_out:
        click.echo(f"  left out: {entry or 'an empty entry'} {reason}")
    for line in outcome.notes:
        click.echo(line)


def _say_files(verb: str, outcome: Outcome, names: Iterable[str]) -> None:
    """Print one line for each file."""
    for name in names:
        click.echo(f"{verb} {os.path.join(outcome.folder, name)}")


def _say_commands(heading: str, commands: list[str]) -> None:
    """Print the commands to type, if there are any."""
    if commands:
        click.echo("\n  ".join([heading, *commands]))


def _document(outcome: Outcome, dry_run: bool) -> dict[str, Any]:
    """Return the outcome as a JSON document."""
    plan = outcome.plan
    return {
        "dryRun": dry_run,
        "manager": outcome.manager,
        "folder": outcome.folder,
        "written": list(plan.write),
        "unchanged": list(plan.keep),
        "removed": list(plan.remove),
        "foreign": list(plan.foreign),
        "compiled": outcome.compiled,
        "enabled": outcome.enabled,
        "managerProblem": outcome.manager_problem,
        "commands": outcome.commands,
        "effect": outcome.effect,
        "path": outcome.search_path,
        "leftOut": [{"folder": folder, "reason": reason} for folder, reason in outcome.left_out],
        "notes": outcome.notes,
    }


# --- `hearth uninstall`


class _Clients(NamedTuple):
    """MCP clients of this user: connected before, restored now, and connected by hand-written entries."""

    connected: list[Table]
    restored: Links
    handwritten: list[ClientServer]

    @property
    def titles(self) -> str:
        return client_changes.enumeration(sorted({title(each.client) for each in self.connected}))


@click.command()
@_with_owner
@click.option("--keep-clients", is_flag=True, help="Leave the MCP clients connected to Hearth.")
@click.option("--yes", "-y", is_flag=True, help="Restore connected clients without asking.")
@click.option("--dry-run", is_flag=True, help=DRY_RUN_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; implies --yes.")
def uninstall(
    profile: str | None,
    config: str | None,
    system: bool,
    users: tuple[str, ...],
    keep_clients: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Disconnect the MCP clients, stop listening, stop the daemon, and remove what `hearth install` wrote.

    Connected clients get their original servers back first, as by `hearth disconnect --all`, so that none of them is
    left with an entry that starts nothing once the package is removed. On a terminal Hearth asks before it edits
    their files. With --keep-clients they stay connected: their bridges start a daemon when they need one. With
    --profile, only clients of that profile are disconnected.

    Your configuration stays, and so do drop-ins that you wrote or changed. With --system, root takes the sockets of
    the named users away, or all of them; the users' clients are not touched.

    \b
    Examples:
      hearth uninstall
      hearth uninstall --dry-run
      hearth uninstall --keep-clients
      hearth uninstall --profile work
      sudo hearth uninstall --system --user alice
    """
    name = _named_profile(profile, config, system)
    if users and not system:
        raise click.UsageError("--user goes with --system; without it, your own units are removed.")
    places = Places(name)
    clients, stopped = _Clients([], Links([], [], []), []), None
    if system:
        from hearth.host.install import systemd_system

        outcome = systemd_system.uninstall(users, dry_run=dry_run)
    else:
        clients = clients._replace(connected=connect_clients.connected_to(places))
        if not keep_clients and clients.connected and _may_restore(clients, asks=not (yes or dry_run or as_json)):
            clients = clients._replace(restored=connect_clients.restored(places, clients.connected, dry_run))
        clients = clients._replace(handwritten=connect_clients.handwritten(discovery.here()))
        outcome = installation.uninstall(dry_run=dry_run, profile=name)
        stopped = None if dry_run else _stop_daemon(places)
    if as_json:
        _print_json(outcome, clients, stopped, dry_run)
    else:
        _say_clients(clients, dry_run)
        if stopped is not None:
            click.echo(f"stopped the daemon (pid {stopped})")
        _say(outcome, dry_run, is_all=not clients.restored.outcomes and stopped is None)
    return clients.restored.exit_code


def _may_restore(clients: _Clients, asks: bool) -> bool:
    """Ask the user at the terminal; without a terminal, restoring is the safe answer."""
    if not asks or not sys.stdin.isatty():
        return True
    click.echo(f"Connected to Hearth: {clients.titles}.", err=True)
    return confirm("Restore their original servers first?", default=True)


def _stop_daemon(places: Places) -> int | None:
    """Stop a daemon that a bridge or a user started, which no service manager stops. Return its pid, or None."""
    running = running_daemon.find(places)
    if running is None:
        return None
    with running.control() as control:
        stop_daemon(control, running, restart=False, seconds=STOP_SECONDS)
    return running.pid


def _say_clients(clients: _Clients, dry_run: bool) -> None:
    if clients.connected and not clients.restored.outcomes and not clients.restored.problems:
        click.echo(
            f"Still connected: {clients.titles}. Their bridges start a daemon when they need one. "
            "Run `hearth disconnect --all` before you remove the package."
        )
    elif clients.connected:
        connect.report_restored(clients.restored.outcomes, dry_run)
        if not dry_run:
            click.echo("Restart these clients to pick up the change.")
    complain(*clients.restored.problems)
    for each in clients.handwritten:
        note(
            f"{each.table.path}: {each.name} starts Hearth and was not written by `hearth connect`; remove it by hand"
            " before you remove the package."
        )


def _say(outcome: Outcome, dry_run: bool, is_all: bool) -> None:
    _say_files("would remove" if dry_run else "removed", outcome, outcome.plan.remove)
    _say_files("left as it is, because Hearth did not write it:", outcome, outcome.plan.foreign)
    if not outcome.plan.remove and is_all:
        click.echo("Nothing is installed.")
    elif outcome.manager_problem:
        click.echo(f"{outcome.manager} was not asked: {outcome.manager_problem}.")
    for line in outcome.notes:
        click.echo(line)
    there = "you would then type there:" if dry_run else "type there:"
    _say_commands(f"If a service manager runs elsewhere, {there}", outcome.commands)


def _print_json(outcome: Outcome, clients: _Clients, stopped: int | None, dry_run: bool) -> None:
    restored = [client_changes.document(each, "disconnected", dry_run) for each in clients.restored.outcomes]
    found = {
        **_document(outcome, dry_run),
        "connected": list(dict.fromkeys(each.client for each in clients.connected)),
        "clients": restored,
        "handwritten": [{"path": each.table.path, "name": each.name} for each in clients.handwritten],
        "problems": clients.restored.problems,
        "stopped": stopped,
    }
    print_json(found)

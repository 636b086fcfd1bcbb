"""`hearth uninstall`."""

import sys
from typing import NamedTuple

import click

from hearth.cli.clients import client_changes, connect
from hearth.cli.daemon.install import DRY_RUN_HELP, document, named_profile, say_commands, say_files, with_owner
from hearth.cli.messages import complain, confirm, note, print_json, stop_daemon
from hearth.clients import discovery
from hearth.clients.discovery import ClientServer
from hearth.clients.table import Table
from hearth.control_client import running_daemon
from hearth.host import install as installation
from hearth.host.install.service_files import Outcome
from hearth.ops import connect_clients
from hearth.ops.connect_clients import Restored
from hearth.paths import Places

# The wait of `hearth stop`: calls in flight may finish within drain_timeout.
STOP_SECONDS = 60.0


class _Clients(NamedTuple):
    """MCP clients of this user: connected before, restored now, and connected by hand-written entries."""

    connected: list[Table]
    restored: Restored
    handwritten: list[ClientServer]

    @property
    def titles(self) -> str:
        return client_changes.enumeration(sorted({client_changes.title(each.client) for each in self.connected}))


@click.command()
@with_owner
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
    name = named_profile(profile, config, system)
    if users and not system:
        raise click.UsageError("--user goes with --system; without it, your own units are removed.")
    places = Places(name)
    clients = _Clients([] if system else connect_clients.connected_to(places), Restored([], []), [])
    if not keep_clients and clients.connected and _may_restore(clients, asks=not (yes or dry_run or as_json)):
        clients = clients._replace(restored=connect_clients.restored(clients.connected, dry_run))
    if not system:
        clients = clients._replace(handwritten=connect_clients.handwritten(discovery.here()))
    if system:
        from hearth.host.install import systemd_system

        outcome = systemd_system.uninstall(users, dry_run=dry_run)
    else:
        outcome = installation.uninstall(dry_run=dry_run, profile=name)
    stopped = None if system or dry_run else _stop_daemon(places)
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
    say_files("would remove" if dry_run else "removed", outcome, outcome.plan.remove)
    say_files("left as it is, because Hearth did not write it:", outcome, outcome.plan.foreign)
    if not outcome.plan.remove and is_all:
        click.echo("Nothing is installed.")
    elif outcome.manager_problem:
        click.echo(f"{outcome.manager} was not asked: {outcome.manager_problem}.")
    for line in outcome.notes:
        click.echo(line)
    there = "you would then type there:" if dry_run else "type there:"
    say_commands(f"If a service manager runs elsewhere, {there}", outcome.commands)


def _print_json(outcome: Outcome, clients: _Clients, stopped: int | None, dry_run: bool) -> None:
    restored = [client_changes.document(each, "disconnected", dry_run) for each in clients.restored.outcomes]
    found = {
        **document(outcome, dry_run),
        "connected": list(dict.fromkeys(each.client for each in clients.connected)),
        "clients": restored,
        "handwritten": [{"path": each.table.path, "name": each.name} for each in clients.handwritten],
        "problems": clients.restored.problems,
        "stopped": stopped,
    }
    print_json(found)

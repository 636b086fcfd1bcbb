"""`hearth install`."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import click

from hearth.cli.target import target_options, typed
from hearth.host import install as installation
from hearth.host import lasting_paths
from hearth.host.install.service_files import Outcome
from hearth.output import documents
from hearth.paths import DEFAULT_PROFILE, Places

DRY_RUN_HELP = "Change nothing; say what would be done."


def with_owner(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a daemon, or users."""
    system = click.option("--system", is_flag=True, help="Units of the system, for a shared host (root, Linux).")
    users = click.option(
        "--user", "users", metavar="NAME", multiple=True, help="With --system: for whom. More than once."
    )
    return target_options(system(users(function)))


@click.command()
@with_owner
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
    name = named_profile(profile, config, system)
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
        documents.show(document(outcome, dry_run))
        return
    say_files("would write" if dry_run else "wrote", outcome, outcome.plan.write)
    say_files("already there:", outcome, outcome.plan.keep)
    say_files("would remove" if dry_run else "removed", outcome, outcome.plan.remove)
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
    say_commands(heading, outcome.commands)


def named_profile(profile: str | None, config: str | None, system: bool) -> str:
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
    for note in outcome.notes:
        click.echo(note)


def say_files(verb: str, outcome: Outcome, names: Iterable[str]) -> None:
    """Print one line for each file."""
    for name in names:
        click.echo(f"{verb} {os.path.join(outcome.folder, name)}")


def say_commands(heading: str, commands: list[str]) -> None:
    """Print the commands to type, if there are any."""
    if commands:
        click.echo("\n  ".join([heading, *commands]))


def document(outcome: Outcome, dry_run: bool) -> dict[str, Any]:
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

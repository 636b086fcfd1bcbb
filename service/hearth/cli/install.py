"""`hearth install` and `hearth uninstall`."""

import json
import os
from collections.abc import Iterable

import click

from hearth.host import install as installation
from hearth.host.written_files import Outcome
from hearth.paths import Places

_DRY_RUN_HELP = "Change nothing; say what would be done."


@click.command()
@click.option("--dry-run", is_flag=True, help=_DRY_RUN_HELP)
@click.option("--no-enable", is_flag=True, help="Put the files in place, but do not start listening.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def install(dry_run: bool, no_enable: bool, as_json: bool) -> None:
    """Let systemd, or launchd on macOS, hold the socket, and start the daemon with the first connection.

    On Linux it writes mcp.socket and mcp.service into ~/.config/systemd/user and enables the socket. On macOS it
    writes mcp.hearth.plist into ~/Library/LaunchAgents, with the PATH of this shell in it, and has launchd load
    it. Without a service manager in reach it writes the files and says what to type.

    \b
    Examples:
      hearth install
      hearth install --dry-run
    """
    outcome = installation.install(enable=not no_enable, dry_run=dry_run)
    if as_json:
        _print_json(outcome, dry_run)
        return
    _say_files("would write" if dry_run else "wrote", outcome, outcome.plan.write)
    _say_files("already there:", outcome, outcome.plan.keep)
    if outcome.manager_problem:
        click.echo(f"{outcome.manager} was not asked: {outcome.manager_problem}.")
    if outcome.search_path:
        click.echo(f"The programs of your servers will be looked for in {outcome.search_path}")
        click.echo("That is this shell's PATH; install again when it has changed.")
    if outcome.enabled:
        click.echo(f"{outcome.manager} listens on {Places().socket} and starts the daemon with the first connection.")
        click.echo("Next: `hearth connect --print` shows what to paste into your MCP client.")
    heading = "To begin listening, you would then type:" if dry_run else "To begin listening, type:"
    _say_commands(heading, outcome.commands)


@click.command()
@click.option("--dry-run", is_flag=True, help=_DRY_RUN_HELP)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def uninstall(dry_run: bool, as_json: bool) -> None:
    """Stop listening, stop the daemon, and remove what `hearth install` wrote.

    Your configuration stays. Bridges that are attached go on: they start a daemon when they need one.

    \b
    Examples:
      hearth uninstall
      hearth uninstall --dry-run
    """
    outcome = installation.uninstall(dry_run=dry_run)
    if as_json:
        _print_json(outcome, dry_run)
        return
    _say_files("would remove" if dry_run else "removed", outcome, outcome.plan.remove)
    _say_files("left as it is, because Hearth did not write it:", outcome, outcome.plan.foreign)
    if not outcome.plan.remove:
        click.echo("Nothing is installed.")
    elif outcome.manager_problem:
        click.echo(f"{outcome.manager} was not asked: {outcome.manager_problem}.")
    typed = "you would then type there:" if dry_run else "type there:"
    _say_commands(f"If a service manager runs elsewhere, {typed}", outcome.commands)


def _say_files(verb: str, outcome: Outcome, names: Iterable[str]) -> None:
    for name in names:
        click.echo(f"{verb} {os.path.join(outcome.folder, name)}")


def _say_commands(heading: str, commands: list[str]) -> None:
    if commands:
        click.echo("\n  ".join([heading, *commands]))


def _print_json(outcome: Outcome, dry_run: bool) -> None:
    plan = outcome.plan
    document = {
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
        "path": outcome.search_path,
    }
    click.echo(json.dumps(document, indent=2))

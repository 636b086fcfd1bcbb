"""`hearth doctor`."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import ask, print_json
from hearth.errors import Refused
from hearth.findings import Finding, as_document, is_well, requested_fixes, verdict
from hearth.output.terminal import Spinner
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.doctor.fixes import FixResult


@click.command(short_help="Look for what could be wrong, and mend it.")
@click.option("--fix", is_flag=True, help="Do what is safe to do about it, after asking; then look again.")
@click.option("--yes", "-y", is_flag=True, help="With --fix: do not ask.")
@click.option("--dry-run", is_flag=True, help="With --fix: change nothing; say what would be done.")
@click.option("-v", "--verbose", is_flag=True, help="Show everything that is well, too.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@with_places
def doctor(places: Places, fix: bool, yes: bool, dry_run: bool, verbose: bool, as_json: bool) -> int:
    """Look for what could keep Hearth from working: the installation, the config and its programs as the service
    finds them, folders and their rights, secrets, proxies, the units, the socket, the daemon, your clients'
    configs. Each finding says what to do. Wakes nothing, and changes nothing without --fix.

    Exits with 0 when nothing is broken, with 1 when something is, or is still after --fix, and with 5 when there
    was nobody to ask.

    \b
    Examples:
      hearth doctor
      hearth doctor --fix --dry-run
      hearth doctor --fix --yes
      hearth doctor --json | jq '.findings[] | select(.state == "broken")'
    """
    if (yes or dry_run) and not fix:
        raise click.UsageError("--yes and --dry-run belong to --fix.")
    findings = _examine(places)
    done: list[FixResult] = []
    if not as_json:
        _show(findings, verbose)
    if fix and requested_fixes(findings):
        done = _mend(places, findings, dry_run, yes, quiet=as_json)
        if any(each.done for each in done):
            findings = _examine(places)
            if not as_json:
                click.echo("\nLooked again:")
                _show(findings, verbose)
    elif not as_json:
        _say_what_fix_would_do(findings, fix)
    if as_json:
        print_json({**as_document(findings), **({"mended": _documents(done)} if fix else {})})
    return 0 if is_well(findings) else 1


def _examine(places: Places) -> list[Finding]:
    from hearth.doctor.checks import examine

    with Spinner("looking") as spinner:
        return examine(places, lambda name: spinner.tell(f"looking at {name}"))


def _show(findings: Sequence[Finding], verbose: bool) -> None:
    from hearth.doctor import render

    click.echo("\n".join(render.lines(findings, verbose)))
    click.echo(verdict(findings))


def _say_what_fix_would_do(findings: Sequence[Finding], asked: bool) -> None:
    if not asked and (number := len(requested_fixes(findings))):
        click.echo(f"`hearth doctor --fix` can mend {'one thing' if number == 1 else f'{number} things'} by itself.")
    elif asked and any(finding.state != "ok" for finding in findings):
        click.echo("There is nothing that --fix could mend by itself: do as it says above.")


def _mend(places: Places, findings: Sequence[Finding], dry_run: bool, yes: bool, quiet: bool) -> "list[FixResult]":
    """Print the fixes, ask, and apply them. Raises Refused when no user can be asked, or the answer is no."""
    from hearth.doctor import fixes, render
    from hearth.doctor.context import CheckContext

    context = CheckContext(places, os.environ)
    planned = fixes.plan(context, findings)
    if not quiet:
        click.echo()
        click.echo("\n".join(render.prospects(planned, dry_run)))
    if dry_run:
        return planned
    if not yes and quiet:
        raise Refused("with --json nobody is asked: say --yes, or --dry-run")
    if not yes:
        ask(f"{len(planned)} {'change' if len(planned) == 1 else 'changes'} to make", "make them")
    done = []
    for each in planned:
        with Spinner(each.prospect):
            done.append(fixes.perform(context, each))
        if not quiet:
            click.echo(render.outcome(done[-1]))
    return done


def _documents(done: "Sequence[FixResult]") -> list[dict[str, object]]:
    return [
        {
            "deed": each.request.name,
            "target": each.request.target,
            "ids": list(each.ids),
            "what": each.prospect,
            "done": each.done,
            "error": each.error or None,
        }
        for each in done
    ]

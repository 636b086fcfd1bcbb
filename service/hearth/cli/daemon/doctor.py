"""`hearth doctor`."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hearth.cli.daemon_choice import with_places
from hearth.cli.messages import ask, print_json
from hearth.errors import Refused
from hearth.findings import Finding, State, as_document, is_well, requested_fixes, verdict
from hearth.output.table import harmless
from hearth.output.terminal import Spinner, shows_unicode
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.doctor.fixes import FixResult

_COLOURS: dict[State, str] = {"ok": "green", "note": "yellow", "broken": "red"}
_WORST_FIRST: tuple[State, ...] = ("broken", "note", "ok")
# Width of "broken", and two blanks.
_INDENT = " " * 8


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
    click.echo("\n".join([*finding_lines(findings, verbose), verdict(findings)]))


def _say_what_fix_would_do(findings: Sequence[Finding], asked: bool) -> None:
    if not asked and (number := len(requested_fixes(findings))):
        click.echo(f"`hearth doctor --fix` can mend {'one thing' if number == 1 else f'{number} things'} by itself.")
    elif asked and any(finding.state != "ok" for finding in findings):
        click.echo("There is nothing that --fix could mend by itself: do as it says above.")


def _mend(places: Places, findings: Sequence[Finding], dry_run: bool, yes: bool, quiet: bool) -> "list[FixResult]":
    """Print the fixes, ask, and apply them. Raises Refused when no user can be asked, or the answer is no."""
    from hearth.doctor import fixes
    from hearth.doctor.context import CheckContext

    context = CheckContext(places, os.environ)
    planned = fixes.plan(context, findings)
    if not quiet:
        heading = "`hearth doctor --fix` would:" if dry_run else "To be mended:"
        click.echo("\n".join(["", heading, *(f"  - {each.prospect}" for each in planned)]))
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
            click.echo(_outcome(done[-1]))
    return done


def _outcome(done: "FixResult") -> str:
    if done.error:
        return f"{click.style('could not', fg='red')} {done.prospect}: {done.error}"
    return f"{click.style('done:', fg='green')} {done.prospect}"


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


# --- findings as text: by group, one line for a group that is well


def finding_lines(findings: Sequence[Finding], verbose: bool) -> list[str]:
    """Return the lines of every group: its state and its first fact when it is well, else its problems and fixes."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.group, []).append(finding)
    width = max(map(len, groups), default=0)
    return [line for name, group in groups.items() for line in _group_lines(name.ljust(width), group, verbose)]


def _group_lines(name: str, group: Sequence[Finding], verbose: bool) -> list[str]:
    worst = next(state for state in _WORST_FIRST if any(finding.state == state for finding in group))
    well = [finding for finding in group if finding.state == "ok"]
    ill = [finding for finding in group if finding.state != "ok"]
    head = f"{_mark(worst)}  {click.style(name, bold=True)}"
    if not verbose:
        return [f"{head}  {_brief(well)}".rstrip(), *_told(ill)] if worst == "ok" else [head.rstrip(), *_told(ill)]
    return [head.rstrip(), *(f"{_INDENT}{_mark('ok')}  {harmless(finding.message)}" for finding in well), *_told(ill)]


def _brief(well: Sequence[Finding]) -> str:
    more = len(well) - 1
    return harmless(well[0].message) + (f" (and {more} more)" if more and well[0].group == "servers" else "")


def _told(ill: Sequence[Finding]) -> list[str]:
    told = []
    arrow = "→" if shows_unicode() else "->"
    for (state, id, _, fix), messages in _grouped(ill).items():
        heading, *rest = messages if len(messages) == 1 else _under_heading(messages)
        told.append(f"{_INDENT}{_mark(state)}  {heading} {click.style(f'[{id}]', dim=True)}")
        told += [f"{_INDENT * 2}- {message}" for message in rest]
        told.append(f"{_INDENT * 2}{arrow} {fix}")
    return told


def _grouped(ill: Sequence[Finding]) -> dict[tuple[State, str, str, str], list[str]]:
    """Return the messages by state, id, subject and fix, the worst first; only findings on one client share a key."""
    groups: dict[tuple[State, str, str, str], list[str]] = {}
    for finding in sorted(ill, key=lambda each: _WORST_FIRST.index(each.state)):
        key = (finding.state, finding.id, finding.subject, harmless(finding.fix))
        groups.setdefault(key, []).append(harmless(finding.message))
    return groups


def _under_heading(messages: Sequence[str]) -> list[str]:
    """Put the common prefix of the messages, the name of a client, above them."""
    names = {message.partition(": ")[0] for message in messages}
    if len(names) > 1 or not all(": " in message for message in messages):
        return [f"{len(messages)} times:", *messages]
    (name,) = names
    return [f"{name}: {len(messages)} entries", *(message.partition(": ")[2] for message in messages)]


def _mark(state: State) -> str:
    return click.style(state.ljust(6), fg=_COLOURS[state])

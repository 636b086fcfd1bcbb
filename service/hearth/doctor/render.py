"""Text form of doctor's findings and fixes: by group, one line for a group that is well."""

from collections.abc import Sequence

import click

from hearth.doctor.fixes import FixResult
from hearth.findings import Finding, State
from hearth.output import terminal
from hearth.output.table import harmless

_COLOURS: dict[State, str] = {"ok": "green", "note": "yellow", "broken": "red"}
_WORST_FIRST: tuple[State, ...] = ("broken", "note", "ok")
# Width of "broken", and two blanks.
_INDENT = " " * 8


def lines(findings: Sequence[Finding], verbose: bool) -> list[str]:
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
    arrow = "→" if terminal.shows_unicode() else "->"
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


def prospects(planned: Sequence[FixResult], dry_run: bool) -> list[str]:
    """Return the lines about the fixes that would be applied."""
    heading = "`hearth doctor --fix` would:" if dry_run else "To be mended:"
    return [heading, *(f"  - {each.prospect}" for each in planned)]


def outcome(done: FixResult) -> str:
    """Return the line about the result of one fix."""
    if done.error:
        return f"{click.style('could not', fg='red')} {done.prospect}: {done.error}"
    return f"{click.style('done:', fg='green')} {done.prospect}"

"""Findings of `hearth doctor`, as data. Pure: runs no check and applies no fix."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

State = Literal["ok", "note", "broken"]
# Names of the fixes that `--fix` may apply by itself; `doctor.fixes` has them.
FixName = Literal["close", "rotate", "forget", "sweep", "compile", "install", "start", "reload", "repoint", "renew"]


# Checks of a server's entry, and of a server that was tried: the second failure follows from the first.
_OF_ENTRIES = frozenset({"servers.reference", "servers.program", "servers.path", "servers.folder", "servers.file"})
_OF_FAILURES = frozenset({"servers.failed", "servers.given_up", "servers.variable"})


class FixRequest(NamedTuple):
    """Request for a safe fix: its name, and its target. Two findings may request the same fix."""

    name: FixName
    target: str = ""


class Finding(NamedTuple):
    """Result of one check: its message, and how to fix a problem.

    `id` is "GROUP.CHECK", for programs and for the documentation, and never changes; `subject` says which of several
    objects is meant: a server, a unit, a file.
    """

    id: str
    state: State
    message: str
    fix: str = ""
    subject: str = ""
    request: FixRequest | None = None

    @property
    def group(self) -> str:
        """Group of the check: the part of the installation that was checked."""
        return self.id.partition(".")[0]


def is_well(findings: Sequence[Finding]) -> bool:
    """Tell whether nothing is broken."""
    return all(finding.state != "broken" for finding in findings)


def without_consequences(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings without failures of servers whose entry in the config is itself broken."""
    entries = {finding.subject for finding in findings if finding.id in _OF_ENTRIES and finding.state == "broken"}
    return [each for each in findings if not (each.id in _OF_FAILURES and each.subject in entries)]


def requested_fixes(findings: Sequence[Finding]) -> dict[FixRequest, list[Finding]]:
    """Return the requested fixes, each once and in order, with their findings."""
    found: dict[FixRequest, list[Finding]] = {}
    for finding in findings:
        if finding.request and finding.state != "ok":
            found.setdefault(finding.request, []).append(finding)
    return found


def as_document(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the document of `hearth doctor --json`."""
    return {
        "ok": is_well(findings),
        "findings": [
            {
                "id": finding.id,
                "subject": finding.subject,
                "state": finding.state,
                "message": finding.message,
                "fix": finding.fix,
                "fixable": finding.request is not None,
            }
            for finding in findings
        ],
    }


def verdict(findings: Sequence[Finding]) -> str:
    """Return the last line of the output, with the number of problems."""
    broken = sum(finding.state == "broken" for finding in findings)
    notes = sum(finding.state == "note" for finding in findings)
    beside = f"{notes} {'note' if notes == 1 else 'notes'}" if notes else ""
    if not broken:
        return f"Nothing is broken{f'; {beside}' if beside else ''}."
    things = "thing is" if broken == 1 else "things are"
    return f"{broken} {things} broken{f', {beside}' if beside else ''}."

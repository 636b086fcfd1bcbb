"""What `hearth doctor` found, as text. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

State = Literal["ok", "note", "broken"]


class Finding(NamedTuple):
    """One thing that was looked at: what is so, and what to do about it when it is not well."""

    check: str
    state: State
    message: str
    fix: str = ""


def is_well(findings: Sequence[Finding]) -> bool:
    """Whether nothing is broken."""
    return all(finding.state != "broken" for finding in findings)


def as_document(findings: Sequence[Finding]) -> dict[str, object]:
    """What `hearth doctor --json` prints."""
    return {"ok": is_well(findings), "findings": [finding._asdict() for finding in findings]}


def verdict(findings: Sequence[Finding]) -> str:
    """The last line."""
    broken = sum(finding.state == "broken" for finding in findings)
    if broken:
        return f"{broken} of {len(findings)} checks found something broken."
    return f"{len(findings)} checks, nothing is broken."

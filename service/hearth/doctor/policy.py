"""Doctor's checks of the policy: its file, changes that wait, role tokens, trusted projects. Reads only."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hearth.config.loader import read_file
from hearth.doctor.context import CheckContext
from hearth.errors import ConfigError, FileAccessError
from hearth.findings import Finding, FixRequest
from hearth.host import system
from hearth.output.status_lines import count
from hearth.policy import loader
from hearth.policy.trust import TrustStore

# Mode bits of group and others.
_OTHERS = 0o077
# Characters of a digest that people see.
_SHOWN_CHARACTERS = 12
_SINCE_TRUSTED = {"changed": "has changed", "removed": "is gone"}


class PolicyFacts(NamedTuple):
    """Facts about the policy. `roles` is None without a file; `status` is the daemon's word, empty if none runs."""

    path: str
    roles: Sequence[str] | None
    problems: Sequence[str] = ()
    status: Mapping[str, Any] = {}
    # Files and folders of role tokens that others may read, with their modes.
    open: Mapping[str, int] = {}
    # Trusted projects whose file is not what was trusted, by folder.
    projects: Mapping[str, str] = {}
    trust_problem: str = ""


def look(context: CheckContext) -> PolicyFacts:
    """Return the policy file with its problems, the daemon's word on it, modes of token files, trusted projects."""
    places = context.places
    roles, problems = _read(places.policy_file())
    projects, trust_problem = _projects(places.trusted)
    return PolicyFacts(
        places.policy_file(),
        roles,
        problems,
        context.word().status.get("policy") or {},
        {} if system.is_windows() else dict(_open(places.roles)),
        projects,
        trust_problem,
    )


def _read(path: str) -> tuple[Sequence[str] | None, Sequence[str]]:
    try:
        data = read_file(path, loader.FILE_LIMIT_BYTES)
        return (None, ()) if data is None else (list(loader.parse(path, data).roles), ())
    except ConfigError as exc:
        return (), exc.problems


def _projects(folder: str) -> tuple[dict[str, str], str]:
    try:
        states = {each.folder: each.state() for each in TrustStore(folder).list()}
    except FileAccessError as exc:
        return {}, str(exc)
    return {each: state for each, state in states.items() if state != "trusted"}, ""


def _open(folder: str) -> Iterator[tuple[str, int]]:
    """Yield the folder of role tokens, and files in it, that others may enter or read."""
    try:
        paths = [folder, *(entry.path for entry in os.scandir(folder))]
        for path in sorted(paths):
            mode = os.lstat(path).st_mode
            if mode & _OTHERS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                yield path, mode
    except OSError:
        # There is no folder: no token was ever issued.
        return


def judge(facts: PolicyFacts) -> list[Finding]:
    """Return the findings on the policy."""
    findings = [*_judge_file(facts), *(_open_finding(path, mode) for path, mode in facts.open.items())]
    for folder, state in facts.projects.items():
        message = f"the policy of {folder} {_SINCE_TRUSTED[state]} since it was trusted; the trusted copy is in force"
        fix = f"hearth policy trust {folder}" if state == "changed" else f"hearth policy untrust {folder}"
        findings.append(Finding("policy.project", "note", message, fix, folder))
    if facts.trust_problem:
        fix = "Move it away, then trust the projects again: `hearth policy trust FOLDER`."
        findings.append(Finding("policy.project", "broken", facts.trust_problem, fix))
    return findings or [_state(facts)]


def _judge_file(facts: PolicyFacts) -> Iterator[Finding]:
    if facts.problems:
        several = f" (and {len(facts.problems) - 1} more)" if len(facts.problems) > 1 else ""
        message = f"the policy cannot be used, and the last good one stays in force: {facts.problems[0]}{several}"
        yield Finding("policy.broken", "broken", message, "hearth policy check")
    waiting = facts.status.get("waiting")
    if waiting:
        message = f"a change of {facts.path} waits ({str(waiting)[:_SHOWN_CHARACTERS]}); the former policy is in force"
        yield Finding("policy.waits", "note", message, "hearth policy apply")


def _open_finding(path: str, mode: int) -> Finding:
    wanted = "700" if stat.S_ISDIR(mode) else "600"
    message = f"{path} is open to others (mode {stat.S_IMODE(mode):04o}): its role tokens may be known by now"
    fix = f"chmod {wanted} {path}; if others use the machine, `hearth role revoke ID` and issue another"
    return Finding("policy.tokens", "broken", message, fix, path, FixRequest("close", path))


def _state(facts: PolicyFacts) -> Finding:
    if facts.roles is None:
        return Finding("policy.state", "ok", "there is no policy, so every client may do everything")
    pending = int(facts.status.get("pending") or 0)
    waits = f"; {count(pending, 'call')} waiting for a decision" if pending else ""
    return Finding("policy.state", "ok", f"{facts.path}: {count(len(facts.roles), 'role')}{waits}")

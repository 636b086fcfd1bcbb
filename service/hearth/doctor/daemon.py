"""Doctor's checks of the daemon: its registry, its process, its version, its status, and the status of its servers.

Connects only to a daemon whose process is alive; any other connection could start one.
"""

import os
import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import hearth
from hearth import registry
from hearth.control_client.connection import last_resort
from hearth.doctor.context import CheckContext, environment_of
from hearth.findings import Finding, FixRequest
from hearth.host import listening, processes
from hearth.ops import tool_catalog
from hearth.output.table import clean
from hearth.paths import Places
from hearth.upstreams.stdio import STRAY_MARK

_STATE = "daemon.state"
# States of servers that do not work, as daemons of this version and of earlier ones name them.
_FAILING = {"failed", "given up", "backing off"}

STDOUT_FIX = "Have it write its messages to stderr: see its options, or report it to its author."
# The name must have an underscore: a word in capitals alone is as often a name or an emphasis.
_VARIABLE_NAME = r"['\"`$]*(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
_IS_MISSING = (
    r"['\"`]?(?: environment| env)?(?: variable)?,? (?:is |was |must be |has |are )?"
    r"(?:not set|unset|missing|required|undefined|not defined|not provided|not found|not been set|set\b|provided)"
)
# Messages of programs that lack a variable: Python's KeyError, "X is not set", "missing environment variable X".
_MISSING_VARIABLE = (
    re.compile(r"KeyError: ['\"](?P<name>[A-Z][A-Z0-9_]+)['\"]"),
    re.compile(_VARIABLE_NAME + _IS_MISSING),
    re.compile(
        r"(?i:missing|required|requires|undefined|please set|you must set|provide)[^.|]{0,40}?\s" + _VARIABLE_NAME
    ),
)


class FailureCause(NamedTuple):
    """Recognised cause of a failure: the id of its check, and its fix."""

    check: str
    fix: str


class DaemonFacts(NamedTuple):
    """Facts about the daemon. `lives`: by pid and start time; `reused`: another process has that pid now."""

    path: str
    has_file: bool
    entry: registry.RegistryEntry | None
    lives: bool
    reused: bool
    status: Mapping[str, Any]
    silence: str
    # PATH of the running daemon, and of its next start; both empty if unknown.
    search_paths: tuple[str, str] = ("", "")
    # Servers that have a log.
    logged: frozenset[str] = frozenset()
    # The reason why the daemon accepts no more connections.
    refusal: str = ""
    # The interpreter or the package that the daemon runs from, if it no longer exists.
    missing: str = ""
    # Other daemons of this profile, by their sockets, and whether each can be reached.
    others: Mapping[str, bool] = MappingProxyType({})


def look(context: CheckContext) -> DaemonFacts:
    """Return the registry's file, the process that it names, and the status of that daemon."""
    entry, living, word = context.entry(), context.living(), context.word()
    surroundings = context.surroundings()
    mine = environment_of(living.pid).get("PATH", "") if living and surroundings.whose == "the service" else ""
    return DaemonFacts(
        path=context.places.registry,
        has_file=os.path.lexists(context.places.registry),
        entry=entry,
        lives=living is not None,
        reused=bool(entry and not living and processes.is_alive(entry.pid, processes.UNKNOWN_START_TIME)),
        status=word.status if living else tool_catalog.complete_status(context.places, {}),
        silence=word.silence,
        search_paths=(mine, surroundings.values.get("PATH", "")) if mine else ("", ""),
        logged=frozenset(
            spec.name for spec in context.servers() if os.path.exists(context.places.server_log(spec.name))
        ),
        refusal=word.refusal,
        missing=_missing(word.status),
        others=_others(context.places),
    )


def _others(places: Places) -> dict[str, bool]:
    """Return the sockets of other daemons of the profile on this machine, and whether each answers from here."""
    paths = (path for path in registry.profile_sockets(places.key) if path != (places.named or places.folder + ".sock"))
    others = {path: Places(places.profile, places.config, named=path) for path in paths}
    return {path: listening.answers(registry.endpoint(other)) for path, other in others.items()}


def _missing(status: Mapping[str, Any]) -> str:
    paths = (str(status.get(key) or "") for key in ("executable", "package"))
    return next((path for path in paths if path and not os.path.exists(path)), "")


def judge(facts: DaemonFacts) -> list[Finding]:
    """Return the findings on the daemon."""
    return [*_judge_own(facts), *(_second(path, answers) for path, answers in facts.others.items())]


def _second(path: str, answers: bool) -> Finding:
    message = f"another daemon of this profile runs, at {path}"
    if answers:
        fix = f"Stop it: HEARTH_SOCKET={path} hearth stop. `hearth connect` writes the right socket into the clients."
    else:
        fix = "It cannot be reached from here: a container that shares this home has one of its own."
    return Finding("daemon.second", "note", message, fix, path)


def _judge_own(facts: DaemonFacts) -> list[Finding]:
    if facts.entry is None or not facts.lives:
        state = _stale(facts, facts.entry) if facts.entry else _unknown(facts)
        return [state, *failures(facts.status.get("upstreams") or [], facts.logged, "hearth call")]
    pid, version = facts.entry.pid, clean(facts.entry.version)
    if facts.silence:
        fix = f"{last_resort(pid)}, and the next call lights a new one. `hearth logs` may say why."
        return [Finding("daemon.silent", "broken", f"pid {pid} runs and does not answer: {facts.silence}", fix)]
    if facts.refusal:
        fix = "End clients that are not needed, or raise the limit; nothing is wrong with the daemon."
        return [Finding("daemon.full", "broken", f"pid {pid}: {clean(facts.refusal)}", fix)]
    findings = [_described(pid, version, facts.status)]
    if facts.status.get("configError"):
        reason = clean(str(facts.status["configError"]))
        message = f"the daemon goes on with the former config, because the new one was refused: {reason}"
        fix = "Mend the file; `hearth reload` has it read again."
        findings.append(Finding("daemon.config", "broken", message, fix))
    if facts.entry.version != hearth.__version__:
        message = f"pid {pid} is version {version}, and {hearth.__version__} is installed"
        fix = f"`hearth restart` brings it to {hearth.__version__}."
        findings.append(Finding("daemon.version", "note", message, fix, request=FixRequest("renew")))
    if facts.missing:
        message = (
            f"pid {pid} runs from {clean(facts.missing)}, which is gone: parts that it has not loaded yet will fail"
        )
        fix = "`hearth restart` starts this one."
        findings.append(Finding("daemon.moved", "broken", message, fix, request=FixRequest("renew")))
    ran, will = facts.search_paths
    if ran != will:
        message = "the daemon was started with another PATH than its next start will have"
        findings.append(Finding("daemon.path", "note", message, "`hearth restart` gives it the new one."))
    return findings + failures(facts.status.get("upstreams") or [], facts.logged)


def _unknown(facts: DaemonFacts) -> Finding:
    if not facts.has_file:
        return Finding(_STATE, "ok", "not running")
    message = f"{facts.path} is damaged, or not a file of yours"
    fix = f"rm {facts.path}; the next start writes it anew."
    return Finding("daemon.registry", "note", message, fix, request=FixRequest("forget", facts.path))


def _stale(facts: DaemonFacts, entry: registry.RegistryEntry) -> Finding:
    fix = "Nothing to do: doctor has removed the file, under the daemon's lock."
    if facts.reused:
        message = f"{facts.path} names pid {entry.pid}, which is another program by now: the daemon was killed"
        return Finding("daemon.reused", "note", message, fix)
    message = f"{facts.path} names pid {entry.pid}, which is gone: it was killed"
    return Finding("daemon.stale", "note", message, fix)


def _described(pid: int, version: str, status: Mapping[str, Any]) -> Finding:
    if status.get("degraded"):
        message = f"pid {pid} cannot serve: {clean(str(status['degraded']))}"
        return Finding("daemon.degraded", "broken", message, "Mend that: the daemon tries again by itself.")
    message = f"running as pid {pid}, version {version}"
    if status.get("containment"):
        message += f"; what a server leaves running is ended by {clean(str(status['containment']))}"
    return Finding(_STATE, "ok", message)


def failures(
    upstreams: Sequence[Mapping[str, Any]], logged: Container[str], retry: str = "hearth restart"
) -> list[Finding]:
    """Report the servers that do not work, by the daemon's status; a server that was never called is not tried.

    `retry` is the command that makes the daemon try a server again.
    """
    findings = []
    for each in upstreams:
        name, state = clean(str(each.get("name"))), each.get("state")
        if state in _FAILING:
            findings.append(_failure(name, each, each.get("name") in logged, retry))
        elif stray := each.get("strayOutput"):
            message = f"{name} prints to stdout, which is for MCP only: {clean(str(stray.get('first')))}"
            findings.append(Finding("servers.stdout", "note", message, STDOUT_FIX, name))
    return findings


def _failure(name: str, upstream: Mapping[str, Any], has_log: bool, retry: str) -> Finding:
    error = clean(str(upstream.get("error") or "no reason is known"))
    is_given_up = upstream.get("givenUp") or upstream.get("state") == "given up"
    words = "was given up after failing too often" if is_given_up else "failed"
    kind = find_cause(error)
    said = f"`hearth logs {name}` has what it said; then " if has_log else ""
    fix = f"{kind.fix} Then `{retry} {name}`." if kind else f"{said}`{retry} {name}`."
    check = kind.check if kind else "servers.given_up" if is_given_up else "servers.failed"
    return Finding(check, "broken", f"{name} {words}: {error}", fix, name)


# --- causes of a server's failure


def find_cause(error: str) -> FailureCause | None:
    """Recognise the cause of a failure."""
    if name := missing_variable(error):
        fix = (
            f'`hearth secret set {name}`, and env = {{ {name} = "${{keyring:{name}}}" }} in its entry of the config'
            " (or the value itself where it is no secret)."
        )
        return FailureCause("servers.variable", fix)
    return FailureCause("servers.stdout", STDOUT_FIX) if STRAY_MARK in error else None


def missing_variable(error: str) -> str:
    """Return the name of the environment variable that a server says it lacks; empty if it names none."""
    found = next(filter(None, (pattern.search(error) for pattern in _MISSING_VARIABLE)), None)
    return found["name"] if found else ""

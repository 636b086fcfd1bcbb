"""Text form of the status document. Pure: a document in, lines out; any key may be missing."""

import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from hearth import paths
from hearth.output.table import Column, clean, duration, listed, megabytes

Document = Mapping[str, Any]

# Columns of `hearth status`; `hearth upstreams` has all of SERVER_COLUMNS.
_STATUS_HEADERS = frozenset({"SERVER", "STATE", "ERA", "ISOLATION", "PIDS", "TOOLS", "RESTARTS"})


def status_lines(document: Document, width: int) -> list[str]:
    """Return the lines of `hearth status`."""
    if not document.get("running"):
        return [
            f"hearth is not running ({_whose(document)}). {document.get('lights', '')}".rstrip(),
            f"  socket  {document.get('endpoint')}",
            f"  config  {document.get('configPath')}",
            *(f"  error   {clean(line)}" for line in str(document.get("configError") or "").splitlines()),
            *failure_lines(document.get("upstreams") or [], width),
        ]
    sessions = document.get("sessions") or []
    lines = [_headline(document), *_facts(document)]
    lines += ["", *upstream_lines(document.get("upstreams") or [], width)]
    return [*lines, "", _sessions_sentence(sessions), *_savings_sentence(document.get("savings"))]


def _headline(document: Document) -> str:
    activation = str(document.get("activation") or "")
    # Started by a bridge, by hand or by a scheduler: no more is known.
    started_by = "holding its own socket" if activation == "self" else activation and f"lit by {clean(activation)}"
    parts = [
        f"hearth is running ({_whose(document)})",
        f"pid {document.get('pid')}",
        f"up {duration(float(document.get('uptimeSeconds') or 0))}",
        started_by,
    ]
    return ", ".join(part for part in parts if part)


def _facts(document: Document) -> list[str]:
    facts = {
        "version": document.get("version"),
        "socket": document.get("endpoint"),
        "HTTP": ", ".join(map(str, document.get("http") or ())),
        "HTTP lost": ", ".join(lost_ports(document)),
        "config": document.get("configPath"),
        "servers in": document.get("containment"),
        "agents": f"{turns} at work (`hearth agents`)" if (turns := int(document.get("turns") or 0)) else None,
        "degraded": document.get("degraded"),
        "config refused": document.get("configError"),
        "policy": _policy_sentence(document.get("policy")),
    }
    shown = {name: clean(str(value)) for name, value in facts.items() if value}
    size = max(map(len, shown), default=0)
    return [f"  {name.ljust(size)}  {value}" for name, value in shown.items()]


def _policy_sentence(policy: object) -> str:
    """Return the policy in one line: its roles, calls that wait, a change that waits, a mistake in its file."""
    if not isinstance(policy, Mapping):
        return ""
    default = policy.get("defaultRole")
    roles = (f"{name} (default)" if name == default else str(name) for name in policy.get("roles") or ())
    parts = [f"roles {', '.join(roles)}"]
    if pending := int(policy.get("pending") or 0):
        parts.append(f"{count(pending, 'call')} waiting for a decision (`hearth approvals`)")
    if waiting := policy.get("waiting"):
        parts.append(f"a change waits: {str(waiting)[:12]} (`hearth policy apply`)")
    if policy.get("error"):
        parts.append(f"the file is broken (`hearth policy check`), and the last good one in force: {policy['error']}")
    return "; ".join(parts)


def lost_ports(document: Document) -> list[str]:
    """Return the ports that are no longer served, each with the reason."""
    return [f"{each.get('address')} ({each.get('error')})" for each in document.get("httpLost") or ()]


def _whose(document: Document) -> str:
    """Return the daemon's profile, or its config if its profile is the hash of that config's path."""
    key, config = str(document.get("profile") or paths.DEFAULT_PROFILE), str(document.get("configPath") or "")
    return f"config {clean(PurePath(config).name)}" if key == paths.digest(config) else f"profile {clean(key)}"


def _sessions_sentence(sessions: list[Document]) -> str:
    idle = sum(map(is_idle, sessions))
    attached = len(sessions) - idle
    who = f"{count(attached, 'session')} attached" if attached else "Nobody is attached"
    more = f", {count(idle, 'session')} over HTTP idle" if idle else ""
    unguarded = sum(1 for each in sessions if each.get("unguarded"))
    if unguarded:
        # The client's own tools may run although the policy would deny them.
        more += f", {unguarded} of them unguarded"
    return f"{who}{more}; `hearth sessions` shows them." if sessions else f"{who}."


def _savings_sentence(savings: object) -> list[str]:
    """Return the savings by sharing, with the same figures that `hearth savings` estimates before a setup."""
    if not isinstance(savings, Mapping) or not savings.get("runsApart"):
        return []
    memory = [f"{float(savings[key]) / 1_000_000:.0f} MB" for key in ("memoryBytes", "memoryApartBytes")]
    return [
        f"Savings: {count(int(savings['runs']), 'running server')} instead of {savings['runsApart']};"
        f" {memory[0]} ({clean(str(savings.get('measure')))}, with daemon and bridges) instead of about {memory[1]}."
    ]


def count(number: int, noun: str, plural: str = "s") -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{plural}"


def upstream_lines(upstreams: list[Document], width: int) -> list[str]:
    """Return the MCP servers in columns, then the reason for each one that failed."""
    if not upstreams:
        return ["No MCP server is configured: `hearth add NAME -- COMMAND` adds one."]
    columns = [column for column in SERVER_COLUMNS if column.header in _STATUS_HEADERS]
    changed = [each for each in upstreams if each.get("changedTools") or each.get("pinError")]
    return [
        *listed(columns, upstreams, width),
        *failure_lines(upstreams, width),
        *(clean(_changed_sentence(each)) for each in changed),
    ]


def failure_lines(upstreams: Sequence[Document], width: int) -> list[str]:
    """Return one line for each failed server: its name and the cause; wrapped on a narrow terminal."""
    # A name may have a hyphen, and must stay whole.
    wrapper = textwrap.TextWrapper(width, subsequent_indent="  ", break_on_hyphens=False)
    sentences = [clean(_error_sentence(each)) for each in upstreams if each.get("error")]
    return [line for each in sentences for line in wrapper.wrap(each)]


def _error_sentence(upstream: Document) -> str:
    waits = [each.get("retrySeconds") for each in upstream.get("instances") or []]
    pauses = [float(seconds) for seconds in waits if isinstance(seconds, int | float) and seconds]
    again = f" (not tried again for {duration(max(pauses))}, or until `hearth reload`)" if pauses else ""
    has_failed = " failed" if upstream.get("state") == "failed" else ""
    return f"{upstream.get('name')}{has_failed}: {upstream['error']}{again}"


def _changed_sentence(upstream: Document) -> str:
    name = upstream.get("name")
    if upstream.get("pinError"):
        what = "its tools are withheld" if upstream.get("pin") else "changes of its tools cannot be told"
        return f"{name}: {what}: {upstream['pinError']}"
    changed = count(len(upstream["changedTools"]), "tool")
    withheld = ", and withheld" if upstream.get("pin") else ""
    return f"{name}: {changed} changed or new since last approved{withheld}; `hearth tools diff {name}` shows them"


def eras(upstream: Document) -> str:
    """Return the eras of a server's instances: a server of both eras may have an instance of each."""
    spoken = sorted({str(each.get("era")) for each in upstream.get("instances") or [] if each.get("state") == "ready"})
    return "+".join(spoken) or str(upstream.get("era") or "-")


def session_lines(sessions: list[Document], now: float, width: int) -> list[str]:
    """Return the attached sessions, in columns. The owner is marked with a star."""
    if not sessions:
        return ["Nobody is attached."]
    return listed(
        SESSION_COLUMNS, [{**each, "since": _since(each.get("connectedAt"), now)} for each in sessions], width
    )


def _mark(session: Document) -> str:
    if session.get("isOwner"):
        return "*"
    if session.get("active", True):
        return ""
    return "idle" if is_idle(session) else "z"


def is_idle(session: Document) -> bool:
    """Tell whether a session is idle.

    Over HTTP, no client is connected between two requests; but a call may still run after its connection broke.
    """
    return session.get("wire") == "http" and not session.get("active", True) and not session.get("inFlight")


def client_name(session: Document) -> str:
    """Return the name of a session's client; the daemon sends a name, or an object with name and version."""
    client = session.get("client")
    if isinstance(client, Mapping):
        return " ".join(str(client[key]) for key in ("name", "version") if client.get(key)) or "-"
    return str(client or "-")


def _since(connected_at: object, now: float) -> str:
    if isinstance(connected_at, int | float):
        return f"{duration(max(0.0, now - connected_at))} ago"
    return str(connected_at or "-")


def milliseconds(value: object) -> str:
    """Format a duration with at most three digits, so that it is read at a glance."""
    if not isinstance(value, int | float):
        return "-"
    if value >= 10_000:
        return duration(value / 1000)
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def sessions_text(document: Document, width: int) -> list[str]:
    """Return the lines of `hearth sessions`."""
    failed = [each for each in document.get("upstreams") or [] if each.get("state") == "failed"]
    failures = failure_lines(failed, width)
    if not document.get("running"):
        return [f"hearth is not running, so nobody is attached. {document.get('lights', '')}".rstrip(), *failures]
    return session_lines(document.get("sessions") or [], time.time(), width) + failures


# --- columns

# By rank: at 80 columns the names, the states and the figures that show trouble remain.
SERVER_COLUMNS = (
    Column("SERVER", 0, "name"),
    Column("STATE", 0, "state"),
    Column("UP", 9, "up"),
    Column("ERA", 14, eras),
    Column("ISOLATION", 13, "isolation"),
    Column("PIDS", 8, lambda each: " ".join(map(str, each.get("pids") or [])) or "-"),
    Column("TOOLS", 6, "tools"),
    Column("USERS", 2, "sessions"),
    Column("BUSY", 11, "inFlight"),
    Column("CALLS", 3, "calls"),
    Column("ERRORS", 4, "errors"),
    Column("P50", 7, lambda each: milliseconds(each.get("p50Ms"))),
    Column("P95", 12, lambda each: milliseconds(each.get("p95Ms"))),
    Column("MEMORY", 5, lambda each: megabytes(each.get("memoryBytes"))),
    Column("RESTARTS", 10, "restarts"),
)
# Client and server distinguish sessions; then agent and role, if a client has sent them.
SESSION_COLUMNS = (
    Column("", 0, _mark),
    Column("ID", 3, "id"),
    Column("CLIENT", 0, client_name),
    Column("SERVER", 0, lambda each: str(each.get("server") or "all")),
    Column("ROLE", 2, "role", optional=True),
    Column("AGENT", 1, "agentId", optional=True),
    Column("HOOKS", 2, lambda each: "unguarded" if each.get("unguarded") else "-", optional=True),
    Column("MCP", 7, lambda each: str(each.get("version") or each.get("era") or "-")),
    Column("PID", 6, "pid"),
    Column("SINCE", 4, "since"),
    Column("FOLDER", 5, "cwd", flexible=True),
)

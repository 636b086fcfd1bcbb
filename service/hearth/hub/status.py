"""Status of sessions and servers as plain values: the status line, `hearth status --json`, metrics. Does no I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from hearth.hub.sessions import Session, Sessions
from hearth.mcp.catalog import KINDS
from hearth.upstreams.server import Server
from hearth.upstreams.supervision import FAILED, FAILING, IDLE, READY, STARTING, STOPPED, STOPPING
from hearth.upstreams.transports import NEEDS_LOGIN
from hearth.upstreams.workload import BOUNDS_SECONDS, CallStats

# Every state that the status may show for a server.
STATES = (STOPPED, IDLE, STARTING, READY, STOPPING, FAILED, NEEDS_LOGIN)
# More names would not fit on one line; `hearth status` has them all.
NAMES_SHOWN = 3


def summary(sessions: Sessions, servers: Mapping[str, Server], calls: int) -> str:
    """Return one line for `systemctl status`."""
    states = {name: server.state for name, server in servers.items()}
    running = sum(bool(server.instances.pids) or states[name] == READY for name, server in servers.items())
    return line(len(sessions), states, running, calls)


def line(sessions: int, states: Mapping[str, str], running: int, calls: int) -> str:
    """Return a line like "3 sessions, 5 servers (2 running, 1 failing: github), 1 call".

    `states` are those of the servers, by name; `running` is how many of them have a process or a conversation.
    """
    parts = [f"{running} running"] if running else []
    for wanted, words in ((FAILING, "failing"), ({NEEDS_LOGIN}, "waiting for a login")):
        names = [name for name, state in states.items() if state in wanted]
        if names:
            parts.append(f"{len(names)} {words}: {_few(names)}")
    detail = f" ({', '.join(parts)})" if parts else ""
    return f"{_count(sessions, 'session')}, {_count(len(states), 'server')}{detail}, {_count(calls, 'call')}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _few(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def describe(
    sessions: Sessions, servers: Iterable[Server], suspended: int, role_of: Callable[[Session], str] | None = None
) -> dict[str, object]:
    """Return sessions and servers for `hearth status --json`. `role_of` is there with a policy: the role in force."""
    owner = sessions.owner
    upstreams = [server.describe() for server in servers]
    failed = [{key: each[key] for key in ("name", "error")} for each in upstreams if each["state"] == FAILED]
    described = [
        {
            **session.describe(),
            **({"role": role_of(session)} if role_of else {}),
            "isOwner": session is owner,
            "failed": _failed_of(session, failed),
        }
        for session in sessions
    ]
    return {"owner": owner.id if owner else None, "sessions": described, "parked": suspended, "upstreams": upstreams}


def _failed_of(session: Session, failed: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return the failed servers among those that a session uses."""
    target = session.target
    if target:
        return [{"name": target.name, "error": target.error}] if target.state == FAILED else []
    return [each for each in failed if session.server in (None, each["name"])]


class Durations(NamedTuple):
    """Histogram of the durations of calls: the count up to each bound, the last one unbounded, and the sum."""

    up_to: list[tuple[str, int]]
    seconds: float


class ServerMetrics(NamedTuple):
    """Metrics of a server beyond its status. `listed`: entries of each list by its name, empty until known."""

    durations: Durations
    listed: dict[str, int]


def durations(figures: CallStats) -> Durations:
    """Return the durations of calls as a histogram."""
    bounds: Iterator[str] = iter([*map(str, BOUNDS_SECONDS), "+Inf"])
    # A duration is the difference of two clocks, which may have been read in the wrong order.
    return Durations(list(zip(bounds, accumulate(figures.by_duration), strict=True)), max(0.0, figures.seconds))


def server_metrics(server: Server) -> ServerMetrics:
    """Return the metrics of one server."""
    catalog = server.catalogs.any
    listed = {} if catalog is None else {kind.member: len(catalog.lists[kind]) for kind in KINDS}
    return ServerMetrics(durations(server.instances.call_stats()), listed)

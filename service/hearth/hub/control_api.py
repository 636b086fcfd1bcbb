"""Interface to frontends (control frames, HTTP, packs): commands about the daemon, and its status.

`hearth.daemon.control` implements the commands. A frontend authorizes its client first and passes the session that
asks, if there is one: its request is put to the owner (`client_requests.obtain_approval`). The status of sessions and
servers is plain values: the status line, `hearth status --json`, metrics. Does no I/O.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hearth.hub.events import HubEvent, Subscription
from hearth.hub.sessions import Session, Sessions
from hearth.mcp.catalog import KINDS
from hearth.upstreams.server import Server
from hearth.upstreams.supervision import FAILED, FAILING, IDLE, READY, STARTING, STOPPED, STOPPING
from hearth.upstreams.transports import NEEDS_LOGIN
from hearth.upstreams.workload import BOUNDS_SECONDS, CallStats

if TYPE_CHECKING:
    from hearth.policy.hook_formats import HookAnswer


class EventFeed(NamedTuple):
    """Kept events, the oldest first, and the subscription that continues right after them, if one was requested."""

    kept: list[HubEvent]
    subscription: Subscription | None


class ControlApi(Protocol):
    """Protocol of the commands. One that changes something returns a sentence; every one may raise HearthError."""

    def cmd_status(self) -> dict[str, Any]:
        """Return the status document."""

    def cmd_sessions(self) -> list[dict[str, Any]]:
        """Return the sessions as the status document has them."""

    async def cmd_tools(self, query: str = "", server: str | None = None, limit: object = None) -> bytes:
        """Return the known tools, or the tools that match a query, as a JSON document. Starts no server."""

    def cmd_events(self, follow: bool = False, count: int | None = None) -> EventFeed:
        """Return the newest `count` kept events (all without it) and, to `follow`, a subscription to close."""

    def cmd_approved(self) -> str:
        """Read the approvals of tools again, and tell clients. The owner is not asked: only a person writes them."""

    def check_typed(self, asker: Session | None) -> None:
        """Raise Refused for an owner's command that was typed below a client, if no other session can be asked.

        Refused below an agent, even if another session could be asked.
        """

    async def cmd_reload(self, asker: Session | None = None) -> str:
        """Read the config again. Raises ConfigError, in which case the former config stays, or Refused by the owner."""

    async def cmd_restart(self, server: str, asker: Session | None = None) -> str:
        """Restart one MCP server when its calls are done. Raises Refused, also for an unknown name."""

    def cmd_approvals(self) -> dict[str, Any]:
        """Return what waits for a lead or a person, and the grants that are good; without a policy there are none."""

    async def cmd_decide(
        self, id: str, action: str, scope: str, reason: str, channel: str, asker: Session | None = None
    ) -> str:
        """Decide what waits, for a person: `approve` or `deny`. Raises Refused, also below an agent."""

    def cmd_revoke(self, id: str, asker: Session | None = None) -> str:
        """Revoke the grants of an approval. Raises Refused, also below an agent."""

    def cmd_policy_apply(self, digest: str, asker: Session | None = None) -> str:
        """Put a change of the policy in force that waits. Raises Refused, also below an agent that is no lead."""

    async def cmd_shutdown(self, restart: bool = False, when_quiet: bool = False, asker: Session | None = None) -> str:
        """Shut the daemon down soon; with `restart` bridges reconnect at once. Raises Refused by the owner."""

    async def cmd_agents(self, include_closed: bool = False, asker: Session | None = None) -> list[dict[str, Any]]:
        """Return the agents that a caller may see, those that work first. Raises Refused without the pack."""

    async def cmd_agent(self, verb: str, arguments: Mapping[str, Any], asker: Session | None = None) -> dict[str, Any]:
        """Run a command about agents and return its result; docs/http.md has them. Raises Refused, AgentError."""

    def cmd_agent_log(
        self, arguments: Mapping[str, Any], asker: Session | None = None
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """Yield entries of an agent's timeline, and to `follow` those to come. Raises Refused at the first one."""

    async def cmd_hook(
        self, client: str, event: str, payload: bytes, pid: int | None, token: str | None, agent: str | None = None
    ) -> "HookAnswer | None":
        """Return the answer to a client's hook; None without a policy. Raises nothing.

        `token` is a role token or an agent's, `agent` the id of the agent that the caller claims to be.
        """


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

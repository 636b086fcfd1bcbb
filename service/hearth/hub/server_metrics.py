"""What is measured of servers beyond what the status says, as plain values for who knows no servers. Does no I/O."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from hearth.mcp.catalog import KINDS
from hearth.upstreams.awaited_login import NEEDS_LOGIN
from hearth.upstreams.server import Server
from hearth.upstreams.stats import BOUNDS_SECONDS, CallStats
from hearth.upstreams.supervision import FAILED, IDLE, READY, STARTING, STOPPED, STOPPING

# Every state that a server is said to be in.
STATES = (STOPPED, IDLE, STARTING, READY, STOPPING, FAILED, NEEDS_LOGIN)


class Durations(NamedTuple):
    """How long the calls of a server took: how many up to each bound, the last of which is none, and all together."""

    up_to: list[tuple[str, int]]
    seconds: float


class ServerMetrics(NamedTuple):
    """`listed` is how much is on each list, by its name; empty as long as that is not known."""

    durations: Durations
    listed: dict[str, int]


def durations(figures: CallStats) -> Durations:
    """The times of calls as a histogram has them."""
    bounds: Iterator[str] = iter([*map(str, BOUNDS_SECONDS), "+Inf"])
    # The clocks of which a time is the difference may have been read in the wrong order.
    return Durations(list(zip(bounds, accumulate(figures.by_duration), strict=True)), max(0.0, figures.seconds))


def of(server: Server) -> ServerMetrics:
    """Those of one server."""
    offering = server.catalogs.any
    listed = {} if offering is None else {kind.member: len(offering.lists[kind]) for kind in KINDS}
    return ServerMetrics(durations(server.call_stats()), listed)

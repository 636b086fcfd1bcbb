"""`/metrics` for Prometheus: values that an operator watches over time. Loaded with the first scrape.

Everything is computed at the scrape, from the status document and from counters that servers have anyway, so it cannot
differ from `hearth status`. Labels have few values: names of servers are those in the config, and no label names a
tool, a session or an argument.
"""

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from hearth.daemon.client_connection import COUNTERS
from hearth.host import process_table
from hearth.hub.status import STATES, Durations, ServerMetrics
from hearth.mcp import versions

if TYPE_CHECKING:
    from hearth.daemon.http.app import HttpApp, Request

# Label of sessions whose era is not known yet.
UNKNOWN = "unknown"


class About(NamedTuple):
    """Type, labels and help text of a metric; docs/http.md has the same words."""

    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str


METRICS = {
    "hearth_build_info": About("gauge", ("version",), "Always 1; the version of Hearth is a label."),
    "hearth_uptime_seconds": About("gauge", (), "How long the daemon has been serving."),
    "hearth_connections": About("gauge", ("wire",), "Open connections, by what they speak."),
    "hearth_connections_refused_total": About("counter", (), "Connections for which there was no room, or no right."),
    "hearth_sessions": About("gauge", ("wire", "era"), "Sessions, by what their clients speak."),
    "hearth_calls_in_flight": About("gauge", (), "Requests that clients wait for."),
    "hearth_calls_parked": About("gauge", (), "Calls that wait for their client to come back with an answer."),
    "hearth_messages_refused_total": About("counter", ("limit", "kind"), "Messages of clients who sent too many."),
    "hearth_readers_dropped_total": About("counter", (), "Clients who were dropped since they did not read."),
    "hearth_http_exchanges": About("gauge", (), "Requests and streams over HTTP that are being answered."),
    "hearth_config_reloads_total": About("counter", ("outcome",), "Configs that were read anew while running."),
    "hearth_config_valid": About("gauge", (), "Whether the config that was read last is in force."),
    "hearth_upstream_state": About("gauge", ("server", "state"), "1 for the state that a server is in."),
    "hearth_upstream_calls_total": About("counter", ("server", "outcome"), "Calls that a server was given."),
    "hearth_upstream_call_duration_seconds": About("histogram", ("server",), "How long calls of a server took."),
    "hearth_upstream_calls_in_flight": About("gauge", ("server",), "Calls that a server has not answered."),
    "hearth_upstream_restarts_total": About("counter", ("server",), "How often a server was started again."),
    "hearth_upstream_processes": About("gauge", ("server",), "Processes that Hearth has started for a server."),
    "hearth_upstream_memory_bytes": About(
        "gauge", ("server",), "Memory of a server's processes and of those that they have started."
    ),
    "hearth_upstream_listed": About("gauge", ("server", "list"), "How much is on each list of a server."),
}

# The values of the labels, and the value or the histogram.
Row = tuple[Sequence[str], float | Durations]


async def serve(request: "Request") -> None:
    """Answer one scrape in the format that it asks for."""
    rows = collect(request.app, await _LOOK.at_processes(request.app))
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    body = await asyncio.to_thread(lambda: encode(_registry(rows)))
    await request.answer(200, body, kind=kind.encode())


class _Look:
    """Measurement of the memory of processes, which takes a while: in a thread, and once for concurrent scrapes."""

    def __init__(self) -> None:
        self._task: asyncio.Task[dict[int, int | None]] | None = None

    async def at_processes(self, app: "HttpApp") -> dict[int, int | None]:
        if self._task is None:
            pids = [pid for server in app.hub.servers.values() for pid in server.instances.pids]
            self._task = asyncio.create_task(asyncio.to_thread(process_table.of_families, pids))
            self._task.add_done_callback(self._over)
        # A scraper that disconnects must not cancel the measurement for the others.
        return await asyncio.shield(self._task)

    def _over(self, task: object) -> None:
        self._task = None


_LOOK = _Look()


def collect(app: "HttpApp", sizes: Mapping[int, int | None]) -> dict[str, list[Row]]:
    """Return the rows of every metric. `sizes` has the memory of the servers' processes, in bytes."""
    status = app.services.status()
    sessions: list[dict[str, Any]] = status["sessions"]
    counted = _count((each["wire"], each["era"] or UNKNOWN) for each in sessions)
    rows: dict[str, list[Row]] = {
        "hearth_build_info": [([status["version"]], 1)],
        "hearth_uptime_seconds": [([], status["uptimeSeconds"])],
        "hearth_connections": [([wire], number) for wire, number in app.services.connections().items()],
        "hearth_connections_refused_total": [([], COUNTERS.connections_refused)],
        "hearth_sessions": [(labels, number) for labels, number in counted.items()],
        "hearth_calls_in_flight": [([], sum(each["inFlight"] for each in sessions))],
        "hearth_calls_parked": [([], status["parked"])],
        "hearth_messages_refused_total": [(labels, number) for labels, number in COUNTERS.messages_refused.items()],
        "hearth_readers_dropped_total": [([], COUNTERS.readers_dropped)],
        "hearth_http_exchanges": [([], sum(each.exchanges for each in app.sessions))],
        "hearth_config_reloads_total": [
            (["ok"], COUNTERS.reloads - COUNTERS.reloads_failed),
            (["refused"], COUNTERS.reloads_failed),
        ],
        "hearth_config_valid": [([], status["configError"] is None)],
    }
    measures = app.hub.metrics()
    for entry in status["upstreams"]:
        for metric, row in _upstream(entry, measures[entry["name"]], sizes):
            rows.setdefault(metric, []).append(row)
    return rows


def _count(items: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    # Every possible combination, also with 0: a series that disappears looks for minutes as if it continued.
    found = {
        (wire, era): 0 for wire in ("frames", "lines", "http") for era in (versions.LEGACY, versions.MODERN, UNKNOWN)
    }
    for item in items:
        found[item] = found.get(item, 0) + 1
    return found


def _upstream(
    entry: dict[str, Any], measures: ServerMetrics, sizes: Mapping[int, int | None]
) -> Iterator[tuple[str, Row]]:
    name: str = entry["name"]
    for state in STATES:
        yield "hearth_upstream_state", ([name, state], entry["state"] == state)
    yield "hearth_upstream_calls_total", ([name, "ok"], entry["calls"] - entry["errors"])
    yield "hearth_upstream_calls_total", ([name, "error"], entry["errors"])
    yield "hearth_upstream_call_duration_seconds", ([name], measures.durations)
    yield "hearth_upstream_calls_in_flight", ([name], sum(each["inFlight"] for each in entry["instances"]))
    yield "hearth_upstream_restarts_total", ([name], entry["restarts"])
    yield "hearth_upstream_processes", ([name], len(entry["pids"]))
    known = [size for pid in entry["pids"] if (size := sizes.get(pid)) is not None]
    if known or not entry["pids"]:
        yield "hearth_upstream_memory_bytes", ([name], sum(known))
    for listed, size in measures.listed.items():
        yield "hearth_upstream_listed", ([name, listed], size)


# --- conversion to Prometheus's format


class _Rows(Collector):
    """Collector of rows that were computed before."""

    def __init__(self, rows: Mapping[str, list[Row]]) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Family]:
        return [_family(metric, about, self._rows.get(metric, [])) for metric, about in METRICS.items()]


def _registry(rows: Mapping[str, list[Row]]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Rows(rows))
    # Reads /proc; on other systems it has no metrics.
    ProcessCollector(pid=os.getpid, registry=registry)
    return registry


def _family(metric: str, about: About, rows: list[Row]) -> Family:
    if about.kind == "histogram":
        histogram = HistogramMetricFamily(metric, about.help, labels=about.labels)
        for labels, value in rows:
            assert isinstance(value, Durations)
            histogram.add_metric(labels, [(bound, float(number)) for bound, number in value.up_to], value.seconds)
        return histogram
    made = CounterMetricFamily if about.kind == "counter" else GaugeMetricFamily
    family: CounterMetricFamily | GaugeMetricFamily = made(metric, about.help, labels=about.labels)
    for labels, value in rows:
        assert not isinstance(value, Durations)
        family.add_metric(labels, value)
    return family

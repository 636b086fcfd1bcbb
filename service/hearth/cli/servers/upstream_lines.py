"""MCP servers with their figures as text. Pure: parts of the status document in, lines out.

Nothing is trusted to be there: the daemon may be of another version.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hearth.output.status_lines import eras, failure_lines
from hearth.output.table import Column, duration, ranked

Document = Mapping[str, Any]

# By rank: at 80 columns the names, the states and the figures that tell of trouble are left.
COLUMNS = (
    Column("SERVER"), Column("STATE"), Column("UP", 9), Column("ERA", 14), Column("ISOLATION", 13), Column("PIDS", 8),
    Column("TOOLS", 6), Column("USERS", 2), Column("BUSY", 11), Column("CALLS", 3), Column("ERRORS", 4),
    Column("P50", 7), Column("P95", 12), Column("MEMORY", 5), Column("RESTARTS", 10),
)  # fmt: skip


def lines(upstreams: Sequence[Document], now: float, width: int, with_instances: bool) -> list[str]:
    """A row for each server, and on request below it one for each of its instances; then the reasons of what failed."""
    rows = []
    for each in upstreams:
        instances = each.get("instances") or []
        rows.append(_row(each, str(each.get("name")), _sum(instances, "sessions"), _sum(instances, "inFlight"), now))
        if with_instances:
            rows += [_instance_row(instance, now) for instance in instances]
    return ranked(COLUMNS, rows, width) + failure_lines(upstreams, width)


def _row(each: Document, name: str, sessions: int, in_flight: int, now: float) -> list[str]:
    return [
        name,
        str(each.get("state") or "-"),
        _up(each, now),
        eras(each),
        str(each.get("isolation") or "-"),
        " ".join(map(str, each.get("pids") or [])) or "-",
        _count(each.get("tools")),
        str(sessions),
        str(in_flight),
        _count(each.get("calls")),
        _count(each.get("errors")),
        milliseconds(each.get("p50Ms")),
        milliseconds(each.get("p95Ms")),
        megabytes(each.get("memoryBytes")),
        _count(each.get("restarts")),
    ]


def _instance_row(instance: Document, now: float) -> list[str]:
    place = instance.get("place")
    return _row(
        {**instance, "isolation": place or "for all"},
        "  └",
        int(instance.get("sessions") or 0),
        int(instance.get("inFlight") or 0),
        now,
    )


def _sum(instances: list[Document], key: str) -> int:
    return sum(int(each.get(key) or 0) for each in instances)


def _up(each: Document, now: float) -> str:
    """Since when the oldest of it runs."""
    begun = [each.get("startedAt"), *(instance.get("startedAt") for instance in each.get("instances") or [])]
    known = [at for at in begun if isinstance(at, int | float)]
    return duration(max(0.0, now - min(known))) if known else "-"


def _count(value: object) -> str:
    return str(value) if isinstance(value, int) else "-"


def milliseconds(value: object) -> str:
    """A length of time that a person reads at a glance: three digits, not more."""
    if not isinstance(value, int | float):
        return "-"
    if value >= 10_000:
        return duration(value / 1000)
    if value >= 1000:
        return f"{value / 1000:.1f} s"
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def megabytes(value: object) -> str:
    """Memory as tools show it."""
    return f"{value / 1e6:.0f} MB" if isinstance(value, int | float) else "-"

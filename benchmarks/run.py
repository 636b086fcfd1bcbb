"""`make bench`: measure Hearth beside its physical limits and its peers, print one table, exit 1 when something is over
its limit.

    python benchmarks/run.py [--json] [--only GROUP]
"""

import argparse
import json
import os
import platform
import signal
import sys
from types import FrameType

from cases import groups
from chain import socat
from client import ChainError
from http_cases import http_groups, http_lines
from lines import LINES
from measure import Figure, Group, judge
from peers import PEERS, Peer
from stage import Stage

# The whole run; a chain that hangs must not hang `make bench`.
RUN_SECONDS = 600
OVER, UNABLE = 1, 2
# Processes of others that want to run, per core, from which on the figures are not worth much.
BUSY_LOAD_PER_CORE = 0.5


def say(words: str) -> None:
    """Progress, for a person; stdout carries only the result."""
    print(words, file=sys.stderr, flush=True)


def stop(number: int, _: FrameType | None) -> None:
    """Leave through every `finally`: the stage ends its processes."""
    if number == signal.SIGALRM:
        raise ChainError(f"the run took more than {RUN_SECONDS} s")
    raise KeyboardInterrupt


def shown(figure: Figure, unit: str) -> list[str]:
    """A figure as the cells of its row."""
    line, relative = figure.line, figure.against is not None
    sign, times = ("≤" if line.at_most else "≥"), (" ×" if relative else f" {unit}")
    return [
        line.title + (" (measured twice)" if figure.remeasured else ""),
        f"{figure.value:,.{digits(figure.value)}f} {unit}",
        f"{figure.against:,.{digits(figure.against)}f} {unit}" if figure.against is not None else "",
        line.baseline or "",
        f"{figure.score:.2f}{times}" if relative else f"{figure.score:.1f}{times}",
        f"{sign} {line.limit:g}{times}" if line.limit is not None else "none",
        verdict(figure),
    ]


def verdict(figure: Figure) -> str:
    """The last cell."""
    if figure.line.limit is None:
        return ""
    return "ok" if figure.ok else "over"


def digits(value: float) -> int:
    """Three meaningful digits are plenty for a median."""
    return 0 if value >= 100 else 1


def table(rows: list[list[str]]) -> str:
    """The rows under their heads, in columns."""
    heads = ["", "hearth", "beside it", "which is", "score", "limit", ""]
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    left = {0, 3, 6}
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [heads, *rows]
    ]
    return "\n".join(line.rstrip() for line in lines)


def present() -> list[Peer]:
    """The peers that are installed; `python benchmarks/peers.py` has said what is missing, and why."""
    return [peer for peer in PEERS if peer.is_installed]


def warn_if_busy(load: float, cores: int) -> None:
    """A chain of working processes loses more to others' work than a byte pump does: say so beside the figures."""
    if load > BUSY_LOAD_PER_CORE * cores:
        say(f"the machine was busy before the run (load {load:.1f} on {cores} cores): run it again when it is quiet")


def document(figures: list[Figure], found: dict[str, Group]) -> str:
    """The same, for programs."""
    lines = [
        {
            "title": figure.line.title,
            "value": figure.value,
            "unit": found[figure.line.group].unit,
            "baseline": figure.line.baseline,
            "against": figure.against,
            "score": figure.score,
            "limit": figure.line.limit,
            "atMost": figure.line.at_most,
            "ok": figure.ok,
            "remeasured": figure.remeasured,
        }
        for figure in figures
    ]
    return json.dumps({"python": platform.python_version(), "lines": lines}, indent=2)


def main() -> int:
    """Measure and print; the exit code is the verdict."""
    parser = argparse.ArgumentParser(description="Measure Hearth beside its physical limits.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--only",
        choices=["http", *sorted({line.group for line in LINES})],
        help="one group of lines, or all about HTTP",
    )
    wanted = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, stop)
    signal.alarm(RUN_SECONDS)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    lines = [line for line in [*LINES, *http_lines(present())] if wanted.only in (None, line.group.partition(",")[0])]
    with Stage() as stage:
        try:
            socat()
            found = {}
            if wanted.only != "http":
                found |= groups(stage, {line.group for line in lines})
            if wanted.only in (None, "http"):
                found |= http_groups(stage, present())
            figures = judge(found, lines, say)
        except (ChainError, OSError) as exc:
            say(f"bench: {exc}" + (f"\n{said}" if (said := stage.said()) else ""))
            return UNABLE
    rows = [shown(figure, found[figure.line.group].unit) for figure in figures]
    print(document(figures, found) if wanted.json else table(rows))
    for peer in PEERS:
        if peer not in present():
            say(f"{peer.name} is not installed, and nothing was compared with it: python benchmarks/peers.py")
    warn_if_busy(load, cores)
    return 0 if all(figure.ok for figure in figures) else OVER


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

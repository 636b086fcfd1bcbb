"""Where the daemon's or the bridge's time goes under load, by sampling with py-spy (pip install py-spy).

    python benchmarks/profile_daemon.py [--target daemon|bridge] [--load calls|pipeline|http] [--native]

Prints the functions and lines by their own samples, and the functions by all samples that they were part
of. py-spy reads the memory of another process: without root, `sysctl kernel.yama.ptrace_scope=0` may be
needed.
"""

import argparse
import collections
import os
import shutil
import sys
from collections.abc import Callable
from time import monotonic

from cases import End, attached
from chain import ECHO, HearthChain
from client import ChainError
from http_client import HttpClient
from stage import Child, Stage

SHOWN = 25
CALLS_PER_TURN = {"calls": 200, "pipeline": 4000, "http": 200}
# The profiler needs a moment to attach and a moment to write its file.
MARGIN_SECONDS = 1.0


def work_of(chain: HearthChain, end: End, kind: str) -> Callable[[str, int], float]:
    """What keeps the chain busy, and gives a figure for so many calls of a tool."""
    if kind == "http":
        client = HttpClient(chain.socket, {})
        client.open()
        return client.median_call_us
    return end.child.client.median_call_us if kind == "calls" else end.child.client.calls_per_second


def load(chain: HearthChain, end: End, kind: str, seconds: float) -> float:
    """Keep the chain busy for that long; return the last figure."""
    work, figure = work_of(chain, end, kind), 0.0
    limit = monotonic() + seconds
    while monotonic() < limit:
        figure = work(end.tool, CALLS_PER_TURN[kind])
    return figure


def frames(path: str) -> list[tuple[list[str], int]]:
    """py-spy's raw format: `frame;frame;frame count`, outermost first."""
    with open(path) as raw:
        pairs = [line.rsplit(" ", 1) for line in raw if " " in line]
    return [(stack.split(";"), int(count)) for stack, count in pairs]


def report(stacks: list[tuple[list[str], int]]) -> str:
    """Three lists: lines and functions by their own samples, functions by all samples that they were part of."""
    lines, own, whole = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    for stack, count in stacks:
        names = [frame.rsplit(":", 1)[0].rstrip(")") + ")" for frame in stack]
        lines[stack[-1]] += count
        own[names[-1]] += count
        for name in set(names):
            whole[name] += count
    total = sum(lines.values()) or 1
    lists = {"lines, own": lines, "functions, own": own, "functions, with what they call": whole}
    parts = [part for title, counts in lists.items() for part in (f"{title}:", *ranked(counts, total), "")]
    return "\n".join([f"{total} samples", *parts])


def ranked(counts: collections.Counter[str], total: int) -> list[str]:
    """The first of them, in percent."""
    return [f"  {100 * count / total:5.1f} %  {name}" for name, count in counts.most_common(SHOWN)]


def profiled(stage: Stage, pid: int, seconds: int, native: bool) -> tuple[Child, str]:
    """Start py-spy on a process; returns it and the file that it will write."""
    program = shutil.which("py-spy")
    if program is None:
        raise ChainError("py-spy is not on PATH: pip install py-spy")
    path = os.path.join(stage.folder, "raw")
    # Without --nonblocking the process is stopped for each sample, which C frames need.
    sampling = ["--duration", str(seconds), "--rate", "500", "--native" if native else "--nonblocking"]
    words = [program, "record", "--pid", str(pid), *sampling, "--format", "raw", "--output", path]
    return stage.spawn(words, dict(os.environ)), path


def main() -> int:
    """Load, sample, print."""
    parser = argparse.ArgumentParser(description="Sample the daemon or the bridge under load.")
    parser.add_argument("--target", choices=("daemon", "bridge"), default="daemon")
    parser.add_argument("--load", choices=tuple(CALLS_PER_TURN), default="calls")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--native", action="store_true", help="C frames as well (uvloop, msgspec)")
    wanted = parser.parse_args()
    with Stage() as stage:
        try:
            chain = HearthChain(stage, "p", ECHO)
            end = attached(chain)
            pid = chain.daemon_pid() if wanted.target == "daemon" else end.child.pid
            spy, path = profiled(stage, pid, wanted.seconds, wanted.native)
            figure = load(chain, end, wanted.load, wanted.seconds + MARGIN_SECONDS)
            spy.leave()
            print(report(frames(path)))
            unit = "calls/s" if wanted.load == "pipeline" else "µs"
            print(f"the last figure under the profiler: {figure:,.0f} {unit}")
        except (ChainError, OSError) as exc:
            print(f"profile: {exc}\n{stage.said()}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

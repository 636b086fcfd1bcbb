"""How much memory a set of processes takes.

PSS where the kernel tells it: memory that processes share, such as the interpreter itself, is counted once
and not per process, so that a sum over processes is honest. Otherwise RSS, for the whole sum, and the name
says which.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

PS_SECONDS = 10.0


class Measure(NamedTuple):
    """A way to look at a process: its name, and a function that gives bytes or raises OSError."""

    name: str
    of: Callable[[int], int]


def _pss(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    raise OSError(f"no Pss in smaps_rollup of {pid}")


def _rss(pid: int) -> int:
    if sys.platform == "win32":
        raise OSError("nothing here tells the memory of a process on Windows")
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False)
        return int(found.stdout.strip() or 0) * 1024


def choose() -> Measure:
    """The best measure that this system has."""
    try:
        _pss(os.getpid())
    except OSError:
        return Measure("RSS", _rss)
    return Measure("PSS", _pss)


def total(measure: Measure, pids: Sequence[int]) -> int:
    """Bytes of all these processes; one that has gone meanwhile counts nothing."""
    size = 0
    for pid in pids:
        try:
            size += measure.of(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return size

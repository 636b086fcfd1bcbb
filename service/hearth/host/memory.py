"""How much memory a set of processes takes, and which processes belong to a server's.

PSS where the kernel tells it: memory that processes share, such as the interpreter itself, is counted once
and not per process, so that a sum over processes is honest. Otherwise RSS, for the whole sum, and the name
says which.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

PS_SECONDS = 10.0
PSS, RSS = "PSS", "RSS"


class Measure(NamedTuple):
    """A way to look at a process: its name, and a function that gives bytes or raises OSError."""

    name: str
    of: Callable[[int], int]


class Weight(NamedTuple):
    """Memory of some processes: all of it, and the part that no other process maps.

    Where the system does not tell shared memory apart, both are the RSS.
    """

    whole: int
    private: int


def _rollup(pid: int) -> Weight:
    whole, private = -1, 0
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            if line.startswith("Pss:"):
                whole = int(line.split()[1]) * 1024
            elif line.startswith("Private_"):
                private += int(line.split()[1]) * 1024
    if whole < 0:
        raise OSError(f"no Pss in smaps_rollup of {pid}")
    return Weight(whole, private)


def _pss(pid: int) -> int:
    return _rollup(pid).whole


def _rss(pid: int) -> int:
    if sys.platform == "win32":
        from hearth.host.windows.memory import working_set

        return working_set(pid)
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
        return Measure(RSS, _rss)
    return Measure(PSS, _pss)


def total(measure: Measure, pids: Sequence[int]) -> int:
    """Bytes of all these processes; one that has gone meanwhile counts nothing."""
    size = 0
    for pid in pids:
        try:
            size += measure.of(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return size


class Kin(NamedTuple):
    """Where a process belongs."""

    parent: int
    group: int


def families(leaders: Iterable[int]) -> dict[int, list[int]]:
    """Of each process: itself, what descends from it, and what is in its group, orphans included. One look at all."""
    found = _everybody()
    return {leader: family(leader, found) for leader in leaders}


def family(leader: int, everybody: dict[int, Kin]) -> list[int]:
    """The processes that belong to one of them."""
    if leader not in everybody:
        return []
    children: dict[int, list[int]] = {}
    for pid, kin in everybody.items():
        children.setdefault(kin.parent, []).append(pid)
    waiting = [pid for pid, kin in everybody.items() if pid == leader or kin.group == leader]
    members: dict[int, None] = {}
    while waiting:
        pid = waiting.pop()
        if pid not in members:
            members[pid] = None
            waiting += children.get(pid, ())
    return sorted(members)


def of_families(leaders: Sequence[int]) -> dict[int, int | None]:
    """Bytes of each process with all that belongs to it; None for one that is gone, or where nothing tells."""
    return {leader: weight.whole if weight else None for leader, weight in weights_of_families(leaders).items()}


def weights_of_families(leaders: Sequence[int]) -> dict[int, Weight | None]:
    """Weigh each process with all that belongs to it; None for one that is gone, or where nothing tells."""
    return {leader: weigh(members) for leader, members in families(leaders).items()}


def weigh(pids: Sequence[int]) -> Weight | None:
    """Sum the memory of these processes; None if there are none, or if one may not be looked at."""
    of = _rollup if choose().name == PSS else _only_resident
    found = []
    for pid in pids:
        try:
            found.append(of(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            # Another user's, or kept secret from us.
            return None
    return Weight(sum(each.whole for each in found), sum(each.private for each in found)) if found else None


def _only_resident(pid: int) -> Weight:
    size = _rss(pid)
    return Weight(size, size)


def _everybody() -> dict[int, Kin]:
    if sys.platform == "win32":
        from hearth.host.windows.memory import parents

        # There are no groups; whoever lost its parent is not told apart from the rest.
        return {pid: Kin(parent, pid) for pid, parent in parents().items()}
    if os.path.exists("/proc/self/stat"):
        return {pid: kin for name in os.listdir("/proc") if name.isdigit() and (kin := _kin(pid := int(name)))}
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid="]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PS_SECONDS, check=False)
    rows = (line.split() for line in found.stdout.splitlines())
    return {int(pid): Kin(int(parent), int(group)) for pid, parent, group in rows}


def _kin(pid: int) -> Kin | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # proc(5): after the name in brackets, which may hold brackets itself, come state, ppid and pgrp.
    fields = text[text.rindex(b")") + 2 :].split()
    return Kin(int(fields[1]), int(fields[2]))

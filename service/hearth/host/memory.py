"""Memory of sets of processes, which processes belong to a server's, and what sharing a server saves.

PSS where the kernel tells it: memory that processes share, such as the interpreter itself, is counted once
and not per process, so that a sum over processes is honest. Otherwise RSS, for the whole sum, and the name
says which. psutil reads both; it is imported with the first measurement, which no daemon makes at its start.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

PSS, RSS = "PSS", "RSS"


class Weight(NamedTuple):
    """Memory of some processes: all of it, and the part that no other process maps.

    Where the system does not tell shared memory apart, both are the RSS.
    """

    whole: int
    private: int


class Measure(NamedTuple):
    """Way to measure a process: its name, and a function that returns bytes or raises psutil.Error."""

    name: str
    of: Callable[[int], int]


def _rollup(pid: int) -> Weight:
    import psutil

    found = psutil.Process(pid).memory_full_info()
    return Weight(int(found.pss), int(found.uss))


def _resident(pid: int) -> Weight:
    import psutil

    size = int(psutil.Process(pid).memory_info().rss)
    return Weight(size, size)


def _knows_pss() -> bool:
    import psutil

    try:
        _rollup(os.getpid())
    except (AttributeError, OSError, psutil.Error):
        # Not Linux, or a kernel or a container that does not tell.
        return False
    return True


def choose() -> Measure:
    """Return the best measure that this system has."""
    if _knows_pss():
        return Measure(PSS, lambda pid: _rollup(pid).whole)
    return Measure(RSS, lambda pid: _resident(pid).whole)


def total(measure: Measure, pids: Sequence[int]) -> int:
    """Sum the bytes of these processes; one that has gone meanwhile counts nothing. Raises PermissionError."""
    import psutil

    size = 0
    for pid in pids:
        try:
            size += measure.of(pid)
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied as exc:
            raise PermissionError(f"the memory of process {pid} may not be read") from exc
    return size


class Kin(NamedTuple):
    """Parent and process group of a process."""

    parent: int
    group: int


def families(leaders: Iterable[int]) -> dict[int, list[int]]:
    """Map each process to itself, its descendants and the members of its group, orphans included. One look at all."""
    found = _everybody()
    return {leader: family(leader, found) for leader in leaders}


def family(leader: int, everybody: dict[int, Kin]) -> list[int]:
    """Return the processes that belong to one of them."""
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
    """Return the bytes of each process with all that belongs to it; None for one that is gone or does not tell."""
    return {leader: weight.whole if weight else None for leader, weight in weights_of_families(leaders).items()}


def weights_of_families(leaders: Sequence[int]) -> dict[int, Weight | None]:
    """Weigh each process with all that belongs to it; None for one that is gone, or where nothing tells."""
    return {leader: weigh(members) for leader, members in families(leaders).items()}


def weigh(pids: Sequence[int]) -> Weight | None:
    """Sum the memory of these processes; None if there are none, or if one may not be looked at."""
    import psutil

    of = _rollup if _knows_pss() else _resident
    found = []
    for pid in pids:
        try:
            found.append(of(pid))
        except psutil.NoSuchProcess:
            continue
        except (OSError, psutil.Error):
            # Another user's, or kept secret from us.
            return None
    return Weight(sum(each.whole for each in found), sum(each.private for each in found)) if found else None


def _everybody() -> dict[int, Kin]:
    import psutil

    found = {each.pid: each.info for each in psutil.process_iter(["ppid", "create_time"])}

    def parent(pid: int) -> int:
        """Return the parent; 0 where it is gone, or cannot be told from a stranger that has its pid by now."""
        above, born = found[pid]["ppid"] or 0, found[pid]["create_time"]
        its = found[above]["create_time"] if above in found else None
        return above if its is not None and born is not None and its <= born else 0

    return {pid: Kin(parent(pid), _group(pid)) for pid in found}


def _group(pid: int) -> int:
    """Return the process group; the process itself on Windows, which has none: orphans are not told from the rest."""
    if sys.platform == "win32":
        return pid
    try:
        return os.getpgid(pid)
    except OSError:
        return pid


# --- the status document


def with_memory(found: dict[str, Any]) -> dict[str, Any]:
    """Put the memory of each server's processes into the document, and what sharing them saves.

    Never in the daemon's loop: the kernel takes milliseconds to count a large process, which would hold it up.
    """
    instances = [each for server in found.get("upstreams") or [] for each in server.get("instances") or []]
    pids = [pid for each in instances for pid in each.get("pids") or []]
    weights = weights_of_families(pids) if pids else {}
    for each in [*instances, *(found.get("upstreams") or [])]:
        known = [weight.whole for pid in each.get("pids") or [] if (weight := weights.get(pid)) is not None]
        each["memoryBytes"] = sum(known) if known else None
    bridges = [each.get("pid") for each in found.get("sessions") or [] if each.get("wire") == "frames"]
    own = weigh([pid for pid in [found.get("pid"), *bridges] if isinstance(pid, int)]) if pids else None
    found["savings"] = savings(instances, weights, own)
    return found


def savings(
    instances: list[dict[str, Any]], weights: Mapping[int, Weight | None], own: Weight | None
) -> dict[str, Any] | None:
    """Compare what runs through Hearth with an instance of its own for each session that uses one.

    None where nothing runs. `own` is the daemon with its bridges. Memory that processes share is counted once on both
    sides, so only the private memory of an instance is multiplied.
    """
    running = [each for each in instances if each.get("pids")]
    if not running:
        return None
    whole, apart, runs_apart = own.whole if own else 0, 0, 0
    for each in running:
        known = [weight for pid in each["pids"] if (weight := weights.get(pid)) is not None]
        users = max(1, int(each.get("sessions") or 0))
        whole += sum(weight.whole for weight in known)
        apart += sum(weight.whole + (users - 1) * weight.private for weight in known)
        runs_apart += users
    return {
        "measure": choose().name,
        "runs": len(running),
        "runsApart": runs_apart,
        "memoryBytes": whole,
        "memoryApartBytes": apart,
    }

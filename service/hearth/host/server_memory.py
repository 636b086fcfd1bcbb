"""How much memory the servers take, put into the status document. May be used by who asks a daemon, as well."""

from collections.abc import Mapping
from typing import Any

from hearth.host import memory
from hearth.host.memory import Weight


def with_memory(found: dict[str, Any]) -> dict[str, Any]:
    """The document with the memory of each server's processes in it, and with what sharing them saves.

    Never in the daemon's loop: the kernel takes milliseconds to count a large process, which would hold it up.
    """
    instances = [each for server in found.get("upstreams") or [] for each in server.get("instances") or []]
    pids = [pid for each in instances for pid in each.get("pids") or []]
    weights = memory.weights_of_families(pids) if pids else {}
    for each in [*instances, *(found.get("upstreams") or [])]:
        known = [weight.whole for pid in each.get("pids") or [] if (weight := weights.get(pid)) is not None]
        each["memoryBytes"] = sum(known) if known else None
    bridges = [each.get("pid") for each in found.get("sessions") or [] if each.get("wire") == "frames"]
    own = memory.weigh([pid for pid in [found.get("pid"), *bridges] if isinstance(pid, int)]) if pids else None
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
        "measure": memory.choose().name,
        "runs": len(running),
        "runsApart": runs_apart,
        "memoryBytes": whole,
        "memoryApartBytes": apart,
    }

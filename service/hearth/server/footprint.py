"""How much memory the servers take, put into the status document. May be used by who asks a daemon, as well."""

from typing import Any

from hearth.host import memory


def with_memory(found: dict[str, Any]) -> dict[str, Any]:
    """The document with the memory of each server's processes in it.

    Never in the daemon's loop: the kernel takes milliseconds to count a large process, which would hold it up.
    """
    instances = [each for server in found.get("upstreams") or [] for each in server.get("instances") or []]
    pids = [pid for each in instances for pid in each.get("pids") or []]
    sizes = memory.of_families(pids) if pids else {}
    for each in [*instances, *(found.get("upstreams") or [])]:
        known = [size for pid in each.get("pids") or [] if (size := sizes.get(pid)) is not None]
        each["memoryBytes"] = sum(known) if known else None
    return found

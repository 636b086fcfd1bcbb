"""Memory of the servers that clients run for themselves, and an estimate of the same through Hearth. Pure.

The estimate is pessimistic about Hearth: memory that processes share (libraries, the interpreter's file) is
counted as if all of it stayed, so only the private memory of the processes that would not run is saved.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from hearth.clients.running import RunningServer
from hearth.host.process_table import Weight
from hearth.mcp import isolation
from hearth.mcp.packages import base

# Measured by `hearth demo` (PSS) and rounded up: the daemon, and one bridge for each server of each client.
DAEMON_BYTES = 26_000_000
BRIDGE_BYTES = 4_300_000


class ServerWeight(NamedTuple):
    """Memory of one server, with all its instances."""

    name: str
    instances: tuple[RunningServer, ...]
    needed: int  # how many would run through Hearth
    isolation: isolation.Mode
    weight: Weight | None  # of all instances; None if unknown

    @property
    def saved_bytes(self) -> float:
        """Memory of the instances that Hearth would not start."""
        spare = len(self.instances) - self.needed
        return self.weight.private * spare / len(self.instances) if self.weight else 0.0


class Estimate(NamedTuple):
    """Estimate for the whole machine, as it is and with Hearth."""

    servers: list[ServerWeight]
    now_bytes: int
    servers_bytes: int  # through Hearth
    daemon_bytes: int
    bridges_bytes: int

    @property
    def with_hearth_bytes(self) -> int:
        """Total memory with Hearth."""
        return self.servers_bytes + self.daemon_bytes + self.bridges_bytes


def servers_of(
    instances: Sequence[RunningServer],
    variables: Callable[[int], Mapping[str, str]],
    folder: Callable[[int], str | None],
    weigh: Callable[[Sequence[int]], Weight | None],
) -> list[ServerWeight]:
    """Group equal instances: the same command line, and the same values of the variables that an entry sets."""
    groups: dict[Hashable, list[RunningServer]] = {}
    for instance in instances:
        groups.setdefault(_key(instance, variables), []).append(instance)
    found = [_server(group, folder, weigh) for group in groups.values()]
    return sorted(found, key=lambda server: (-len(server.instances), server.name))


def estimate(servers: list[ServerWeight], daemon_runs: bool) -> Estimate:
    """Estimate the memory without and with Hearth. A daemon that runs already costs nothing more."""
    now = sum(server.weight.whole for server in servers if server.weight)
    saved = sum(server.saved_bytes for server in servers)
    instances = sum(len(server.instances) for server in servers)
    daemon = 0 if daemon_runs or not servers else DAEMON_BYTES
    return Estimate(servers, now, round(now - saved), daemon, instances * BRIDGE_BYTES)


def _key(instance: RunningServer, variables: Callable[[int], Mapping[str, str]]) -> Hashable:
    program, *words = instance.argv
    arguments = tuple(word for word in words if word not in ("-y", "--yes"))
    names = instance.entry.variables if instance.entry else ()
    values = variables(instance.pids[0]) if names else {}
    return base(program), arguments, tuple((name, values.get(name)) for name in sorted(names))


def _server(
    group: list[RunningServer],
    folder: Callable[[int], str | None],
    weigh: Callable[[Sequence[int]], Weight | None],
) -> ServerWeight:
    first = group[0]
    words = (first.entry.command, *first.entry.args) if first.entry else first.argv
    mode, _ = isolation.initial(words[0], words[1:])
    needed = len(group) if mode == isolation.SESSION else 1
    if mode == isolation.WORKSPACE:
        needed = len({folder(instance.pids[0]) for instance in group})
    pids = [pid for instance in group for pid in instance.pids]
    return ServerWeight(first.name, tuple(group), needed, mode, weigh(pids))

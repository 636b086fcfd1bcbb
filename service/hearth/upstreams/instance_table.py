"""Table of one server's instances, by what their clients share, and their status for `hearth status --json`."""

from typing import NamedTuple

from hearth.upstreams import workload
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import FAILED, FAILING, GIVEN_UP, IDLE, READY, STARTING, STOPPED, STOPPING
from hearth.upstreams.workload import CallStats

# State of a server with several instances: the first of these that one of them has.
_BEST_FIRST = (READY, STARTING, STOPPING, IDLE, FAILED)
# Length of the cause of a failure, which is one line: a server's last words may be long.
CAUSE_CHARACTERS = 500


class InstanceKey(NamedTuple):
    """Key of an instance: equal for clients that share it. The era is the server's choice, not the client's."""

    era: str
    mode: str
    place: str


class InstanceTable(dict[InstanceKey, Instance]):
    """Instances of one server in use, and the counts of those that are no longer in use."""

    def __init__(self) -> None:
        super().__init__()
        self._former = CallStats()
        self._former_restarts = 0

    def key_of(self, instance: Instance) -> InstanceKey | None:
        """Return the key under which an instance is filed."""
        return next((key for key, known in self.items() if known is instance), None)

    def take_out(self, key: InstanceKey, instance: Instance) -> None:
        """Remove an instance that is no longer used, and keep its counts."""
        if self.get(key) is instance:
            del self[key]
        self._former.absorb(instance.stats)
        self._former_restarts += instance.restarts
        # Calls that are still in flight are counted there, too.
        instance.stats = self._former

    @property
    def is_busy(self) -> bool:
        """True if one works although no call waits for it."""
        return any(instance.connection is not None and instance.connection.busy for instance in self.values())

    @property
    def needs_login(self) -> bool:
        """True if one runs and refuses every request until a user has logged in."""
        connections = (instance.connection for instance in self.values())
        return any(found and found.needs_login for found in connections)

    @property
    def state(self) -> str:
        """Best state among the instances."""
        states = {state_of(instance) for instance in self.values()}
        return next((state for state in _BEST_FIRST if state in states), STOPPED)

    @property
    def error(self) -> str | None:
        """Last failure of one of them."""
        return next((instance.error for instance in self.values() if instance.error), None)

    @property
    def pids(self) -> list[int]:
        """Pids of all processes."""
        return [pid for instance in self.values() for pid in instance.pids]

    def call_stats(self) -> CallStats:
        """Return the counts of all instances, former ones included."""
        found = CallStats()
        for part in (self._former, *(instance.stats for instance in self.values())):
            found.absorb(part)
        return found

    def describe(self, pins: dict[str, object]) -> dict[str, object]:
        """Describe the instances in `hearth status --json`; `pins` describe the server's pinned tools."""
        found = self.values()
        return {
            "givenUp": any(instance.state == GIVEN_UP for instance in found),
            "strayOutput": next(filter(None, map(stray_output, found)), None),
            **pins,
            "restarts": self._former_restarts + sum(instance.restarts for instance in found),
            **workload.total([self._former, *(instance.stats for instance in found)]),
            "instances": [of_instance(each, key.place) for key, each in self.items()],
        }


def state_of(instance: Instance) -> str:
    """Return the state to show: `failed` for every way of not working, a process that died included."""
    has_died = instance.state == STOPPED and instance.error is not None
    return FAILED if has_died or instance.state in FAILING else instance.state


def cause(name: str, error: str | None) -> str | None:
    """Return an error as one line, without the server's name, which is shown beside it."""
    if error is None:
        return None
    text = " ".join(error.split())
    prefixes = (f"server {name!r} could not be started: ", f"server {name!r}: ", f"server {name!r} ")
    while prefix := next((each for each in prefixes if text.startswith(each)), ""):
        text = text.removeprefix(prefix)
    return text if len(text) <= CAUSE_CHARACTERS else f"{text[: CAUSE_CHARACTERS - 1]}…"


def stray_output(instance: Instance) -> dict[str, object] | None:
    """Describe the lines on an instance's stdout that were not MCP."""
    connection = instance.connection
    return {"lines": connection.stray_lines, "first": connection.stray} if connection and connection.stray else None


def of_instance(instance: Instance, place: str) -> dict[str, object]:
    """Describe one instance; `place` is the workspace or session that its clients share."""
    return {
        "era": instance.era,
        "place": place or None,
        "state": state_of(instance),
        "error": cause(instance.name, instance.error),
        "givenUp": instance.state == GIVEN_UP,
        "retrySeconds": round(instance.pause, 1) or None,
        "pids": instance.pids,
        "sessions": len(instance.holders),
        "inFlight": instance.in_flight,
        "restarts": instance.restarts,
        "strayOutput": stray_output(instance),
        "startedAt": instance.started_at if instance.state == READY else None,
        **instance.stats.describe(),
    }

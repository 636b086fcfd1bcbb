"""Status of a server's instances for `hearth status --json`. Reads only."""

from collections.abc import Iterable, Mapping
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


def best_state(instances: Iterable[Instance]) -> str:
    """Return the best state among several instances."""
    states = {state_of(instance) for instance in instances}
    return next((state for state in _BEST_FIRST if state in states), STOPPED)


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


def of_instances(
    instances: Mapping[InstanceKey, Instance], former: CallStats, former_restarts: int, pins: dict[str, object]
) -> dict[str, object]:
    """Describe all instances of a server; `former` are the counts of instances that are no longer in use."""
    found = instances.values()
    return {
        "givenUp": any(instance.state == GIVEN_UP for instance in found),
        "strayOutput": next(filter(None, map(stray_output, found)), None),
        **pins,
        "restarts": former_restarts + sum(instance.restarts for instance in found),
        **workload.total([former, *(instance.stats for instance in found)]),
        "instances": [of_instance(each, key.place) for key, each in instances.items()],
    }


def summed(parts: Iterable[CallStats]) -> CallStats:
    """Return the sum of several counts."""
    found = CallStats()
    for part in parts:
        found.absorb(part)
    return found

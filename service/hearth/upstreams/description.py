"""What `hearth status --json` says of a server's instances. Looks only."""

from collections.abc import Iterable

from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import FAILED, GIVEN_UP, IDLE, PAUSED, READY, STARTING, STOPPED, STOPPING

# What is said of a server with several instances: that of the first one that is found here.
_BEST_FIRST = (READY, STARTING, STOPPING, IDLE, PAUSED, FAILED, GIVEN_UP)


def best_state(instances: Iterable[Instance]) -> str:
    """The best that can be said of several."""
    states = {instance.state for instance in instances}
    return next((state for state in _BEST_FIRST if state in states), STOPPED)


def of_instance(instance: Instance, place: str) -> dict[str, object]:
    """One of them; `place` is what its clients have in common."""
    return {
        "era": instance.era,
        "place": place or None,
        "state": instance.state,
        "error": instance.error,
        "retrySeconds": round(instance.pause, 1) or None,
        "pids": instance.pids,
        "sessions": len(instance.holders),
        "inFlight": instance.in_flight,
        "restarts": instance.restarts,
        "startedAt": instance.started_at if instance.state == READY else None,
        **instance.figures.describe(),
    }

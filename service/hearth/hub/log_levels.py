"""How verbose servers are: as verbose as the most curious of those who hear them, and each hears what it asked for."""

from collections.abc import Iterable

from hearth.errors import HearthError
from hearth.hub.calls import Call
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.instance import Instance
from hearth.upstreams.resource_subscriptions import IgnoreReply
from hearth.wire import json

# A legacy client that never set a level expects messages; a modern server sends none unless a level is named.
DEFAULT = "info"


def at_least(level: str | None, threshold: str | None) -> bool:
    """Whether a message of that level is to be heard. What no revision knows is heard by those who set no threshold."""
    if threshold is None:
        return True
    if level not in versions.LOG_LEVELS or threshold not in versions.LOG_LEVELS:
        return False
    return versions.LOG_LEVELS.index(level) >= versions.LOG_LEVELS.index(threshold)


def most_verbose(levels: Iterable[str | None]) -> str | None:
    """The lowest of the levels that were set."""
    known = [level for level in levels if level in versions.LOG_LEVELS]
    return min(known, key=versions.LOG_LEVELS.index) if known else None


class LogLevels:
    """Keeps legacy servers at the level that is wanted of them. A modern one is told with every request."""

    def attached(self, call: Call) -> None:
        """A parked call goes on for a request that may want to hear more."""
        if call.attempt and call.log_level:
            self.sync(call.attempt.instance, call.log_level)

    def sync(self, instance: Instance, wanted: str | None = None) -> None:
        """Those who use it have changed, or what they want; `wanted` by a request that is about to be sent."""
        offering = instance.catalog
        if instance.era != versions.LEGACY or offering is None or "logging" not in offering.capabilities:
            return
        holders = [holder for holder in instance.holders if isinstance(holder, Session)]
        if wanted is None and not any(holder.log_level for holder in holders):
            return
        # Who set none expects what servers say by default.
        set_levels = [holder.log_level or DEFAULT for holder in holders if holder.era == versions.LEGACY]
        level = most_verbose([*set_levels, wanted])
        if level is None or level == instance.log_level or instance.connection is None:
            return
        if wanted and at_least(wanted, instance.log_level) and instance.log_level:
            # Verbose enough; it is not made quieter for one request.
            return
        try:
            params = json.dumps({"level": level})
            # Standing: one that the server never answers must not count as a call in flight.
            instance.connection.request_stream(b'"logging/setLevel"', params, IgnoreReply(instance.name))
        except HearthError:
            return
        instance.log_level = level

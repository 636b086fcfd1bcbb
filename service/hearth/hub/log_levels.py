"""Log levels: a server is as verbose as its most demanding client asks, and each client gets what it asked for."""

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
    """Tell whether a message passes a threshold. Levels that no revision knows pass only where no threshold is set."""
    if threshold is None:
        return True
    if level not in versions.LOG_LEVELS or threshold not in versions.LOG_LEVELS:
        return False
    return versions.LOG_LEVELS.index(level) >= versions.LOG_LEVELS.index(threshold)


def most_verbose(levels: Iterable[str | None]) -> str | None:
    """Return the lowest of the levels that were set."""
    known = [level for level in levels if level in versions.LOG_LEVELS]
    return min(known, key=versions.LOG_LEVELS.index) if known else None


class LogLevels:
    """Setter of the log levels of legacy servers. A modern server is told the level with every request."""

    def attached(self, call: Call) -> None:
        """Raise the verbosity for a request that resumes a suspended call, if it wants more messages."""
        if call.attempt and call.log_level:
            self.sync(call.attempt.instance, call.log_level)

    def sync(self, instance: Instance, wanted: str | None = None) -> None:
        """Set the level after the instance's sessions or their levels changed.

        `wanted` is the level of a request that is about to be sent.
        """
        offering = instance.catalog
        if instance.era != versions.LEGACY or offering is None or "logging" not in offering.capabilities:
            return
        holders = [holder for holder in instance.holders if isinstance(holder, Session)]
        if wanted is None and not any(holder.log_level for holder in holders):
            return
        # A client that set none expects the server's default messages.
        set_levels = [holder.log_level or DEFAULT for holder in holders if holder.era == versions.LEGACY]
        level = most_verbose([*set_levels, wanted])
        if level is None or level == instance.log_level or instance.connection is None:
            return
        if wanted and at_least(wanted, instance.log_level) and instance.log_level:
            # Verbose enough; the server is not made quieter for one request.
            return
        try:
            params = json.dumps({"level": level})
            # As a stream: a request that the server never answers must not count as a call in flight.
            instance.connection.request_stream(b'"logging/setLevel"', params, IgnoreReply(instance.name))
        except HearthError:
            return
        instance.log_level = level

"""What an instance has done since somebody last looked, for whoever decides whether it goes on."""

from hearth.upstreams.connection import Connection
from hearth.upstreams.stats import CallStats
from hearth.upstreams.supervision import Load


class Workload:
    """Of one instance, whose conversations come one after the other."""

    def __init__(self) -> None:
        # Calls without an error, at the beginning of this conversation; and all of them, at the last look.
        self._served_before = 0
        self._calls_seen = 0

    def begun(self, figures: CallStats) -> None:
        """A conversation begins."""
        self._served_before = _served(figures)

    def has_served(self, figures: CallStats) -> bool:
        """Whether this conversation was good for a call."""
        return _served(figures) > self._served_before

    def look(self, connection: Connection, figures: CallStats, busy: bool) -> Load:
        """What came of it since the last look."""
        heard, connection.heard = connection.heard, False
        gave_up, connection.gave_up = connection.gave_up, False
        seen, self._calls_seen = self._calls_seen, figures.calls
        return Load(busy, used=gave_up or seen != self._calls_seen, heard=heard, gave_up=gave_up)


def _served(figures: CallStats) -> int:
    return figures.calls - figures.errors

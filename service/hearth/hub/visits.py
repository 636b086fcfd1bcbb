"""Elicitations by URL that clients were told of: who is to hear when a server announces that one is complete.

The ids are a server's own choice, and two processes of one server may choose the same.
"""

from hearth.hub.sessions import Session
from hearth.upstreams.connection import Connection

# Those whose end may still be announced; above it the oldest are forgotten.
VISITS_LIMIT = 1000


class UrlVisits:
    """Which session was told of which."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[Connection, str], Session] = {}

    def begun(self, connection: Connection, elicitation: str, session: Session) -> None:
        """A client was sent to a URL."""
        if len(self._sessions) >= VISITS_LIMIT:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[connection, elicitation] = session

    def ended(self, connection: Connection | None, elicitation: str) -> Session | None:
        """Whose it was, when its server announces the end of it; None for what nobody was told of."""
        return self._sessions.pop((connection, elicitation), None) if connection else None

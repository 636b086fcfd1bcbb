"""Protocol of the connections of the daemon, and the counters that they share."""

from typing import Protocol

from hearth.config import Config
from hearth.hub.sessions import Session


class ClientConnection(Protocol):
    """A connection whose protocol is known."""

    session: Session | None = None
    # When data last arrived from the peer; None where the peer sends no heartbeats.
    last_seen: float | None = None
    # The heartbeat interval that the peer was told, in seconds.
    heartbeat_interval: float = 0.0
    # Whether the connection may carry requests of any session, and so has none of its own.
    is_shared: bool = False

    def drain(self, reconnect: bool, reason: str) -> None:
        """Accept no further requests."""

    def close(self) -> None:
        """Close after the peer has taken everything that is queued."""

    def adapt(self, config: Config) -> None:
        """Apply those settings of a new config that hold for existing connections."""


class Counters:
    """Counters of the daemon. None of them is on the path of a call that is served."""

    __slots__ = ("connections_refused", "messages_refused", "readers_dropped", "reloads", "reloads_failed")

    def __init__(self) -> None:
        # Connections that were refused for lack of room or permission.
        self.connections_refused = 0
        # Messages over a limit, by limit and by kind of message.
        self.messages_refused = {("rate", "request"): 0, ("rate", "notification"): 0, ("in_flight", "request"): 0}
        # Clients that were dropped because they did not read (outbound_limit).
        self.readers_dropped = 0
        # Reloads of the config while the daemon ran, and the failed ones among them.
        self.reloads = 0
        self.reloads_failed = 0


COUNTERS = Counters()

"""Protocols between the daemon and its connections, and the counters that they share."""

from typing import TYPE_CHECKING, Any, Protocol

from hearth.config import Config
from hearth.hub.control_api import ControlApi
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session

if TYPE_CHECKING:
    from hearth.daemon.policy_service import PolicyService
    from hearth.packs.agents.service import AgentService


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


class DaemonServices(Protocol):
    """Services of the daemon that its connections use."""

    hub: Hub
    control: ControlApi
    policy: "PolicyService"
    # The folder for sessions that outlive the daemon.
    kept_sessions: str

    @property
    def config(self) -> Config:
        """The config in force."""

    def now(self) -> float:
        """Return the time of the loop's clock."""

    async def attributed(self, pid: int | None) -> Session | None:
        """Return the session whose client a process descends from, if there is a policy; None for a person."""

    def check_room(self) -> None:
        """Raise NoRoom if one more session would be too many."""

    def status(self) -> dict[str, Any]:
        """Return the status document."""

    def agents(self) -> "AgentService":
        """Return the agents of this daemon; the first call makes the service, which `start` then starts."""

    def connections(self) -> dict[str, int]:
        """Return the number of connections by protocol."""

    def reload(self) -> str:
        """Read the config again. Raises ConfigError; the old config then stays in force."""

    def look_at_config(self) -> None:
        """Reload the config if its file has changed."""

    def shut_down(self, reason: str, reconnect: bool) -> None:
        """Begin the shutdown."""

    def shut_down_when_quiet(self, reason: str) -> None:
        """Begin the shutdown as soon as no client waits for an answer; bridges then reconnect at once."""

    def welcome(self, wire: ClientConnection) -> None:
        """Register a connection whose client is known now. The daemon may be shutting down already."""

    def http_failed(self, reason: str) -> None:
        """Handle that HTTP is no longer served, or could not be."""

    def own_addresses(self) -> list[object]:
        """Return the addresses at which this daemon listens, as the kernel has them."""

    def forget(self, wire: ClientConnection) -> None:
        """Remove a connection that has ended."""


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

"""What a connection may ask of the daemon it belongs to."""

from typing import Any, Protocol

from hearth.config import Config
from hearth.hub.control_api import ControlApi
from hearth.hub.hub import Hub
from hearth.hub.sessions import Session


class Wire(Protocol):
    """A connection that has decided what it speaks."""

    session: Session | None
    # When the other side was last heard; None where it has no heartbeat.
    last_seen: float | None
    # How often it was told to say that it lives.
    heartbeat_interval: float
    # Whether it may carry requests of any session, and so has none.
    is_shared: bool

    def drain(self, reconnect: bool, reason: str) -> None:
        """Take nothing new."""

    def close(self) -> None:
        """Close after everything queued has been taken."""

    def adapt(self, config: Config) -> None:
        """Another config is in force, of which some holds for connections that are there already."""


class DaemonServices(Protocol):
    """The daemon, as its connections see it."""

    hub: Hub
    control: ControlApi

    @property
    def config(self) -> Config:
        """The config in force."""

    @property
    def kept_sessions(self) -> str:
        """The folder for sessions that outlive it."""

    def now(self) -> float:
        """The loop's clock."""

    def check_room(self) -> None:
        """Raise NoRoom if one session more would be too many."""

    def status(self) -> dict[str, Any]:
        """The status document."""

    def connections(self) -> dict[str, int]:
        """How many connections there are, by what they speak."""

    def reload(self) -> str:
        """Read the config again. Raises ConfigError, and the old one stays."""

    def look_at_config(self) -> None:
        """Reload if the file is another than the one in force."""

    def shut_down(self, reason: str, reconnect: bool) -> None:
        """Begin the shutdown."""

    def shut_down_when_quiet(self, reason: str) -> None:
        """Begin the shutdown, after which bridges come back at once, when nobody waits for an answer any longer."""

    def welcome(self, wire: Wire) -> None:
        """A connection that was nobody's is somebody's now. The daemon may be on its way out."""

    def http_failed(self, reason: str) -> None:
        """HTTP is served no longer, or could not be."""

    def forget(self, wire: Wire) -> None:
        """A connection has ended."""

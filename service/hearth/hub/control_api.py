"""The protocol of commands about the daemon itself, for every frontend: frames, HTTP, session lines, dashboard, packs.

`hearth.daemon.control` implements it. A frontend authorizes its client first and passes the session that asks, if there
is one: what such a session wants is put to the owner (`owner_approval`).
"""

from typing import Any, NamedTuple, Protocol

from hearth.hub.events import HubEvent, Subscription
from hearth.hub.sessions import Session


class EventFeed(NamedTuple):
    """The kept events, the oldest first, and the subscription that goes on right behind them, if it was asked for."""

    kept: list[HubEvent]
    subscription: Subscription | None


class ControlApi(Protocol):
    """Commands about the daemon. Commands that change something return a sentence; every one may raise HearthError."""

    def cmd_status(self) -> dict[str, Any]:
        """Return the status document."""

    def cmd_sessions(self) -> list[dict[str, Any]]:
        """Return the sessions as the status document has them."""

    def cmd_servers(self) -> list[dict[str, Any]]:
        """Return the MCP servers as the status document has them."""

    async def cmd_tools(self, query: str = "", server: str | None = None, limit: object = None) -> bytes:
        """Return the known tools, or those that fit a query, as a JSON document. Starts no server."""

    def cmd_events(self, follow: bool = False, count: int | None = None) -> EventFeed:
        """Return the newest `count` kept events (all without it) and, to `follow`, a subscription to close."""

    def cmd_approved(self) -> str:
        """Read again which tools a person approved, and tell clients. Needs no consent: only a person writes that."""

    async def cmd_reload(self, asker: Session | None = None) -> str:
        """Read the config again. Raises ConfigError, and the former one stays; Refused by the owner."""

    async def cmd_restart(self, server: str, asker: Session | None = None) -> str:
        """Restart one MCP server when its calls are done. Raises Refused, also for a name that is not known."""

    async def cmd_shutdown(self, restart: bool = False, when_quiet: bool = False, asker: Session | None = None) -> str:
        """Shut the daemon down soon; with `restart` bridges come back at once. Raises Refused by the owner."""

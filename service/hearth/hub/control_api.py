"""Protocol of commands about the daemon itself, for every frontend: frames, HTTP, session lines, dashboard, packs.

`hearth.daemon.control` implements it. A frontend authorizes its client first and passes the session that asks, if there
is one: its request is put to the owner (`client_requests.obtain_approval`).
"""

from typing import Any, NamedTuple, Protocol

from hearth.hub.events import HubEvent, Subscription
from hearth.hub.sessions import Session


class EventFeed(NamedTuple):
    """Kept events, the oldest first, and the subscription that continues right after them, if one was requested."""

    kept: list[HubEvent]
    subscription: Subscription | None


class ControlApi(Protocol):
    """Protocol of the commands. One that changes something returns a sentence; every one may raise HearthError."""

    def cmd_status(self) -> dict[str, Any]:
        """Return the status document."""

    def cmd_sessions(self) -> list[dict[str, Any]]:
        """Return the sessions as the status document has them."""

    def cmd_servers(self) -> list[dict[str, Any]]:
        """Return the MCP servers as the status document has them."""

    async def cmd_tools(self, query: str = "", server: str | None = None, limit: object = None) -> bytes:
        """Return the known tools, or the tools that match a query, as a JSON document. Starts no server."""

    def cmd_events(self, follow: bool = False, count: int | None = None) -> EventFeed:
        """Return the newest `count` kept events (all without it) and, to `follow`, a subscription to close."""

    def cmd_approved(self) -> str:
        """Read the approvals of tools again, and tell clients. Needs no consent: only a person writes approvals."""

    async def cmd_reload(self, asker: Session | None = None) -> str:
        """Read the config again. Raises ConfigError, in which case the former config stays, or Refused by the owner."""

    async def cmd_restart(self, server: str, asker: Session | None = None) -> str:
        """Restart one MCP server when its calls are done. Raises Refused, also for an unknown name."""

    async def cmd_shutdown(self, restart: bool = False, when_quiet: bool = False, asker: Session | None = None) -> str:
        """Shut the daemon down soon; with `restart` bridges reconnect at once. Raises Refused by the owner."""

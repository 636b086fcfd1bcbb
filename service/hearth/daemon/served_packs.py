"""Packs of one daemon, made when they are first served, and the agents that several of them share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hearth.hub.hub import Hub
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.packs import Pack
    from hearth.packs.agents.service import AgentService


class ServedPacks:
    """Packs of one daemon. Implements `PackServices` for them; `hub` is set before the first one is made."""

    def __init__(self, places: Places, status: Callable[[], dict[str, Any]]) -> None:
        self.places = places
        self.hub: Hub
        self._status = status
        self._agents: AgentService | None = None

    def create(self, name: str) -> "Pack":
        """Make a pack."""
        # Imported only if a pack is enabled: a daemon without packs loads none of their code.
        from hearth import packs

        return packs.create(name, self)

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        return self._status()

    def server_log(self, name: str) -> str:
        """Return the path of the file with a server's stderr."""
        return self.places.server_log(name)

    def agents(self) -> "AgentService":
        """Return the agents of this daemon; the first call makes the service, which the pack `agents` starts."""
        if self._agents is None:
            from hearth.packs.agents.service import AgentService

            self._agents = AgentService(self)
        return self._agents

    def drain(self) -> None:
        """Let calls that wait for agents return, because the daemon shuts down."""
        if self._agents is not None:
            self._agents.drain()

    async def stop(self) -> None:
        """End the agents' processes."""
        if self._agents is not None:
            await self._agents.stop()

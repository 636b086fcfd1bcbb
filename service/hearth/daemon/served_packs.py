"""Packs of one daemon, made when they are first served, and the agents that several of them share."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hearth.hub.hub import Hub
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.packs import Pack
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)

# Without it nothing can reach an agent: neither a tool nor a command.
AGENTS = "agents"


class ServedPacks:
    """Packs of one daemon. Implements `PackServices` for them; `hub` is set before the first one is made."""

    def __init__(self, places: Places, status: Callable[[], dict[str, Any]]) -> None:
        self.places = places
        self.hub: Hub
        self._status = status
        self._agents: AgentService | None = None
        # End of the agents of a pack that was switched off: the next ones have the same store and tokens.
        self._leaving: asyncio.Task[None] | None = None

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

            self._agents = AgentService(self, self._leaving)
        return self._agents

    @property
    def turns(self) -> int:
        """Number of agents that are at work."""
        return len(self._agents.turns) if self._agents is not None else 0

    def describe(self) -> dict[str, Any]:
        """Return what the status document has about agents; nothing without them."""
        return {} if self._agents is None else {"turns": self.turns}

    def adapt(self) -> None:
        """Apply another config: end the agents where their pack is off."""
        if self._agents is None or AGENTS in self.hub.servers:
            return
        log.info("agents end, because their pack is off turns=%d", self.turns)
        leaving, self._agents = self._agents, None
        leaving.drain()
        self._leaving = asyncio.get_running_loop().create_task(leaving.stop())

    def drain(self) -> None:
        """Let calls that wait for agents return, because the daemon shuts down."""
        if self._agents is not None:
            self._agents.drain()

    async def stop(self) -> None:
        """End the agents' processes."""
        if self._leaving is not None:
            await self._leaving
        if self._agents is not None:
            await self._agents.stop()

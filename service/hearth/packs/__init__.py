"""Packs: MCP servers that run inside the daemon (`hearth.upstreams.pack_api`), each loaded when it is first served.

    hearth      the daemon itself: its status, its servers, their logs and restarts
    agents      coding agents that the daemon runs
    self-id     agents name themselves and their branches
    team        messages, tasks, pull requests and questions of agents

`hearth.config.schema.PACKS` has their names. A module here has a `create(services)`.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from hearth.hub.hub import Hub
from hearth.paths import Places
from hearth.upstreams.pack_api import Pack

if TYPE_CHECKING:
    from hearth.packs.agents.service import AgentService

__all__ = ["Pack", "PackServices", "create"]


class PackServices(Protocol):
    """Protocol for the daemon, as packs see it."""

    hub: Hub
    places: Places

    def status(self) -> dict[str, Any]:
        """Return the status document."""

    def server_log(self, name: str) -> str:
        """Return the path of the file with a server's stderr."""

    def agents(self) -> "AgentService":
        """Return the agents of this daemon; the first call makes the service, which `start` then starts."""


def create(name: str, services: PackServices) -> Pack:
    """Create a pack by its name in the config."""
    module = importlib.import_module(f"hearth.packs.{name.replace('-', '_')}")
    pack: Pack = module.create(services)
    return pack

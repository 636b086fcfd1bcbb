"""Pack `agents`: coding agents that the daemon runs and drives over the Agent Client Protocol."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hearth.packs import PackServices
    from hearth.packs.agents.tools.pack import AgentsPack


def create(services: "PackServices") -> "AgentsPack":
    """Make the pack. Its agents belong to the daemon: every pack of this daemon has the same ones."""
    from hearth.packs.agents.tools.pack import AgentsPack

    return AgentsPack(services.agents())

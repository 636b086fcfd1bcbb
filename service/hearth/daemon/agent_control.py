"""Commands about agents, and the control frames that carry them. Loaded with the first such command.

A caller is a person, or the agent or client below which the command was typed: such a caller acts as that one, and
never as a person. Arguments are JSON objects with the names of the pack's tools, since prompts are longer than a header
may be.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from hearth.daemon import control
from hearth.errors import FrameError, HearthError, MessageError, Refused
from hearth.hub.control_api import ControlApi
from hearth.hub.sessions import Session
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.services import DaemonServices
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.authority import Caller
    from hearth.packs.agents.service import AgentService

Arguments = Mapping[str, Any]
Result = dict[str, Any]

PACK = "agents"
# Entries in one frame; between two frames the reader may fall behind.
ENTRIES_PER_FRAME = 100
# Longest wait of one command; a client that wants more waits again.
MOST_WAIT_SECONDS = 3600.0


class BadArgument(Refused):
    """Error for an argument of a command that is missing, unknown or of another kind."""

    exit_code = 2


class AgentCommands:
    """Commands about the agents of one daemon."""

    def __init__(self, services: "DaemonServices") -> None:
        self._services = services
        self._verbs: dict[str, Callable[[AgentService, Caller, Arguments], Awaitable[Result]]] = {
            "create": self._create,
            "show": self._show,
            "send": self._send,
            "wait": self._wait,
            "cancel": self._cancel,
            "kill": self._kill,
            "mode": self._mode,
            "respond": self._respond,
            "permissions": self._permissions,
            "prune": self._prune,
        }

    async def list(self, include_closed: bool, asker: Session | None) -> list[Result]:
        """Return the snapshots of the agents that a caller may see. Raises Refused without the pack."""
        service, caller = await self._service(), self._caller(asker)
        return [service.snapshot(agent) for agent in service.list(caller, include_closed)]

"""Clients whose hooks this daemon has heard, by their processes.

Hooks that do not run say nothing: Codex runs none that its user has not trusted, and each client has settings that
switch hooks off. `clients.guarding` compares what was heard with the clients of the sessions.
"""

import asyncio
from typing import NamedTuple

# Clients that run at a time are far fewer; those that have ended are not taken out.
CLIENTS_LIMIT = 1000


class HeardClient(NamedTuple):
    """Process of a client. A later process with the same pid has another start time."""

    pid: int
    start_time: int


class HeardHooks:
    """Clients of one daemon whose hooks were heard; the oldest goes first beyond the limit."""

    def __init__(self) -> None:
        self._clients: dict[HeardClient, None] = {}

    async def hear(self, pid: int | None) -> None:
        """Note the client that has started a hook's process; None is a hook over a port, whose client is unknown."""
        client = None if pid is None else await asyncio.to_thread(_client_of, pid)
        if client is None:
            return
        self._clients.pop(client, None)
        self._clients[client] = None
        if len(self._clients) > CLIENTS_LIMIT:
            del self._clients[next(iter(self._clients))]

    def describe(self) -> list[dict[str, int]]:
        """Return the processes for the status document."""
        return [{"pid": each.pid, "startTime": each.start_time} for each in self._clients]


def _client_of(pid: int) -> HeardClient | None:
    """Return the process that has started a hook, as that of a bridge is found. Reads /proc."""
    from hearth.host import process_table, processes

    client = process_table.client_of(pid, is_bridge=True)
    start_time = processes.start_time(client) if client else None
    return HeardClient(client, start_time) if client and start_time is not None else None

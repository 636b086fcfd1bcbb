"""Processes that make HTTP requests. Looked at only where there is a policy, which asks who the person is.

On the socket the kernel tells the process. At a port the process is looked up among the connections of this machine,
once for each connection; other machines, containers and users are out of sight.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hearth.host import peers

if TYPE_CHECKING:
    from hearth.daemon.http.app import Request
    from hearth.daemon.http.connection import HttpConnection
    from hearth.hub.sessions import Session


async def pid_of(request: "Request") -> int | None:
    """Return the process that makes a request, as far as it is known; at a port only where there is a policy."""
    connection = request.connection
    if connection.peer.pid is not None or request.app.hub.policy.guard is None:
        return connection.peer.pid
    return await asyncio.shield(_lookup(connection))


async def note(request: "Request", session: "Session", may_wait: bool = True) -> None:
    """Remember the process that makes a request as one of the session's client.

    A lookup is waited for, because commands of the client may follow the answer at once.
    """
    connection, policy = request.connection, request.app.services.policy
    if connection.noted is session:
        return
    connection.noted = session
    if connection.peer.pid is not None:
        policy.called_by(session, connection.peer.pid)
        return
    lookup = _lookup(connection, policy.callers(session))
    lookup.add_done_callback(lambda done: _noted(request, session, done))
    if may_wait:
        await asyncio.wait((lookup,))


def _noted(request: "Request", session: "Session", lookup: "asyncio.Future[int | None]") -> None:
    if not lookup.cancelled() and (pid := lookup.result()) is not None:
        request.app.services.policy.called_by(session, pid)


def _lookup(connection: "HttpConnection", likely: Sequence[int] = ()) -> "asyncio.Future[int | None]":
    if connection.lookup is None:
        connection.lookup = asyncio.ensure_future(_found(connection.client, connection.server, likely))
    return connection.lookup


async def _found(peer: tuple[str, int] | None, own: tuple[str, int | None] | None, likely: Sequence[int]) -> int | None:
    if peer is None or own is None or own[1] is None:
        return None
    try:
        return await asyncio.to_thread(peers.pid_of_tcp, peer, (own[0], own[1]), likely)
    except (OSError, ValueError):
        return None

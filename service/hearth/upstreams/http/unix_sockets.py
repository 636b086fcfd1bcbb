"""HTTP on a Unix socket: a transport that checks who listens before it sends a request."""

import os
import socket
import ssl
from typing import Any

import httpx

from hearth.host import ownership, peers

_CONNECTED = "connection.connect_unix_socket.complete"


class SocketTransport(httpx.AsyncHTTPTransport):
    """Transport for one server on a Unix socket."""

    def __init__(self, path: str, verify: ssl.SSLContext, limits: httpx.Limits) -> None:
        super().__init__(uds=path, verify=verify, limits=limits)
        self._path = path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, on a connection whose peer was checked when it was opened."""
        request.extensions = {**request.extensions, "trace": self._check}
        return await super().handle_async_request(request)

    async def _check(self, event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED:
            return
        stream = info["return_value"]
        flaw = objection(self._path, stream.get_extra_info("socket"))
        if flaw:
            await stream.aclose()
            raise httpx.ConnectError(f"nothing was sent: {flaw}")


def objection(path: str, connected: socket.socket) -> str | None:
    """Return why the server at the socket is not believed, as a clause; None if it is.

    The server of this user or of root is. That of any other user is, if nobody else could have put the socket there:
    the config names the path, and only its owner decides who listens.
    """
    peer, me = peers.peer_of(connected), peers.own_uid()
    if peer is None or peer.uid in (me, 0):
        return None
    try:
        owner = os.stat(path).st_uid
    except OSError as exc:
        return f"{path} cannot be looked at ({exc.strerror})"
    if owner != peer.uid:
        return f"{path} belongs to user {owner}, and user {peer.uid} listens there"
    flaw = ownership.objection(os.path.dirname(path) or ".", ownership.Trusted((0, me, owner)))
    return flaw and f"user {peer.uid} listens on {path}, and {flaw}"

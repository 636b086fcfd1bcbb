"""HTTP on a Unix socket: a transport that checks who listens before it sends a request."""

import socket
import ssl
from typing import Any

import httpx

from hearth.host.posix import ownership, peers

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
    """Return why the server at the socket is not believed, as a clause; None if it is."""
    peer = peers.peer_of(connected)
    return ownership.objection_to_listener(path, peer.uid) if peer else None

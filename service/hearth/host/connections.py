"""Accepted connections: their peers, and how the loop takes them. Sockets are here, pipes in `windows.pipes`."""

import os
import socket
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from hearth.host.peers import Peer

if TYPE_CHECKING:
    import asyncio

if sys.platform == "win32":
    from hearth.host.windows.pipes import (
        Connection,
        attach,
        dismiss,
        groups_of,
        peer_of,
        reader_left,
        refusal,
        write_now,
    )
else:
    from hearth.host.peers import groups_of, has_left, own_uid, peer_of

    Connection = socket.socket

    def refusal(
        peer: Peer | None, uids: Collection[int], gids: Collection[int], groups: Collection[int] = ()
    ) -> str | None:
        """Return why that client is refused; None for this user, and for users and groups that the config allows."""
        if peer is None:
            return "the kernel does not say who it is"
        if peer.uid != own_uid() and peer.uid not in uids and not {peer.gid, *groups} & set(gids):
            return f"uid {peer.uid} may not use the daemon of uid {own_uid()} (allowed_uids)"
        return None

    async def attach(connection: socket.socket, protocol: "asyncio.Protocol") -> None:
        """Attach the connection to the loop, which reads and writes it through the protocol."""
        import asyncio  # the degraded daemon does not need it

        connection.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)

    def dismiss(connection: socket.socket, words: bytes) -> None:
        """Send a short message, if that needs no waiting, and close the connection."""
        with connection:
            connection.setblocking(False)
            try:
                connection.send(words)
            except OSError:
                pass

    def write_now(transport: "asyncio.WriteTransport", data: bytes) -> None:
        """Write bytes to the kernel before anything else happens; only for the first bytes on a new connection."""
        os.write(transport.get_extra_info("socket").fileno(), data)

    def reader_left(transport: "asyncio.BaseTransport") -> bool:
        """Tell whether the peer has closed the connection and cannot read any more."""
        return has_left(transport.get_extra_info("socket").fileno())


__all__ = ["Connection", "Peer", "attach", "dismiss", "groups_of", "peer_of", "reader_left", "refusal", "write_now"]

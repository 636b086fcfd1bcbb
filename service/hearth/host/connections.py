"""Accepted connections: who is at the other end, and how the loop takes them. Sockets here, pipes in `pipes`."""

import os
import socket
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from hearth.host.posix.peers import Peer

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
    from hearth.host.posix.peers import groups_of, has_left, own_uid, peer_of

    Connection = socket.socket

    def refusal(
        peer: Peer | None, uids: Collection[int], gids: Collection[int], groups: Collection[int] = ()
    ) -> str | None:
        """Why that client may not come in; None for this user, and for whom the config lets in."""
        if peer is None:
            return "the kernel does not say who it is"
        if peer.uid != own_uid() and peer.uid not in uids and not {peer.gid, *groups} & set(gids):
            return f"uid {peer.uid} may not use the daemon of uid {own_uid()} (allowed_uids)"
        return None

    async def attach(connection: socket.socket, protocol: "asyncio.Protocol") -> None:
        """Have the loop read and write the connection."""
        import asyncio  # the degraded daemon does without

        connection.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)

    def dismiss(connection: socket.socket, words: bytes) -> None:
        """Say a few words, if that needs no waiting, and close."""
        with connection:
            connection.setblocking(False)
            try:
                connection.send(words)
            except OSError:
                pass

    def write_now(transport: "asyncio.WriteTransport", data: bytes) -> None:
        """Hand bytes to the kernel before anything else happens; only for the first words on a fresh connection."""
        os.write(transport.get_extra_info("socket").fileno(), data)

    def reader_left(transport: "asyncio.BaseTransport") -> bool:
        """Whether nobody is there any longer who could read."""
        return has_left(transport.get_extra_info("socket").fileno())


__all__ = ["Connection", "Peer", "attach", "dismiss", "groups_of", "peer_of", "reader_left", "refusal", "write_now"]

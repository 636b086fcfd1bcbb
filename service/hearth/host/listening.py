"""Both ends of the daemon's socket, or on Windows of its named pipe: the listener, connections to it, accepted ones.

Both platforms have the same functions; those of pipes are in `windows.pipes`.
"""

import os
import socket
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from hearth.host.peers import Peer
from hearth.host.sockets import TCP
from hearth.host.system import user_id

if TYPE_CHECKING:
    import asyncio

# A listener on this machine accepts a connection at once; a full queue counts as no answer.
_PROBE_SECONDS = 1.0

if sys.platform == "win32":
    from hearth.host.windows.pipe_streams import PipeStream as Stream
    from hearth.host.windows.pipe_streams import connect as _connect
    from hearth.host.windows.pipes import (
        Connection,
        Listener,
        attach,
        bind,
        dismiss,
        groups_of,
        inherit,
        is_there,
        listen,
        peer_of,
        reader_left,
        refusal,
        write_now,
    )

    def connect(endpoint: str, seconds: float) -> Stream:
        """Return a connection to this user's daemon at a pipe, which needs no waiting. Raises OSError."""
        return _connect(endpoint)

    def answers(endpoint: str) -> bool:
        """Return False: a pipe's name has nothing of the environment in it, so a profile has one daemon."""
        return False

else:
    from hearth import socket_trust
    from hearth.host.listener import Listener, bind, inherit, is_there, listen
    from hearth.host.peers import groups_of, has_left, peer_of
    from hearth.paths import short_dir

    Connection = socket.socket
    Stream = socket.socket

    def connect(endpoint: str, seconds: float) -> socket.socket:
        """Return a connection to this user's daemon at a socket, or to any process at a port of this machine.

        Sends no byte. Raises OSError, and ValueError for an address without a port.
        """
        if endpoint.startswith(TCP):
            host, _, port = endpoint.removeprefix(TCP).rpartition(":")
            return socket.create_connection((host, int(port)), seconds)
        socket_trust.check_place(endpoint, short_dir())
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(seconds)
        try:
            connection.connect(endpoint)
            socket_trust.check_peer(connection, endpoint)
        except OSError:
            connection.close()
            raise
        return connection

    def answers(endpoint: str) -> bool:
        """Return whether a process of this user listens at a socket, or any process at a port of this machine."""
        try:
            connect(endpoint, _PROBE_SECONDS).close()
        except (OSError, ValueError):
            return False
        return True

    # --- accepted connections

    def refusal(
        peer: Peer | None, uids: Collection[int], gids: Collection[int], groups: Collection[int] = ()
    ) -> str | None:
        """Return why that client is refused; None for this user, and for users and groups that the config allows."""
        if peer is None:
            return "the kernel does not say who it is"
        if peer.uid != user_id() and peer.uid not in uids and not {peer.gid, *groups} & set(gids):
            return f"uid {peer.uid} may not use the daemon of uid {user_id()} (allowed_uids)"
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


__all__ = [
    "TCP",
    "Connection",
    "Listener",
    "Peer",
    "Stream",
    "answers",
    "attach",
    "bind",
    "connect",
    "dismiss",
    "groups_of",
    "inherit",
    "is_there",
    "listen",
    "peer_of",
    "reader_left",
    "refusal",
    "write_now",
]

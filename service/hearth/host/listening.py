"""Listener of the daemon, a Unix socket or a named pipe on Windows, and connections to a daemon that listens.

Both platforms have the same functions.
"""

import socket
import sys

from hearth.host.sockets import TCP

# A listener on this machine accepts a connection at once; a full queue counts as no answer.
_PROBE_SECONDS = 1.0

if sys.platform == "win32":
    from hearth.host.windows.pipe_streams import PipeStream as Stream
    from hearth.host.windows.pipe_streams import connect as _connect
    from hearth.host.windows.pipes import Listener, bind, inherit, is_there, listen

    def connect(endpoint: str, seconds: float) -> Stream:
        """Return a connection to this user's daemon at a pipe, which needs no waiting. Raises OSError."""
        return _connect(endpoint)

    def answers(endpoint: str) -> bool:
        """Return False: a pipe's name has nothing of the environment in it, so a profile has one daemon."""
        return False

else:
    from hearth import socket_trust
    from hearth.host.listener import Listener, bind, inherit, is_there, listen
    from hearth.paths import short_dir

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


__all__ = ["TCP", "Listener", "Stream", "answers", "bind", "connect", "inherit", "is_there", "listen"]

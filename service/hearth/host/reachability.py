"""Reachability of a daemon at an endpoint, tested without sending a byte."""

import socket
import sys

from hearth import socket_trust
from hearth.paths import short_dir

TCP = "tcp:"
# A listener on this machine accepts a connection at once; a full queue counts as no answer.
_SECONDS = 1.0


def answers(endpoint: str) -> bool:
    """Return whether a process of this user listens at a socket, or any process at a port of this machine."""
    if sys.platform == "win32":
        return False
    try:
        if endpoint.startswith(TCP):
            host, _, port = endpoint.removeprefix(TCP).rpartition(":")
            socket.create_connection((host, int(port)), _SECONDS).close()
            return True
        socket_trust.check_place(endpoint, short_dir())
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_SECONDS)
            probe.connect(endpoint)
            socket_trust.check_peer(probe, endpoint)
    except (OSError, ValueError):
        return False
    return True

"""The byte stream to the daemon: a Unix socket, or on Windows a named pipe. Nothing here knows frames.

The one place of the bridge's fast path that knows the system.
"""

import sys

from hearth import socket_trust
from hearth.paths import short_dir

# A listener of this machine takes a connection at once, or its queue is full.
_LOOPBACK_SECONDS = 1.0

if sys.platform != "win32":
    from _socket import (
        AF_INET,
        AF_UNIX,
        IPPROTO_TCP,
        MSG_DONTWAIT,
        SHUT_RDWR,
        SHUT_WR,
        SO_RCVTIMEO,
        SOCK_STREAM,
        SOL_SOCKET,
        TCP_NODELAY,
        socket,
    )
    from os import getuid

    Stream = socket
    # Whether a file's mode says who may read it.
    HAS_MODES = True

    def open_stream(path: str) -> socket:
        """Return a connected socket of a daemon that is this user's, without waiting. Raises OSError."""
        socket_trust.check_place(path, short_dir())
        sock = socket(AF_UNIX, SOCK_STREAM)
        try:
            # A full queue would block here for as long as the daemon does not accept.
            sock.setblocking(False)
            sock.connect(path)
            socket_trust.check_peer(sock, path)
            sock.setblocking(True)
        except BaseException:
            sock.close()
            raise
        return sock

    def is_own_user(uid: int) -> bool:
        """Return whether a file with that owner is this user's."""
        return uid == getuid()

    def open_tcp(host: str, port: int) -> socket:
        """Return a socket that is connected to a port of this machine. Raises OSError."""
        sock = socket(AF_INET, SOCK_STREAM)
        try:
            sock.settimeout(_LOOPBACK_SECONDS)
            sock.connect((host, port))
            sock.setblocking(True)
            sock.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock

    def limit_wait(sock: socket, seconds: float) -> None:
        """Let `recv` raise BlockingIOError after so long. A poll before every read would cost a system call each."""
        whole = int(seconds)
        parts = (whole, int((seconds - whole) * 1e6))
        sock.setsockopt(SOL_SOCKET, SO_RCVTIMEO, b"".join(part.to_bytes(8, sys.byteorder) for part in parts))

    def send_now(sock: socket, data: bytes) -> None:
        """Send a few bytes if that needs no waiting. Raises OSError."""
        sock.send(data, MSG_DONTWAIT)

    def hang_up(sock: socket, writing_only: bool = False) -> None:
        """Wake whoever waits on the socket. `writing_only`: what was received, or still comes, can be read."""
        try:
            sock.shutdown(SHUT_WR if writing_only else SHUT_RDWR)
        except OSError:
            # The other side was quicker.
            pass

else:
    from hearth.host.windows.pipe_streams import PipeStream, connect

    Stream = PipeStream
    HAS_MODES = False

    def is_own_user(uid: int) -> bool:
        """Return True: owners of files have no numbers here."""
        return True

    def open_tcp(host: str, port: int) -> PipeStream:
        """Refuse: the daemon listens on a pipe here."""
        raise OSError(f"a daemon on {host}:{port} is not expected on this system")

    def open_stream(path: str) -> PipeStream:
        """Return a connected pipe. Waits a moment for one that is busy. Raises OSError."""
        return connect(path)

    def limit_wait(sock: PipeStream, seconds: float) -> None:
        """Let `recv` raise BlockingIOError after so long."""
        sock.settimeout(seconds)

    def send_now(sock: PipeStream, data: bytes) -> None:
        """Send a few bytes if that needs no waiting. Raises OSError."""
        sock.send_now(data)

    def hang_up(sock: PipeStream, writing_only: bool = False) -> None:
        """Wake whoever waits on the pipe. `writing_only`: what was received, or still comes, can be read."""
        # A pipe has no half that could be closed: nothing is written any more, and that is all.
        if not writing_only:
            sock.hang_up()

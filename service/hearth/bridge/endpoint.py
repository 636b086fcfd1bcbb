"""The byte stream to the daemon: a Unix socket. The one place of the bridge's fast path that knows the system.

A named pipe for Windows would be a second half of this file. Nothing here knows frames.
"""

import os
import sys
from _socket import socket

from hearth.paths import short_dir

if sys.platform != "win32":
    from _socket import AF_UNIX, MSG_DONTWAIT, SHUT_RDWR, SHUT_WR, SO_RCVTIMEO, SOCK_STREAM, SOL_SOCKET

    def open_stream(path: str) -> socket:
        """A connected socket, without waiting. Raises OSError."""
        _check_folder(path)
        sock = socket(AF_UNIX, SOCK_STREAM)
        try:
            # A full queue would block here for as long as the daemon does not accept.
            sock.setblocking(False)
            sock.connect(path)
            sock.setblocking(True)
        except BaseException:
            sock.close()
            raise
        return sock

    def _check_folder(path: str) -> None:
        """In a folder that everybody can write, somebody else may have put a socket of that name."""
        folder = short_dir()
        if not path.startswith(folder + "/"):
            return
        found = os.lstat(folder)
        if found.st_uid != os.getuid() or found.st_mode & 0o170022 != 0o040000:
            raise PermissionError(1, "is not a folder that only you can write", folder)

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

    def open_stream(path: str) -> socket:
        """Raises OSError."""
        raise OSError(0, "the bridge does not run on Windows yet", path)

    def limit_wait(sock: socket, seconds: float) -> None:
        """Let `recv` give up after so long."""
        sock.settimeout(seconds)

    def send_now(sock: socket, data: bytes) -> None:
        """Send a few bytes. Raises OSError."""
        sock.send(data)

    def hang_up(sock: socket, writing_only: bool = False) -> None:
        """Wake whoever waits on the socket."""
        sock.close()

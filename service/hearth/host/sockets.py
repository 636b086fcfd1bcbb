"""Listening sockets in asyncio's loop, access to them, and the TCP ports on which the daemon serves HTTP.

A port is passed by the service manager, or bound when a person asks for one. Standard library only.
"""

import errno
import socket
import sys
from collections.abc import Callable
from typing import NamedTuple

from hearth.errors import BadAddress, StartError

# Prefix of the address of a daemon that listens on TCP, where no Unix socket can be made.
TCP = "tcp:"
# FileDescriptorName= in mcp-http.socket.
PORT_NAME = "http"
DEFAULT_PORT = 3847
# Number of further ports that are tried when the first is taken.
NEXT_PORTS = 10
_BACKLOG = 128
if sys.platform == "win32":
    # On Windows, SO_REUSEADDR would let any program take over a port in use, and without SO_EXCLUSIVEADDRUSE any other
    # program could take ours.
    _CLAIM = socket.SO_EXCLUSIVEADDRUSE
    # Windows denies access to a port that another program holds exclusively, and to ports reserved for containers.
    _TAKEN = {errno.EADDRINUSE, errno.EACCES, errno.WSAEACCES}
else:
    # Connections of a daemon that has just ended must not keep the next one from its port.
    _CLAIM = socket.SO_REUSEADDR
    _TAKEN = {errno.EADDRINUSE}


class Access(NamedTuple):
    """Mode of the socket's file, and groups in the order in which they are tried as its owner."""

    mode: int = 0o600
    gids: tuple[int, ...] = ()


OWNER_ONLY = Access()


if sys.platform == "win32":
    import asyncio

    class AcceptLoop:
        """Socket with one accept always pending once it was polled; a connection made while it rests is kept."""

        def __init__(self, listener: socket.socket) -> None:
            listener.setblocking(False)
            self.socket = listener
            self._ready: Callable[[], None] | None = None
            self._waiting: asyncio.Task[None] | None = None
            self._came: socket.socket | OSError | None = None

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever a connection waits to be accepted."""
            self._ready = ready
            if self._came:
                asyncio.get_running_loop().call_soon(self._tell)
            else:
                self._await_one()

        def rest(self) -> None:
            """Stop polling. The pending accept continues: cancelling it could drop a client that has just connected."""
            self._ready = None

        def accept(self) -> socket.socket | None:
            """Return the next connection, or None. Raises OSError when none can be accepted for now."""
            came, self._came = self._came, None
            if isinstance(came, OSError):
                raise came
            if self._ready:
                self._await_one()
            return came

        def _await_one(self) -> None:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_task(self._wait())

        async def _wait(self) -> None:
            try:
                self._came, _ = await asyncio.get_running_loop().sock_accept(self.socket)
            except (ConnectionResetError, ConnectionAbortedError):
                # A client connected and has left already.
                pass
            except OSError as exc:
                self._came = exc
            self._waiting = None
            self._tell()

        def _tell(self) -> None:
            if self._ready and self._came:
                self._ready()
            elif self._ready:
                self._await_one()

else:

    class AcceptLoop:
        """Socket that the loop polls as a reader."""

        def __init__(self, listener: socket.socket) -> None:
            listener.setblocking(False)
            self.socket = listener

        def poll(self, ready: Callable[[], None]) -> None:
            """Call `ready` in the running loop whenever a connection waits to be accepted."""
            import asyncio  # not before the orphan reaper is forked, which would keep the memory for nothing

            asyncio.get_running_loop().add_reader(self.socket.fileno(), ready)

        def rest(self) -> None:
            """Stop polling; new connections wait in the kernel's queue."""
            import asyncio

            asyncio.get_running_loop().remove_reader(self.socket.fileno())

        def accept(self) -> socket.socket | None:
            """Return the next connection, or None. Raises OSError when none can be accepted for now."""
            try:
                return self.socket.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None


def bind_port(host: str, port: int, allow_remote: bool) -> socket.socket:
    """Listen on that port, or on one of the next ports. Raises StartError.

    An address that other machines can reach needs `allow_remote`: a typing error must not open the machine.
    """
    _check_resolved(host)
    if not allow_remote and not is_loopback(host):
        raise BadAddress(
            f"{host} can be reached from other machines; say --allow-remote if that is meant. The token is asked for"
            " either way, and travels unencrypted"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    last = port if port == 0 else min(port + NEXT_PORTS, 65535)
    for number in range(port, last + 1):
        sock = socket.socket(family)
        try:
            sock.setsockopt(socket.SOL_SOCKET, _CLAIM, 1)
            sock.bind((host, number))
            sock.listen(_BACKLOG)
        except OSError as exc:
            sock.close()
            if exc.errno not in _TAKEN:
                raise StartError(f"cannot listen on {host} port {number}: {exc.strerror or exc}") from exc
        else:
            return sock
    raise StartError(f"the ports {port} to {last} of {host} are all taken; choose another with --http-port")


def _check_resolved(host: str) -> None:
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise BadAddress(f"{host} is no address, and cannot be resolved as a name: {exc}") from exc


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach the address."""
    import ipaddress  # takes 5 ms, needed only when a port is asked for

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(sock: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

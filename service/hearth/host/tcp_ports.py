"""TCP sockets on which the daemon serves HTTP: passed by the service manager, or bound when a person asks for one."""

import errno
import socket
import sys

from hearth.errors import BadAddress, StartError

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


def bind(host: str, port: int, allow_remote: bool) -> socket.socket:
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

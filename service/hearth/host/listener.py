"""Listening socket: inherited from the service manager, or bound by Hearth itself. Standard library only.

Both kinds survive an exec of the process (`hand_on`, `inherit`): clients that connect meanwhile wait in the kernel's
queue.

An inherited socket is never closed, unlinked or shut down. The file of a socket that Hearth bound is unlinked only
while it is still Hearth's own: `systemctl start mcp.socket` replaces the file of a running self-started daemon, and
removing the new one would leave a unit that says it listens and a socket that no client can reach.
"""

import errno
import os
import socket
import stat
import sys

from hearth import socket_trust
from hearth.errors import AlreadyRunning, NoUnixSocket, Refused, StartError
from hearth.faults import SEAMS
from hearth.host.folders import refusal
from hearth.host.linux import systemd
from hearth.host.macos import launchd
from hearth.host.sockets import OWNER_ONLY, PORT_NAME, TCP, AcceptLoop, Access
from hearth.paths import fitting_socket_path

assert sys.platform != "win32", "Windows has `pipes`"

# FileDescriptorName= in mcp.socket, and the key under Sockets in the launchd agent.
SOCKET_NAME = "mcp"
# Name of launchd's listener across an exec: launchd hands it over only once in the life of a process.
_LAUNCHD_NAME = "launchd"
# Prefix of the name of a listener that Hearth bound, across an exec; device and inode of its file follow.
_OWN_PREFIX = "own-"
# Every bridge may connect at once when a machine wakes up; the kernel reduces this to its somaxconn.
BACKLOG = 4096
_PROBE_SECONDS = 1.0
# Name of a TCP listener across an exec.
_TCP_NAME = "tcp"
_ANY_PORT = "tcp:127.0.0.1:0"
_TOKEN_BYTES = 32
# Error numbers of file systems without sockets (FAT, some network and FUSE mounts).
_UNSUPPORTED = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EAFNOSUPPORT}


class Listener(AcceptLoop):
    """Listening Unix socket that knows whether Hearth may remove it."""

    def __init__(
        self, sock: socket.socket, path: str, identity: tuple[int, int] | None, manager: str = "systemd"
    ) -> None:
        super().__init__(sock)
        self.path = path
        # Holder of the socket: the name of the service manager, or "self".
        self.holder = manager if identity is None else "self"
        # Device and inode of the file that Hearth made; None where the service manager did.
        self._identity = identity
        # Whether Hearth bound the socket.
        self.owned = identity is not None
        # Token of the clients; empty where the kernel names the peer.
        self.token = ""
        # TCP sockets for HTTP that were passed along with it.
        self.ports: list[socket.socket] = []

    def address(self) -> str | None:
        """Return the path that the socket is bound to, as the kernel reports it; None if it has none."""
        name = self.socket.getsockname()
        return name if isinstance(name, str) else None

    def replaced(self) -> bool:
        """Tell whether another socket, or nothing, has taken the place of Hearth's own."""
        return self.owned and _identity(self.path) != self._identity

    def hand_on(self) -> None:
        """Prepare the environment so that an exec of this process finds the listener by `inherit`."""
        if self._identity is not None:
            name = f"{_OWN_PREFIX}{self._identity[0]}-{self._identity[1]}"
        else:
            name = _LAUNCHD_NAME if self.holder == "launchd" else SOCKET_NAME
        systemd.hand_on_listeners([(name, self.socket), *((PORT_NAME, port) for port in self.ports)])

    def retire(self) -> None:
        """Give up the socket: leave an inherited one as it is; close an own one, and unlink its file if still ours."""
        if not self.owned:
            return
        if SEAMS:
            SEAMS.hit("before-unlink")
        if not self.replaced():
            try:
                os.unlink(self.path)
            except OSError:
                # Read-only by now, or gone: the next daemon replaces the file.
                pass
        self.socket.close()


class TcpListener(Listener):
    """Listening TCP socket on this machine, for clients that show its token: any user can connect to it."""

    def __init__(self, sock: socket.socket) -> None:
        host, port = sock.getsockname()[:2]
        super().__init__(sock, f"{TCP}{host}:{port}", (0, 0))
        # The token belongs to this process: an exec makes another, and a new registry entry with it.
        self.token = os.urandom(_TOKEN_BYTES).hex()

    def address(self) -> str | None:
        """Return None: there is no path."""
        return None

    def replaced(self) -> bool:
        """Return False: no other process can bind a port that is open."""
        return False

    def hand_on(self) -> None:
        """Prepare the environment so that an exec of this process finds the listener by `inherit`."""
        systemd.hand_on_listeners([(_TCP_NAME, self.socket)])

    def accept(self) -> socket.socket | None:
        """Return the next connection, or None. Raises OSError when none can be accepted for now."""
        connection = super().accept()
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def retire(self) -> None:
        """Close the socket."""
        self.socket.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_there(path: str) -> bool:
    """Tell whether there is a file to connect to; the connection may still fail."""
    return os.path.lexists(path)


def inherit(path: str) -> Listener | None:
    """Return the listener passed on by the service manager or by this process before its exec; None if there is none.

    Raises StartError when launchd started this process and has no socket for it, and Refused when only ports were
    passed: their holder would believe that they are served.
    """
    handed = systemd.take_listeners()
    listeners = [item for item in handed if item[0] != PORT_NAME]
    if handed and not listeners:
        raise Refused(
            f"a port was handed over (FileDescriptorName={PORT_NAME}) without the socket that belongs to it: start"
            " mcp.socket as well, or run `hearth serve --transport http`, which needs no service manager"
        )
    if not listeners:
        held = launchd.take_listener(SOCKET_NAME) if launchd.PRESENT else None
        return Listener(held, path, None, "launchd") if held else None
    name, sock = next((item for item in listeners if item[0] == SOCKET_NAME), listeners[0])
    found = _named(name, sock, path)
    found.ports = [port for name, port in handed if name == PORT_NAME]
    return found


def _named(name: str, sock: socket.socket, path: str) -> Listener:
    if name == _TCP_NAME:
        return TcpListener(sock)
    if name == _LAUNCHD_NAME:
        return Listener(sock, path, None, "launchd")
    if not name.startswith(_OWN_PREFIX):
        return Listener(sock, path, None)
    device, inode = name.removeprefix(_OWN_PREFIX).split("-")
    return Listener(sock, path, (int(device), int(inode)))


def listen(where: str, default: str, access: Access = OWNER_ONLY) -> Listener:
    """Listen at `unix:PATH`, at `tcp:HOST:PORT`, or at the default socket if `where` is empty.

    Where a Unix socket cannot be made, a free port of this machine takes its place. Raises StartError, and
    FileAccessError for its folder.
    """
    if where.startswith(TCP):
        return _bind_tcp(where)
    try:
        return bind(_made_place(where.removeprefix("unix:")) if where else default, access)
    except NoUnixSocket as exc:
        found = _bind_tcp(_ANY_PORT)
        import logging

        logging.getLogger(__name__).warning("no Unix socket, listening on %s instead: %s", found.path, exc)
        return found


def _made_place(written: str) -> str:
    """Return the path, after making its folder if it is missing."""
    path = fitting_socket_path(os.path.expanduser(written))
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    except OSError as exc:
        raise refusal("make the folder", os.path.dirname(path), exc) from exc
    return path


def _bind_tcp(where: str) -> TcpListener:
    host, _, port = where.removeprefix(TCP).rpartition(":")
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, int(port)))
        sock.listen(BACKLOG)
    except OSError as exc:
        sock.close()
        raise StartError(f"cannot listen on {where}: {exc.strerror}; choose another port in `listen`") from exc
    return TcpListener(sock)


def bind(path: str, access: Access = OWNER_ONLY) -> Listener:
    """Bind to a temporary name, listen, then rename: a file that is visible can be connected to. Raises StartError.

    Call it with the daemon lock held: an existing file is then stale, or not a daemon's.
    """
    if other := socket_trust.objection_to_kind(path):
        raise StartError(other)
    _refuse_occupied(path)
    sock = _unix_socket()
    # No longer than the path itself, which may already have the maximum length that the kernel allows.
    temporary = path[:-1] + "~"
    mask = os.umask(0o777 & ~access.mode)
    try:
        _unlink_if_there(temporary)
        sock.bind(temporary)
        sock.listen(BACKLOG)
        _open_to_group(path, temporary, access)
        os.rename(temporary, path)
    except OSError as exc:
        sock.close()
        _unlink_if_there(temporary)
        if exc.errno in _UNSUPPORTED:
            raise NoUnixSocket(f"{path} cannot be made there ({exc.strerror})") from exc
        advice = f"make {os.path.dirname(path)} writable for you"
        raise StartError(f"the socket {path} cannot be made: {exc.strerror}; {advice}") from exc
    finally:
        os.umask(mask)
    return Listener(sock, path, _identity(path))


def _unix_socket() -> socket.socket:
    try:
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as exc:
        raise NoUnixSocket(f"the system refuses Unix sockets ({exc.strerror})") from exc


def _open_to_group(path: str, socket_file: str, access: Access) -> None:
    """Give socket and folder to a group that may connect, if there is one, and let its members enter the folder."""
    if not access.mode & stat.S_IRWXG:
        return
    folder = os.path.dirname(path)
    found = os.stat(folder)
    is_ours = found.st_uid == os.getuid()
    for gid in access.gids:
        try:
            os.chown(socket_file, -1, gid)
            if is_ours:
                os.chown(folder, -1, gid)
            break
        except PermissionError:
            # This user is not in that group; try the next one.
            continue
    if is_ours:
        os.chmod(folder, stat.S_IMODE(found.st_mode) | stat.S_IXGRP)


def _unlink_if_there(path: str) -> None:
    """Remove the socket of an interrupted start; leave any other file, on which binding then fails."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except OSError:
        pass


def _refuse_occupied(path: str) -> None:
    """Raise AlreadyRunning if a process listens there.

    A service manager listens without the daemon lock, and its file must not be replaced.
    """
    with _unix_socket() as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(path)
        except (BlockingIOError, TimeoutError):
            pass
        except OSError:
            return
    raise AlreadyRunning(
        f"something listens on {path} already, most likely the service manager; "
        "then nothing needs to be started by hand: `hearth status` tells"
    )

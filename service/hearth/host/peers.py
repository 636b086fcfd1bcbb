"""Peer credentials of a local socket, as the kernel reports them."""

import select
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

# struct ucred of unix(7): uids and gids are unsigned, and directory services use numbers beyond 2^31.
_UCRED = struct.Struct("iII")

# <asm-generic/socket.h>; Python has no name for it. The buffer holds 256 groups, the most that are read.
_SO_PEERGROUPS, _GROUPS_BYTES = 59, 1024
# macOS, <sys/un.h> and <sys/ucred.h>: struct xucred is the layout's version, the uid, the number of groups, 16 groups,
# of which the first is the effective one.
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_XUCRED = struct.Struct("IIh16I")
_PID = struct.Struct("i")


class Peer(NamedTuple):
    """Credentials of a connected process. `pid` is None where the kernel does not report it.

    On Windows, users have a `sid`, and all of them the same number.
    """

    pid: int | None
    uid: int
    gid: int
    sid: str = ""


def peer_of(connection: socket.socket) -> Peer | None:
    """Return the peer's credentials, recorded by the kernel when it connected; None where there are none."""
    try:
        if sys.platform == "linux":
            return Peer(*_UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
        if sys.platform == "darwin":
            return _local_peercred(connection)
    except OSError:
        pass
    return None


def pid_of_tcp(peer: tuple[str, int], own: tuple[str, int], likely: Sequence[int] = ()) -> int | None:
    """Return the process at the other end of a TCP connection within this machine; None if it cannot be found.

    `peer` and `own` are the addresses of the two ends; `likely` processes are looked at first. Another user's processes
    may be out of sight. Never call this in the daemon's loop: every process is looked at, which takes milliseconds.
    """
    from ipaddress import ip_address

    wanted = _endpoint(peer), _endpoint(own)
    if not (ip_address(wanted[0][0]).is_loopback or wanted[0][0] == wanted[1][0]):
        return None
    known = ((pid, each) for pid in likely for each in _connections_of(pid))
    return _holder(known, wanted) or _holder(_all_connections(), wanted)


def _holder(found: Iterable[tuple[int | None, Any]], wanted: tuple[tuple[str, int], tuple[str, int]]) -> int | None:
    ends = ((pid, each.laddr, each.raddr) for pid, each in found if pid and each.laddr and each.raddr)
    return next((pid for pid, near, far in ends if (_endpoint(near), _endpoint(far)) == wanted), None)


def _all_connections() -> Iterable[tuple[int | None, Any]]:
    import psutil

    try:
        return [(each.pid, each) for each in psutil.net_connections("tcp")]
    except (psutil.Error, OSError):
        # macOS shows them to root only, and those of one process to its user.
        return [(pid, each) for pid in psutil.pids() for each in _connections_of(pid)]


def _connections_of(pid: int) -> Iterable[Any]:
    import psutil

    try:
        process = psutil.Process(pid)
        # Before psutil 6 the method had another name.
        find: Callable[[str], Iterable[Any]] = getattr(process, "net_connections", None) or process.connections
        return find("tcp")
    except (psutil.Error, OSError):
        return ()


def _endpoint(address: tuple[str, int]) -> tuple[str, int]:
    """Return an address and a port; an address of IPv4 that a socket of IPv6 has written is the same."""
    return address[0].lower().removeprefix("::ffff:"), address[1]


def groups_of(connection: socket.socket) -> tuple[int, ...]:
    """Return the supplementary groups of the peer, recorded by the kernel when it connected; empty if unknown."""
    try:
        if sys.platform == "linux":
            raw = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _GROUPS_BYTES)
            return struct.unpack(f"{len(raw) // 4}I", raw)
        if sys.platform == "darwin":
            owner = read_xucred(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
            return owner[1] if owner else ()
    except OSError:
        pass
    return ()


def has_left(descriptor: int) -> bool:
    """Tell whether the other end of a connection is closed completely, and not only for writing."""
    if sys.platform == "win32":
        return False
    waiter = select.poll()
    # No events are requested: POLLHUP and POLLERR are always reported.
    waiter.register(descriptor, 0)
    return bool(waiter.poll(0))


def _local_peercred(connection: socket.socket) -> Peer | None:
    owner = read_xucred(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED.size))
    try:
        pid = _PID.unpack(connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, _PID.size))[0]
    except OSError:
        # The peer has gone meanwhile. Its user is still known, and that decides.
        pid = None
    return owner and Peer(pid, owner[0], owner[1][0])


def read_xucred(raw: bytes) -> tuple[int, tuple[int, ...]] | None:
    """Return uid and groups from a struct xucred; None for a layout that this module does not know. Pure."""
    if len(raw) < _XUCRED.size:
        return None
    version, uid, count, *groups = _XUCRED.unpack_from(raw)
    return (uid, tuple(groups[:count])) if version == 0 and count >= 1 else None

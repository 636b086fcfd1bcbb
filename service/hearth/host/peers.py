"""Who is at the other end of a local socket, as the kernel tells it."""

import os
import select
import socket
import struct
import sys
from typing import NamedTuple

# struct ucred of unix(7): users and groups are unsigned, and directory services number beyond 2^31.
_UCRED = struct.Struct("iII")


class Peer(NamedTuple):
    """The credentials of a connected process. `pid` is None where the kernel does not say."""

    pid: int | None
    uid: int
    gid: int


def own_uid() -> int:
    """This user's number; -1 where users have none."""
    if sys.platform == "win32":
        return -1
    return os.getuid()


def peer_of(connection: socket.socket) -> Peer | None:
    """The peer's credentials, taken by the kernel when it connected; None when there are none to be had."""
    try:
        if sys.platform == "linux":
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            return Peer(*_UCRED.unpack(raw))
        if sys.platform == "darwin":
            return _local_peercred(connection)
    except OSError:
        pass
    return None


def has_left(descriptor: int) -> bool:
    """Whether the other end of a connection is closed altogether, and not only done with writing."""
    if sys.platform == "win32":
        return False
    waiter = select.poll()
    # Nothing is asked for: POLLHUP and POLLERR are told without.
    waiter.register(descriptor, 0)
    return bool(waiter.poll(0))


def _local_peercred(connection: socket.socket) -> Peer | None:
    # struct xucred of <sys/ucred.h>: version, uid, number of groups, then the groups; the first is the effective one.
    sol_local, local_peercred, local_peerpid = 0, 1, 2
    raw = connection.getsockopt(sol_local, local_peercred, struct.calcsize("IIh16I"))
    version, uid, count = struct.unpack_from("IIh", raw)
    if version != 0 or count < 1:
        return None
    gid = struct.unpack_from("I", raw, struct.calcsize("IIh2x"))[0]
    pid = struct.unpack("i", connection.getsockopt(sol_local, local_peerpid, 4))[0]
    return Peer(pid, uid, gid)

"""Checks of a Unix socket before the first byte is sent: owner of its folder, owner of the file, uid of the peer.

Any user can listen in a folder that others may write to. Imported by the bridge: standard library only.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_ROOT = 0
_FOLDER, _TYPE_BITS, _LINK, _SOCKET = 0o040000, 0o170000, 0o120000, 0o140000
_OTHERS_WRITE = 0o022
# macOS, <sys/un.h>: the level and the option that return a struct xucred of 76 bytes.
_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES = 0, 1, 76
# Linux, unix(7): SO_PEERCRED returns pid, uid and gid. In both structs the uid is the second word.
_UCRED_BYTES = 12


def check_place(path: str, own_folder: str) -> None:
    """Raise PermissionError unless folder and socket belong to this user, or to root in a folder of root.

    `own_folder`, if the path leads through it, must be closed to others: any user can take its name under /tmp.
    Raises other OSErrors if the socket or its folder cannot be examined.
    """
    if sys.platform == "win32":
        return
    if own_folder and path.startswith(own_folder + "/"):
        closed = os.lstat(own_folder)
        if closed.st_uid != os.getuid() or closed.st_mode & (_TYPE_BITS | _OTHERS_WRITE) != _FOLDER:
            raise PermissionError(1, "is not a folder that only you can write", own_folder)
    folder = os.path.dirname(path) or "."
    me, found = os.getuid(), os.lstat(folder)
    if found.st_mode & _TYPE_BITS == _LINK:
        _check_owner(folder, found.st_uid, (me, _ROOT))
        found = os.stat(folder)
    _check_owner(folder, found.st_uid, (me, _ROOT))
    _check_owner(path, os.lstat(path).st_uid, (me, _ROOT) if found.st_uid == _ROOT else (me,))


def objection_to_kind(path: str) -> str | None:
    """Return a sentence if the path is a file or a folder; None for a socket, for a link, and if nothing is there.

    Connecting to a file is refused just as to a dead socket, and a daemon that binds would replace it.
    """
    try:
        kind = os.lstat(path).st_mode & _TYPE_BITS
    except OSError:
        return None
    if kind in (_SOCKET, _LINK):
        return None
    return f"{path} should be a socket and is {'a folder' if kind == _FOLDER else 'a file'}; move it away."


def check_peer(sock: "socket", path: str) -> None:
    """Raise PermissionError unless the listening process is this user's, or root's where root may hold the socket.

    Root holds the socket in a folder of root (systemd's system manager), and everywhere on macOS (launchd).
    """
    if sys.platform == "win32":
        return
    uid, me = peer_uid(sock), os.getuid()
    if uid is None or uid == me:
        return
    if uid == _ROOT and (sys.platform == "darwin" or os.stat(os.path.dirname(path) or ".").st_uid == _ROOT):
        return
    raise PermissionError(1, f"is served by user {uid}, not by you, and nothing was sent there", path)


def peer_uid(sock: "socket") -> int | None:
    """Return the uid of the listening process; None if the kernel does not provide it."""
    credentials = b""
    if sys.platform == "linux":
        from _socket import SO_PEERCRED, SOL_SOCKET

        credentials = sock.getsockopt(SOL_SOCKET, SO_PEERCRED, _UCRED_BYTES)
    elif sys.platform == "darwin":
        credentials = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
    return int.from_bytes(credentials[4:8], sys.byteorder) if credentials else None


def _check_owner(path: str, owner: int, allowed: tuple[int, ...]) -> None:
    if owner not in allowed:
        raise PermissionError(1, f"belongs to user {owner}, not to you, and nothing was sent there", path)

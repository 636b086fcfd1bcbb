"""Access to the daemon's socket: the mode of its file, and the groups that may own it."""

from typing import NamedTuple


class Access(NamedTuple):
    """Mode of the socket's file, and groups in the order in which they are tried as its owner."""

    mode: int = 0o600
    gids: tuple[int, ...] = ()


OWNER_ONLY = Access()

"""Tool names as clients see them: `server__tool`, at most 64 characters of `[A-Za-z0-9_-]`.

Clients and model providers refuse anything longer or stranger. A name that has to be changed gets a hash of the
original, so that two different tools never meet under one name and the same tool always has the same.
"""

import hashlib

NAME_LIMIT = 64
SEPARATOR = "__"
_HASH_CHARACTERS = 8
_CUT = NAME_LIMIT - _HASH_CHARACTERS - 1
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _clean(name: str) -> str:
    return "".join(character if character in _ALLOWED else "_" for character in name)


def prefix(server: str) -> str:
    """What the names of a server's tools begin with, unless they had to be shortened."""
    return _clean(server) + SEPARATOR


def may_have(server: str, name: str) -> bool:
    """Whether a tool of that server could be seen under that name: what is cut off leaves this much of the prefix."""
    return name.startswith(prefix(server)[:_CUT])


def exposed(server: str, tool: str) -> str:
    """The name under which clients see a tool of a server."""
    original = f"{server}{SEPARATOR}{tool}"
    if len(original) <= NAME_LIMIT and _ALLOWED.issuperset(original):
        return original
    return hashed(server, tool)


def hashed(server: str, tool: str) -> str:
    """The name with a hash of the original in its tail."""
    original = f"{server}{SEPARATOR}{tool}"
    # surrogatepass: a tool may be called by a lone surrogate, and still has to have a name.
    digest = hashlib.blake2s(original.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{_clean(original)[:_CUT]}_{digest[:_HASH_CHARACTERS]}"

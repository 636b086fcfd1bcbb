"""Tool names as clients see them: `server__tool`, at most 64 characters of `[A-Za-z0-9_-]`.

Clients and model providers refuse longer names and other characters. A name that has to be changed gets a hash of the
original, so that two different tools never share a name and the same tool always has the same.
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
    """Return the prefix of the names of a server's tools; shortened names may have only a part of it."""
    return _clean(server) + SEPARATOR


def may_have(server: str, name: str) -> bool:
    """Tell whether a tool of that server could have that name: shortening leaves at least this much of the prefix."""
    return name.startswith(prefix(server)[:_CUT])


def exposed(server: str, tool: str) -> str:
    """Return the name under which clients see a tool of a server."""
    original = f"{server}{SEPARATOR}{tool}"
    if len(original) <= NAME_LIMIT and _ALLOWED.issuperset(original):
        return original
    return hashed(server, tool)


def hashed(server: str, tool: str) -> str:
    """Return the name with a hash of the original at its end."""
    original = f"{server}{SEPARATOR}{tool}"
    # surrogatepass: a tool's name may be a lone surrogate, and still needs an exposed name.
    digest = hashlib.blake2s(original.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{_clean(original)[:_CUT]}_{digest[:_HASH_CHARACTERS]}"

"""Store of the full texts of large tool results, each for the session that got it. Does no I/O and sets no timer."""

import os
from collections.abc import Callable
from typing import NamedTuple

from hearth.mcp.result_previews import Part

MIB = 1024 * 1024
URI_PREFIX = "hearth-result:///"
# A model follows a link within its turn, and a turn may wait for a person who approves something meanwhile.
LIFETIME_SECONDS = 15 * 60.0
# One result of the default `message_limit` fits, and so do very many of an ordinary size.
SESSION_BYTES = 64 * MIB
# More links than a model looks back at; small results must not fill memory with bookkeeping.
SESSION_COUNT = 256
# A crowd of sessions must not take the memory of the machine.
TOTAL_BYTES = 256 * MIB
_ID_BYTES = 16


class _Entry(NamedTuple):
    owner: object
    parts: tuple[Part, ...]
    size: int
    expires: float


class LargeResults:
    """Bounded store. An owner is compared by identity; the oldest results make room for new ones."""

    def __init__(self, now: Callable[[], float], lifetime: float = LIFETIME_SECONDS) -> None:
        self._now = now
        self._lifetime = lifetime
        # In the order in which they were kept, which is the order in which they expire.
        self._entries: dict[str, _Entry] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, owner: object, parts: tuple[Part, ...]) -> str | None:
        """Keep a result; return its URI, or None for one that is larger than everything a session may keep."""
        size = sum(len(part.text) for part in parts)
        if size > SESSION_BYTES:
            return None
        self.expire()
        self._make_room(owner, size)
        uri = URI_PREFIX + os.urandom(_ID_BYTES).hex()
        self._entries[uri] = _Entry(owner, parts, size, self._now() + self._lifetime)
        self._total += size
        return uri

    def read(self, owner: object, uri: str) -> tuple[Part, ...] | None:
        """Return the parts of a result; None if it has expired, is unknown, or is another session's."""
        self.expire()
        entry = self._entries.get(uri)
        return entry.parts if entry and entry.owner is owner else None

    def release(self, owner: object) -> None:
        """Drop every result of a session that has ended."""
        for uri in self._uris_of(owner):
            self._drop(uri)

    def expire(self) -> float | None:
        """Drop expired results; return the seconds until the next one expires, None if there is none."""
        now = self._now()
        while self._entries:
            uri, oldest = next(iter(self._entries.items()))
            if oldest.expires > now:
                return oldest.expires - now
            self._drop(uri)
        return None

    def _make_room(self, owner: object, size: int) -> None:
        own = self._uris_of(owner)
        used = sum(self._entries[uri].size for uri in own)
        while own and (len(own) >= SESSION_COUNT or used + size > SESSION_BYTES):
            oldest = own.pop(0)
            used -= self._entries[oldest].size
            self._drop(oldest)
        while self._entries and self._total + size > TOTAL_BYTES:
            self._drop(next(iter(self._entries)))

    def _uris_of(self, owner: object) -> list[str]:
        return [uri for uri, entry in self._entries.items() if entry.owner is owner]

    def _drop(self, uri: str) -> None:
        self._total -= self._entries.pop(uri).size

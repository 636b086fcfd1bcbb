"""Limit on the size of tool results: shortens those over a server's `result_limit`, and serves the full text.

`ResultLimit` is the shell with the timer; `LargeResults`, the store of the full texts, does no I/O. The previews
(`mcp.result_previews`) are imported with the first large result.
"""

import asyncio
import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from hearth.hub.calls import Call, UpstreamAttempt
from hearth.hub.catalog import View
from hearth.hub.sessions import Session
from hearth.mcp import messages, translate, versions
from hearth.mcp.catalog import TOOLS
from hearth.mcp.uris import NoSuchResource
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.mcp.result_previews import Part

MIB = 1024 * 1024
URI_SCHEME = "hearth-result:"
URI_PREFIX = URI_SCHEME + "///"
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
    parts: "tuple[Part, ...]"
    size: int
    expires: float


class LargeResults:
    """Bounded store of full texts, each for the session that got it.

    An owner is compared by identity; the oldest results make room for new ones.
    """

    def __init__(self, now: Callable[[], float], lifetime: float = LIFETIME_SECONDS) -> None:
        self._now = now
        self._lifetime = lifetime
        # In the order in which they were kept, which is the order in which they expire.
        self._entries: dict[str, _Entry] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._entries)

    def keep(self, owner: object, parts: "tuple[Part, ...]") -> str | None:
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

    def read(self, owner: object, uri: str) -> "tuple[Part, ...] | None":
        """Return the parts of a result; None if it has expired, is unknown, or belongs to another session."""
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


class ExpiredResult(NoSuchResource):
    """Error for a read of a full result that is unknown, has expired, or belongs to another session."""

    def __init__(self, uri: str, era: str) -> None:
        super().__init__(uri, era, f"the full result {uri} has expired or is not this session's; call the tool again")


class ResultLimit:
    """Shortener of large results of all sessions, with the timer that frees them."""

    def __init__(self, store: LargeResults | None = None) -> None:
        self._store = store
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Tell whether the full text of a result can still be read."""
        return bool(self._store)

    def shorten(self, call: Call, result: RawBytes) -> RawBytes:
        """Return the result with previews and a link; the same object if nothing is left out."""
        attempt = call.attempt
        if attempt is None or not call.is_open:
            return result
        from hearth.mcp import result_previews

        preview = result_previews.plan(result, attempt.server.spec.result_limit, lambda: _has_output_schema(attempt))
        if preview is None:
            return result
        if self._store is None:
            self._store = LargeResults(monotonic)
        uri = self._store.keep(call.session, preview.parts)
        if uri is None:
            return result
        if self._timer is None:
            self._sweep()
        return preview.write(uri, call.version)

    def read(self, call: Call, uri: str, view: View) -> bool:
        """Answer a `resources/read`. Return False if a server has that resource. Raises ExpiredResult."""
        parts = self._store.read(call.session, uri) if self._store else None
        if parts is None:
            # A server may be a Hearth, too, and its results may have links of their own.
            if view.locate(uri, call.session.links, settled=False) is None:
                raise ExpiredResult(uri, call.era)
            return False
        from hearth.mcp import result_previews

        body = result_previews.read_result(uri, parts)
        call.close(
            messages.result(call.id, translate.result("resources/read", body, call.era, versions.LEGACY, call.version))
        )
        return True

    def session_left(self, session: Session) -> None:
        """Free the results of a session that has ended."""
        if self._store:
            self._store.release(session)

    def _sweep(self) -> None:
        """Drop expired results now, and again when the next one expires."""
        seconds = self._store.expire() if self._store else None
        self._timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, self._sweep)


def _has_output_schema(attempt: UpstreamAttempt) -> bool:
    """Tell whether clients may validate structured content; True for a tool that is not known any more."""
    name = values.text(json.split(attempt.params).get("name")) or ""
    for server, offered in attempt.view.offerings:
        if server is attempt.server and name in offered.lists[TOOLS]:
            return "outputSchema" in offered.lists[TOOLS][name].definition
    return True

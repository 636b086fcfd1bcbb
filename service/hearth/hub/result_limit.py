"""Limit on the size of tool results: shortens what is over a server's `result_limit`, and serves the full text.

Thin shell of `large_results` and `mcp.result_previews`, both of which are imported with the first large result.
"""

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from hearth.hub.calls import Call
from hearth.hub.catalog import View
from hearth.hub.sessions import Session
from hearth.mcp import messages, translate, versions
from hearth.mcp.catalog import TOOLS
from hearth.mcp.uris import NoSuchResource
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.large_results import LargeResults

URI_SCHEME = "hearth-result:"


class ExpiredResult(NoSuchResource):
    """Error for the full text of a result that is not kept, or no longer, or for another session."""

    def __init__(self, uri: str, era: str) -> None:
        super().__init__(uri, era, f"the full result {uri} has expired or is not this session's; call the tool again")


class ResultLimit:
    """Shortener of large results of all sessions, with the timer that frees them."""

    def __init__(self, store: "LargeResults | None" = None) -> None:
        self._store = store
        self._timer: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Tell whether the full text of a result can still be read."""
        return bool(self._store)

    def shorten(self, call: Call, result: RawBytes) -> RawBytes:
        """Return the result with previews and a link; the same object where nothing is left out."""
        if not call.is_open:
            return result
        from hearth.hub.large_results import LargeResults
        from hearth.mcp import result_previews

        preview = result_previews.plan(result, call.server.spec.result_limit, lambda: _has_output_schema(call))
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


def _has_output_schema(call: Call) -> bool:
    """Tell whether clients may check structured content; True for a tool that is not known any more."""
    name = values.text(json.split(call.params).get("name")) or ""
    for server, offered in call.view.offerings:
        if server is call.server and name in offered.lists[TOOLS]:
            return "outputSchema" in offered.lists[TOOLS][name].definition
    return True

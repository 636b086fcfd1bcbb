"""Refresh of the lists of one instance when the server reports a change.

A legacy server reports changes by itself; a modern one is asked for a stream of notices, and asked again when it ends
the stream. Knows nothing of the receivers.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable

from hearth.errors import UpstreamError
from hearth.mcp import versions
from hearth.mcp.catalog import KINDS, ListKind, ServerCatalog
from hearth.upstreams import handshake
from hearth.upstreams.connection import Connection
from hearth.upstreams.resource_subscriptions import RELISTEN_SECONDS, IgnoreReply
from hearth.wire import json

log = logging.getLogger(__name__)

# Between two fetches of lists that change all the time.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0


class ListRefresher:
    """Refresher of one instance's catalog while the instance runs.

    `patience` is the time limit of a fetch in seconds. `changed` is called when the catalog is up to date again, with
    the lists that the server itself has called changed; `broken` with an exception that is a defect of this program.
    """

    def __init__(
        self,
        name: str,
        patience: float,
        changed: Callable[[Collection[ListKind]], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._name = name
        self.patience = patience
        self._changed = changed
        self._broken = broken
        # Set while the server is ready.
        self._connection: Connection | None = None
        self._offering: ServerCatalog | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._stale: dict[ListKind, None] = {}
        # Lists that a ready server called changed, until clients are told.
        self._noticed: set[ListKind] = set()
        # Time of the last notice to clients, by the loop's clock.
        self._told_at = -math.inf
        # Seconds before Hearth asks again for a stream of notices that the server ended.
        self._relisten = RELISTEN_SECONDS

    # --- the conversation

    def begin(self) -> None:
        """Reset for a new process: notices of a former one no longer count."""
        self._stale.clear()
        self._noticed.clear()
        self._relisten = RELISTEN_SECONDS

    def ready(self, connection: Connection, offering: ServerCatalog) -> None:
        """Begin after the first fetch; fetch again the lists that the server has called changed meanwhile."""
        self._connection, self._offering = connection, offering
        if self._stale:
            self.refresh(())

    def end(self) -> None:
        """Stop refreshing: the connection is gone."""
        self._connection = None

    # --- notices

    def listen(self, connection: Connection, found: ServerCatalog) -> None:
        """Ask a modern server for its change notices; it answers only when it ends the stream."""
        wanted = {kind.listen: True for kind in KINDS if found.has(kind.capability) and found.announces(kind)}
        if wanted:
            params = handshake.own_params(versions.MODERN, notifications=json.dumps(wanted))
            connection.request_stream(
                b'"subscriptions/listen"', params, IgnoreReply(self._name, lambda: self._unheard(connection))
            )

    def _unheard(self, connection: Connection) -> None:
        """Schedule another stream of notices after the server ended one; the lists are then fetched again, too."""
        if connection is self._connection:
            # A server that ends every stream is asked less and less often.
            asyncio.get_running_loop().call_later(self._relisten, self._listen_again, connection)
            self._relisten = min(self._relisten * 2, LONGEST_PAUSE_SECONDS)

    def _listen_again(self, connection: Connection) -> None:
        if connection is not self._connection or self._offering is None:
            return
        try:
            self.listen(connection, self._offering)
        except UpstreamError:
            return
        self.refresh(KINDS)

    # --- lists

    def notice(self, kinds: Iterable[ListKind]) -> None:
        """Take a notice of the server: clients get it after the next fetch, even if the lists are equal."""
        kinds = list(kinds)
        if self._connection:
            self._noticed.update(kinds)
        self.refresh(kinds)

    def refresh(self, kinds: Iterable[ListKind]) -> None:
        """Fetch lists again, then notify; a burst of notices causes one more fetch."""
        self._stale.update(dict.fromkeys(kinds))
        if self._refreshing is None and self._connection:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        pause = 0.0
        try:
            # A server that reports a change after each of its answers would cause endless fetches and notices. Notices
            # that come during the pause share the fetch.
            await asyncio.sleep(self._told_at + FIRST_PAUSE_SECONDS - asyncio.get_running_loop().time())
            while self._stale and self._connection and self._offering:
                connection, kinds = self._connection, list(self._stale)
                self._stale.clear()
                async with asyncio.timeout(self.patience):
                    await handshake.read_lists(connection, self._offering, kinds)
                    handshake.tell_headers(connection, self._offering)
                if self._stale and not pause:
                    # A burst: only the last change is worth a notice.
                    pause = FIRST_PAUSE_SECONDS
                    continue
                self._tell()
                if self._stale:
                    # Lists that change with every fetch are fetched less and less often.
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        except (UpstreamError, TimeoutError) as exc:
            why = str(exc) or f"no answer within {self.patience:g} s"
            log.warning("its lists could not be read again: %s", why, extra={"upstream": self._name})
        except Exception as exc:
            self._broken(exc)
        finally:
            self._refreshing = None
            if self._stale and self._connection:
                # A list changed again during a fetch that failed.
                asyncio.get_running_loop().call_later(RELISTEN_SECONDS, self.refresh, ())

    def _tell(self) -> None:
        # A list that was called changed during its fetch is fetched once more first.
        read = self._noticed - self._stale.keys()
        self._noticed -= read
        self._told_at = asyncio.get_running_loop().time()
        self._changed(read)

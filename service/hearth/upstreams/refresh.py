"""Keeping up with the lists of one instance: asked for anew when the server says that they have changed.

A legacy server says so by itself; a modern one is asked for its notices, and asked again when it ends their stream.
Knows nothing of who is told.
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

# Between two readings of lists that change all the time.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0


class ListRefresher:
    """What one instance offers, kept up to date while it runs.

    `patience` is how many seconds a reading may take; `changed` is told when what was offered is up to date again, and
    which of its lists the server itself has called changed; `broken` of an exception that is a defect of this program.
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
        # When clients were told last, by the loop's clock.
        self._told_at = -math.inf
        # Seconds before a stream of notices that the server ended is asked for again.
        self._relisten = RELISTEN_SECONDS

    # --- the conversation

    def begin(self) -> None:
        """A server was started; what a former one has said of its lists is over."""
        self._stale.clear()
        self._noticed.clear()
        self._relisten = RELISTEN_SECONDS

    def ready(self, connection: Connection, offering: ServerCatalog) -> None:
        """Its lists have been read. What it has called changed meanwhile is read again."""
        self._connection, self._offering = connection, offering
        if self._stale:
            self.refresh(())

    def end(self) -> None:
        """There is nobody to ask any more."""
        self._connection = None

    # --- notices

    def listen(self, connection: Connection, found: ServerCatalog) -> None:
        """Ask a modern server for its change notices; it answers only when it is done with them."""
        wanted = {kind.listen: True for kind in KINDS if found.has(kind.capability) and found.announces(kind)}
        if wanted:
            params = handshake.own_params(versions.MODERN, notifications=json.dumps(wanted))
            connection.request_stream(
                b'"subscriptions/listen"', params, IgnoreReply(self._name, lambda: self._unheard(connection))
            )

    def _unheard(self, connection: Connection) -> None:
        """The server has ended the stream of its notices: it is asked again, also for what it has told meanwhile."""
        if connection is self._connection:
            # One that ends every stream is asked ever more seldom.
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
        """Take a notice of the server: clients get it when the lists were read again, also if they are equal."""
        kinds = list(kinds)
        if self._connection:
            self._noticed.update(kinds)
        self.refresh(kinds)

    def refresh(self, kinds: Iterable[ListKind]) -> None:
        """Fetch lists anew, then tell; bursts of notices become one fetch more."""
        self._stale.update(dict.fromkeys(kinds))
        if self._refreshing is None and self._connection:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        pause = 0.0
        try:
            # A server that calls its lists changed whenever it has answered would be read, and clients told, all the
            # time. Notices that come meanwhile share the reading.
            await asyncio.sleep(self._told_at + FIRST_PAUSE_SECONDS - asyncio.get_running_loop().time())
            while self._stale and self._connection and self._offering:
                connection, kinds = self._connection, list(self._stale)
                self._stale.clear()
                async with asyncio.timeout(self.patience):
                    await handshake.read_lists(connection, self._offering, kinds)
                    handshake.tell_headers(connection, self._offering)
                if self._stale and not pause:
                    # A burst: only the last is worth telling of.
                    pause = FIRST_PAUSE_SECONDS
                    continue
                self._tell()
                if self._stale:
                    # One whose lists change whenever they are read is read ever more seldom.
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
                # It changed again while an answer was waited for that never came.
                asyncio.get_running_loop().call_later(RELISTEN_SECONDS, self.refresh, ())

    def _tell(self) -> None:
        # A list that was called changed while it was read is read once more first.
        read = self._noticed - self._stale.keys()
        self._noticed -= read
        self._told_at = asyncio.get_running_loop().time()
        self._changed(read)

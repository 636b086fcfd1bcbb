"""Change notices of one instance: its lists, which are fetched again, and the resources that its holders subscribed to.

A legacy server reports changes of lists by itself, and gets one subscription for each resource. A modern one is asked
for a stream of notices (`subscriptions/listen`), one for the lists and one for all resources, and asked again when it
ends the stream. The next stream of resources is opened before the former one is cancelled, so that no update is lost
between the two. Knows nothing of the receivers.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable

from hearth.errors import HearthError, UpstreamError
from hearth.mcp import versions
from hearth.mcp.catalog import KINDS, ListKind, ServerCatalog
from hearth.upstreams import handshake
from hearth.upstreams.connection import Connection
from hearth.upstreams.handshake import own_params
from hearth.wire import json, values

log = logging.getLogger(__name__)

# Pause before Hearth asks again for a stream that the server ended.
RELISTEN_SECONDS = 1.0
# Replaced streams of a server that acknowledges none; above this number the oldest is cancelled.
FORMER_LIMIT = 10


class IgnoreReply:
    """Waiter that logs a refusal and ignores any other answer. `ended` is called if the request ends otherwise."""

    def __init__(self, name: str, ended: Callable[[], None] | None = None) -> None:
        self._name = name
        self._ended = ended

    def answered(self, message: json.Message) -> None:
        if message.result is None:
            code, text = values.error(message)
            log.info("a subscription was refused: %s (%d)", text, code, extra={"upstream": self._name})
        elif self._ended:
            self._ended()

    def failed(self, problem: HearthError) -> None:
        if self._ended:
            self._ended()

    def progressed(self, params: json.Fields) -> None:
        pass


class ResourceSubscriptions:
    """Subscriptions of all holders of one instance. `holder` is anything hashable."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._holders: dict[str, set[object]] = {}
        self._connection: Connection | None = None
        self._era = versions.LEGACY
        # Resources that the server was asked for.
        self._asked: set[str] = set()
        self._listen: int | None = None
        # Replaced streams, until their replacement is acknowledged.
        self._former: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._holders)

    def hold(self, uri: str, holder: object) -> None:
        """Subscribe a holder to a resource."""
        self.hold_all((uri,), holder)

    def hold_all(self, uris: Iterable[str], holder: object) -> None:
        """Subscribe a holder to several resources; the server is asked once."""
        for uri in uris:
            self._holders.setdefault(uri, set()).add(holder)
        self._sync()

    def release(self, uri: str, holder: object) -> None:
        """Unsubscribe a holder from a resource."""
        self._remove(uri, holder)
        self._sync()

    def leave(self, holder: object) -> None:
        """Remove all subscriptions of a holder."""
        for uri in [uri for uri, holders in self._holders.items() if holder in holders]:
            self._remove(uri, holder)
        self._sync()

    def _remove(self, uri: str, holder: object) -> None:
        holders = self._holders.get(uri, set())
        holders.discard(holder)
        if not holders:
            self._holders.pop(uri, None)

    def holders(self, uri: str) -> list[tuple[object, str]]:
        """Return the holders to notify of a resource's change, each with the URI it holds: this one or a parent."""
        return [(holder, held) for held in self._holders if _covers(held, uri) for holder in self._holders[held]]

    def connected(self, connection: Connection, era: str) -> None:
        """Renew the subscriptions on a new connection."""
        self._connection, self._era = connection, era
        self._asked, self._listen, self._former = set(), None, []
        self._sync()

    def acknowledged(self, listen: int | None) -> None:
        """Note that the server has acknowledged a stream."""
        if listen is not None and listen == self._listen:
            self._give_up_former(0)

    def _give_up_former(self, kept: int) -> None:
        while len(self._former) > kept and self._connection:
            self._connection.cancel(self._former.pop(0))

    def disconnected(self) -> None:
        """Note that the connection is gone."""
        self._connection = None

    def _sync(self) -> None:
        if self._connection is None or self._asked == self._holders.keys():
            return
        try:
            if self._era == versions.MODERN:
                self._listen_anew(self._connection)
            else:
                self._subscribe(self._connection)
        except HearthError as problem:
            log.info("a subscription could not be sent: %s", problem, extra={"upstream": self._name})
        else:
            self._asked = set(self._holders)

    def _ended(self, connection: Connection, listen: int) -> None:
        """Note that the server has ended a stream, and ask again unless the stream was already replaced."""
        if self._connection is connection and listen == self._listen:
            self._asked, self._listen = set(), None
            asyncio.get_running_loop().call_later(RELISTEN_SECONDS, self._sync)

    def _subscribe(self, connection: Connection) -> None:
        for method, uris in (
            (b'"resources/subscribe"', self._holders.keys() - self._asked),
            (b'"resources/unsubscribe"', self._asked - self._holders.keys()),
        ):
            for uri in sorted(uris):
                # As a stream: a request that the server never answers must not count as a call in flight.
                connection.request_stream(method, json.join({"uri": json.dumps(uri)}), IgnoreReply(self._name))

    def _listen_anew(self, connection: Connection) -> None:
        former, self._listen = self._listen, self._stand(connection) if self._holders else None
        if former is not None:
            self._former.append(former)
        # Without a replacement there is no acknowledgement to wait for.
        self._give_up_former(FORMER_LIMIT if self._listen is not None else 0)

    def _stand(self, connection: Connection) -> int:
        params = own_params(versions.MODERN, notifications=json.dumps({"resourceSubscriptions": sorted(self._holders)}))
        ended = IgnoreReply(self._name, lambda: self._ended(connection, number))
        number = connection.request_stream(b'"subscriptions/listen"', params, ended)
        return number


def _covers(held: str, uri: str) -> bool:
    # "This might be a sub-resource of the one that the client actually subscribed to."
    return uri == held or uri.startswith(held if held.endswith("/") else held + "/")


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

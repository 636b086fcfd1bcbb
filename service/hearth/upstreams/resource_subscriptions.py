"""Resource subscriptions of one instance: counted by holder, and synchronized with the server.

A legacy server gets one subscription for each resource; a modern one gets one `subscriptions/listen` for all. The next
stream is opened before the former one is cancelled, so that no update is lost between the two.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from hearth.errors import HearthError
from hearth.mcp import versions
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
        wanted = json.dumps({"resourceSubscriptions": sorted(self._holders)})
        params = own_params(versions.MODERN, notifications=wanted)
        ended = IgnoreReply(self._name, lambda: self._ended(connection, number))
        number = connection.request_stream(b'"subscriptions/listen"', params, ended)
        return number


def _covers(held: str, uri: str) -> bool:
    # "This might be a sub-resource of the one that the client actually subscribed to."
    return uri == held or uri.startswith(held if held.endswith("/") else held + "/")

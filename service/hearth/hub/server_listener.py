"""Listener of every instance: unsolicited messages of servers, and changes of their state."""

from collections.abc import Callable, Collection

from hearth.errors import LoginRequired
from hearth.hub.bindings import ServerDirectory
from hearth.hub.catalog import Catalog
from hearth.hub.events import (
    EVENTS,
    REASON_LIMIT,
    ListsChanged,
    LoginNeeded,
    ServerFailed,
    ServerStarted,
    ServerStopped,
)
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.server_messages import ServerMessages
from hearth.hub.subscriptions import Noticed, Subscriptions
from hearth.mcp.catalog import ListKind
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance
from hearth.wire import json, values


class ServerListener:
    """Listener of the instances of one daemon. `announce` tells clients of changed lists, `news` the status line."""

    def __init__(
        self,
        directory: ServerDirectory,
        catalogue: Catalog,
        subscriptions: Subscriptions,
        relay: ServerMessages,
        suspended_calls: SuspendedCalls,
        announce: Callable[[Noticed], None],
        news: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._catalogue = catalogue
        self._subscriptions = subscriptions
        self._relay = relay
        self._suspended_calls = suspended_calls
        self._announce = announce
        self._news = news

    def catalog_changed(self, instance: Instance, noticed: Collection[ListKind] = ()) -> None:
        """Take a server's new or changed catalog; `noticed` are the lists that it announced as changed itself."""
        if noticed:
            EVENTS.emit(ListsChanged(server=instance.name, lists=[kind.member for kind in noticed]))
        server = self._directory.server_of(instance)
        if server and instance in server.instances.values():
            server.update_catalog(instance)
            self._catalogue.changed()
            self._announce(lambda session: noticed if self._catalogue.shows(session, server, instance) else ())
        self._news()

    def noticed(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Route a server's notification."""
        server = self._directory.server_of(instance)
        if server and message.method == "notifications/resources/updated":
            self._subscriptions.updated(instance, server, values.members(message.fields.get("params")))
        else:
            self._relay.noticed(instance, connection, message, cause)

    def asked(self, instance: Instance, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Route a server's request to a client."""
        self._relay.asked(instance, connection, message, cause)

    def started(self, instance: Instance) -> None:
        """Record that an instance is ready."""
        EVENTS.emit(ServerStarted(server=instance.name, era=instance.era, restarts=instance.restarts))

    def failed(self, instance: Instance, problem: BaseException) -> None:
        """Record that an instance could not be started."""
        if isinstance(problem, LoginRequired):
            EVENTS.emit(LoginNeeded(server=instance.name))
        else:
            # The instance's own text: without secrets that the server may have repeated.
            EVENTS.emit(ServerFailed(server=instance.name, reason=(instance.error or "unknown")[:REASON_LIMIT]))

    def ended(self, instance: Instance, connection: Connection) -> None:
        """Clean up after a server's process that has ended."""
        EVENTS.emit(ServerStopped(server=instance.name, reason=instance.error and instance.error[:REASON_LIMIT]))
        self._relay.ended(connection)
        self._suspended_calls.server_ended()
        self._news()

    def owes(self, connection: Connection) -> bool:
        """Tell whether a server waits for an answer."""
        return self._relay.owes(connection)

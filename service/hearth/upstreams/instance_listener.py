"""Who is told what an instance says of its own accord. Knows nothing of who that is."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from hearth.mcp.catalog import Kind
from hearth.upstreams.connection import Connection
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.upstreams.instance import Instance


class InstanceListener(Protocol):
    """Whoever is told; the same for all instances."""

    def catalog_changed(self, instance: "Instance", noticed: Collection[Kind] = ()) -> None:
        """Take its offer, known or changed; `noticed` are the lists that the server itself called changed."""

    def noticed(self, instance: "Instance", connection: Connection, message: json.Message, cause: int | None) -> None:
        """A notification that is not about lists or progress."""

    def asked(self, instance: "Instance", connection: Connection, message: json.Message, cause: int | None) -> None:
        """A question to a client."""

    def ended(self, instance: "Instance", connection: Connection) -> None:
        """That conversation is over."""

    def owes(self, connection: Connection) -> bool:
        """Whether the server waits for an answer to something that it asked."""

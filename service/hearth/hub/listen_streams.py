"""Open `subscriptions/listen` streams of modern clients."""

import hashlib
from typing import TYPE_CHECKING

from hearth.mcp import messages, translate, versions
from hearth.mcp.catalog import KINDS, ListKind
from hearth.wire import json, values
from hearth.wire.values import Members

if TYPE_CHECKING:
    from hearth.hub.sessions import Session

# The key goes into a frame's header, which has little room; ids are the client's choice.
KEY_LIMIT_BYTES = 200

# Resources of one stream; each may cause notifications of its own.
URIS_LIMIT = 1000


def keep_name(kind: str, what: bytes) -> str:
    """Return the name under which the bridge keeps a line of that kind, such as a subscription to one URI."""
    name = what if len(what) <= KEY_LIMIT_BYTES else hashlib.blake2s(what).hexdigest().encode()
    return f"{kind}:{name.decode('utf-8', 'replace')}"


class ListenStream:
    """Stream of one `subscriptions/listen` request. The bridge keeps its line, so the stream survives the daemon."""

    __slots__ = ("_early", "id", "is_open", "kinds", "session", "sources", "tag", "uris")

    def __init__(self, session: "Session", tag: int, id: bytes, wanted: json.Fields) -> None:
        self.session = session
        self.tag = tag
        self.id = id
        self.kinds = {kind.listen: kind for kind in KINDS if values.is_true(wanted.get(kind.listen))}
        found = (values.text(raw) for raw in values.elements(wanted.get("resourceSubscriptions")))
        # In the client's order, without duplicates; URIs beyond the limit are not acknowledged.
        self.uris = list(dict.fromkeys(uri for uri in found if uri is not None))[:URIS_LIMIT]
        # Server name and URI there, by the client's URI.
        self.sources: dict[str, tuple[str, str]] = {}
        # Set with the acknowledgement, which must be the first message; earlier notifications wait here, by their
        # topics.
        self.is_open = False
        self._early: dict[str, bytes] = {}

    @property
    def keep(self) -> str:
        """Name under which the bridge keeps the line."""
        return keep_name("listen", self.id)

    def wants(self, kind: ListKind) -> bool:
        """Tell whether the stream asked for changes of that list."""
        return kind.listen in self.kinds

    def acknowledge(self) -> None:
        """Send the first message of the subscription, which says what is honoured."""
        honoured: dict[str, object] = dict.fromkeys(self.kinds, True)
        if self.uris:
            honoured["resourceSubscriptions"] = self.uris
        params: Members = {"notifications": json.dumps(honoured), "_meta": self._meta()}
        payload = messages.notification("notifications/subscriptions/acknowledged", json.join(params))
        self.session.sink.tell(payload, self.tag)
        self.is_open = True
        for topic, notice in self._early.items():
            self.session.sink.notify(notice, topic, self.tag)
        self._early = {}

    def changed(self, kind: ListKind) -> None:
        """Notify the client that a list has changed."""
        if self.wants(kind):
            payload = messages.notification(kind.changed, json.join({"_meta": self._meta()}))
            self._notify(payload, f"{kind.changed}/{self.id!r}")

    def updated(self, uri: str, params: json.Fields) -> None:
        """Notify the client that a resource has changed; `uri` as the client knows it."""
        body = translate.notification_params(params, subscription=self.id, uri=json.dumps(uri))
        payload = messages.notification("notifications/resources/updated", body)
        self._notify(payload, f"{uri}/{self.id!r}")

    def _notify(self, payload: bytes, topic: str) -> None:
        if self.is_open:
            self.session.sink.notify(payload, topic, self.tag)
        else:
            self._early[topic] = payload

    def complete(self) -> None:
        """End the subscription, because the daemon shuts down."""
        body = json.join({"resultType": b'"complete"', "_meta": self._meta()})
        self.session.sink.tell(messages.result(self.id, body), self.tag)

    def _meta(self) -> bytes:
        return json.join({versions.SUBSCRIPTION_ID_KEY: self.id})

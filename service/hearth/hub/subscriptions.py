"""Change notifications: lists, and the resources that clients subscribed to.

A legacy client subscribes to each resource; a modern one opens a `subscriptions/listen` stream (`ListenStream`).
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable

from hearth.errors import HearthError, MessageError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.catalog import SEARCH_CONTENT, Catalog
from hearth.hub.dispatcher import Dispatcher
from hearth.hub.sessions import Session
from hearth.mcp import messages, translate, versions
from hearth.mcp.catalog import CHANGES, KINDS, ListKind
from hearth.mcp.uris import NoSuchResource
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values
from hearth.wire.values import Members

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

    def __init__(self, session: Session, tag: int, id: bytes, wanted: json.Fields) -> None:
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


# Lists of a session that a server announced as changed, whether they differ or not.
Noticed = Callable[[Session], Collection[ListKind]]


def nothing_noticed(session: Session) -> Collection[ListKind]:
    """Return no lists: no server announced a change, and only differences count."""
    return ()


# Per client, for subscriptions and for streams: more than anyone uses.
SUBSCRIPTIONS_LIMIT = 1000
# A running server is asked at once; clients do not wait for one that starts.
ACKNOWLEDGE_SECONDS = 1.0
# Placeholder for a server's name and its URI.
NOBODYS = ("", "")


class Subscriptions:
    """Notifier of clients about changed lists and resources."""

    def __init__(self, catalogue: Catalog, binding: Binding, dispatcher: Dispatcher) -> None:
        self._catalogue = catalogue
        self._binding = binding
        self._spawn = dispatcher.spawn
        # Raises HearthError for a resource that a session may not read, if there is a policy.
        self.authorize: Callable[[Session, Server, str], None] | None = None

    # --- lists

    def announce(self, sessions: Iterable[Session], noticed: Noticed = nothing_noticed) -> None:
        """Notify clients whose lists have changed, or whose server announced a change of them (`noticed`)."""
        for session in sessions:
            if not session.seen:
                continue
            content = self._catalogue.content(session)
            # A client that never asked for a list is not notified, unless it asked for exactly that. A client that
            # searches sees the same tools whatever servers have.
            told = {kind for kind in noticed(session) if content[kind] != SEARCH_CONTENT}
            changed = [kind for kind, seen in session.seen.items() if seen != content[kind] or kind in told]
            for kind in changed:
                session.seen[kind] = content[kind]
            self.tell(session, changed)

    def tell(self, session: Session, kinds: Iterable[ListKind]) -> None:
        """Send notifications of changed lists in the session's era; one for lists that share a notification."""
        for notice in dict.fromkeys(kind.changed for kind in kinds):
            if session.initialized:
                session.sink.notify(messages.notification(notice), topic=notice)
            for listen in session.listens.values():
                listen.changed(CHANGES[notice][0])

    def renew(self, session: Session) -> None:
        """Tell a client whose lists come from another daemon to read them again.

        The client is told of every list whose changes were promised; a client of a single server, of those that the
        server has.
        """
        offerings = self._catalogue.view(session).offerings if session.server is not None else []
        self.tell(session, [kind for kind in KINDS if all(each.has(kind.capability) for _, each in offerings)])

    # --- modern clients

    def listen(self, call: Call, params: json.Fields) -> None:
        """Open the stream of `subscriptions/listen`, and acknowledge it."""
        session = call.session
        wanted = json.split(params.get("notifications", b""))
        if len(session.listens) >= SUBSCRIPTIONS_LIMIT:
            raise MessageError(f"one client may have {SUBSCRIPTIONS_LIMIT} streams of notices", versions.INVALID_PARAMS)
        listen = ListenStream(session, call.tag, call.id, wanted)
        del session.open[call.request.key]
        session.listens[call.request.key] = listen
        content = self._catalogue.content(session)
        for kind in KINDS:
            if listen.wants(kind):
                session.seen.setdefault(kind, content[kind])
        session.sink.attend(call.tag, listen.keep)
        if call.request.replayed:
            # Acknowledged by another daemon, whose lists the client has.
            listen.is_open = True
            for kind in listen.kinds.values():
                listen.changed(kind)
            if listen.uris:
                self._spawn(self._hold_all(session, listen))
        elif listen.uris:
            self._spawn(self._begin(session, listen))
        else:
            listen.acknowledge()

    async def _begin(self, session: Session, listen: ListenStream) -> None:
        """Acknowledge a stream after the servers of its resources were asked, so that no later update is missed.

        A server that takes longer to start is asked later.
        """
        holding = asyncio.ensure_future(self._hold_all(session, listen))
        await asyncio.wait([holding], timeout=ACKNOWLEDGE_SECONDS)
        if listen in session.listens.values():
            listen.acknowledge()
        await holding

    def unlisten(self, listen: ListenStream) -> None:
        """Release the resources of a stream that the client has closed."""
        for bound in listen.session.bound.values():
            for instance in bound.values():
                instance.subscriptions.leave(listen)

    # --- legacy clients

    def subscribe(self, call: Call, params: json.Fields) -> None:
        """Subscribe to a resource (`resources/subscribe`); answered when the resource's server is known."""
        uri = _uri(params)
        if len(call.session.subscriptions) >= SUBSCRIPTIONS_LIMIT:
            raise MessageError(f"one client may have {SUBSCRIPTIONS_LIMIT} subscriptions", versions.INVALID_PARAMS)
        is_new = uri not in call.session.subscriptions
        # No server is known yet, but the client may unsubscribe from now on.
        call.session.subscriptions.setdefault(uri, NOBODYS)
        self._spawn(self._subscribe(call, uri, is_new), call)

    async def _subscribe(self, call: Call, uri: str, is_new: bool) -> None:
        session = call.session
        try:
            server, own = await self._locate(session, uri)
            if uri in session.subscriptions:
                session.subscriptions[uri] = (server.name, own)
            instance = await self._binding.bind(session, versions.LEGACY, server)
            if instance.catalog and not instance.catalog.tells_of_updates:
                raise MessageError(
                    f"server {server.name!r} has no subscriptions to resources", versions.METHOD_NOT_FOUND
                )
        except HearthError as problem:
            if is_new:
                session.subscriptions.pop(uri, None)
            call.failed(problem)
            return
        is_wanted = uri in session.subscriptions
        if is_wanted:
            instance.subscriptions.hold(own, session)
        call.close(messages.result(call.id, b"{}"), keep=_keep(uri) if is_wanted else None)

    def unsubscribe(self, call: Call, params: json.Fields) -> None:
        """Unsubscribe from a resource (`resources/unsubscribe`)."""
        uri = _uri(params)
        session = call.session
        name, own = session.subscriptions.pop(uri, NOBODYS)
        for server, instance in session.bound[versions.LEGACY].items():
            # Another server may have the same URI, under another name for this client.
            if server.name == name:
                instance.subscriptions.release(own, session)
        call.close(messages.result(call.id, b"{}"), drop=_keep(uri))

    # --- both

    async def _hold_all(self, session: Session, listen: ListenStream) -> None:
        """Subscribe to a stream's resources at their servers; resources that no server has are skipped."""
        wanted: dict[Server, list[str]] = {}
        for uri in listen.uris:
            try:
                server, own = await self._locate(session, uri)
            except HearthError:
                continue
            listen.sources[uri] = (server.name, own)
            wanted.setdefault(server, []).append(own)
        for server, owns in wanted.items():
            try:
                instance = await self._binding.bind(session, versions.MODERN, server)
            except HearthError:
                continue
            if listen in session.listens.values():
                instance.subscriptions.hold_all(owns, listen)

    def follow(self, session: Session, server: Server) -> None:
        """Subscribe at the successor of the session's instance of that server, which is being replaced."""
        if any(name == server.name for name, _ in session.subscriptions.values()):
            self._spawn(self._binding.try_bind(session, versions.LEGACY, server))
        sources = [source for listen in session.listens.values() for source in listen.sources.values()]
        if any(name == server.name for name, _ in sources):
            self._spawn(self._binding.try_bind(session, versions.MODERN, server))

    async def _locate(self, session: Session, uri: str) -> tuple[Server, str]:
        """Return a resource's server and URI there; starts servers of unknown catalog. Raises NoSuchResource."""
        tried: set[Server] = set()
        while True:
            server = next((each for each in self._catalogue.unknown(session) if each not in tried), None)
            found = self._catalogue.view(session).locate(uri, session.links, settled=server is None)
            if found:
                if self.authorize:
                    self.authorize(session, *found)
                return found
            if server is None:
                raise NoSuchResource(uri, session.era or versions.MODERN)
            tried.add(server)
            await self._binding.try_bind(session, session.era or versions.MODERN, server)

    def updated(self, instance: Instance, server: Server, params: json.Fields) -> None:
        """Notify subscribers of a resource that a server has reported as changed."""
        uri = values.text(params.get("uri"))
        if uri is None:
            return
        # Once, even to a subscriber that holds the resource in more than one way.
        for holder in dict.fromkeys(holder for holder, _ in instance.subscriptions.holders(uri)):
            if self.authorize and not self._may_read(holder, server, uri):
                continue
            if isinstance(holder, ListenStream):
                holder.updated(self._exposed(holder.session, server, uri), params)
            elif isinstance(holder, Session):
                exposed = json.dumps(self._exposed(holder, server, uri))
                body = translate.notification_params(params, uri=exposed)
                payload = messages.notification("notifications/resources/updated", body)
                holder.sink.notify(payload, topic=f"updated {uri}")

    def _may_read(self, holder: object, server: Server, uri: str) -> bool:
        """Tell whether a subscriber may still read the resource: the policy may have changed since."""
        session = holder.session if isinstance(holder, ListenStream) else holder
        try:
            if self.authorize and isinstance(session, Session):
                self.authorize(session, server, uri)
        except HearthError:
            return False
        return True

    def _exposed(self, session: Session, server: Server, uri: str) -> str:
        return self._catalogue.view(session).expose(server, uri, session.links)


def _keep(uri: str) -> str:
    return keep_name("subscribe", uri.encode("utf-8", "replace"))


def _uri(params: json.Fields) -> str:
    uri = values.text(params.get("uri"))
    if uri is None:
        raise MessageError("params.uri must be a string", versions.INVALID_PARAMS)
    return uri

"""Who is told what has changed: lists, and the resources that clients subscribed to."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, Protocol

from hearth.errors import HearthError, MessageError
from hearth.hub.bindings import Binding
from hearth.hub.calls import Call
from hearth.hub.catalog import SEARCH_CONTENT, Catalog
from hearth.hub.listen_streams import ListenStream, keep_name
from hearth.hub.sessions import Session
from hearth.mcp import messages, translate, versions
from hearth.mcp.catalog import CHANGES, KINDS, Kind
from hearth.mcp.uris import NoSuchResource
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values


class Spawn(Protocol):
    """Goes on with something, for a call or for nobody."""

    def __call__(self, work: Coroutine[Any, Any, None], call: Call | None = None) -> None: ...


# The lists of a session that a server called changed, equal or not.
Noticed = Callable[[Session], Collection[Kind]]


def nothing_noticed(session: Session) -> Collection[Kind]:
    """No list was called changed: only differences count."""
    return ()


# Of either sort, for one client: more than anybody looks at.
SUBSCRIPTIONS_LIMIT = 1000
# A server that runs is asked at once; clients do not wait for one that starts.
ACKNOWLEDGE_SECONDS = 1.0
# In the place of a server's name and its URI.
NOBODYS = ("", "")


class Subscriptions:
    """Told of changes, it tells those who want to know."""

    def __init__(self, catalogue: Catalog, binding: Binding, spawn: Spawn) -> None:
        self._catalogue = catalogue
        self._binding = binding
        self._spawn = spawn

    # --- lists

    def announce(self, sessions: Iterable[Session], noticed: Noticed = nothing_noticed) -> None:
        """Tell everybody whose client saw other lists, or lists that their server called changed (`noticed`)."""
        for session in sessions:
            if not session.seen:
                continue
            content = self._catalogue.content(session)
            # Who never asked for a list has nothing to be told, unless it asked for exactly that.
            # A client that searches sees the same tools whatever servers have.
            told = {kind for kind in noticed(session) if content[kind] != SEARCH_CONTENT}
            changed = [kind for kind, seen in session.seen.items() if seen != content[kind] or kind in told]
            for kind in changed:
                session.seen[kind] = content[kind]
            self.tell(session, changed)

    def tell(self, session: Session, kinds: Iterable[Kind]) -> None:
        """The notices of changed lists, in the session's era; one for lists that are announced together."""
        for notice in dict.fromkeys(kind.changed for kind in kinds):
            if session.initialized:
                session.sink.notify(messages.notification(notice), topic=notice)
            for listen in session.listens.values():
                listen.changed(CHANGES[notice][0])

    def renew(self, session: Session) -> None:
        """A client's lists are of another daemon: it is told what it was promised; of one server, what that has."""
        offerings = self._catalogue.view(session).offerings if session.server is not None else []
        self.tell(session, [kind for kind in KINDS if all(each.has(kind.capability) for _, each in offerings)])

    # --- modern clients

    def listen(self, call: Call, params: json.Fields) -> None:
        """`subscriptions/listen`: acknowledged, and open from then on."""
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
        """Acknowledge a stream when the servers of its resources were asked: no update after that is missed.

        A server that takes longer to start is asked later.
        """
        holding = asyncio.ensure_future(self._hold_all(session, listen))
        await asyncio.wait([holding], timeout=ACKNOWLEDGE_SECONDS)
        if listen in session.listens.values():
            listen.acknowledge()
        await holding

    def unlisten(self, listen: ListenStream) -> None:
        """The client no longer wants it."""
        for bound in listen.session.bound.values():
            for instance in bound.values():
                instance.subscriptions.leave(listen)

    # --- legacy clients

    def subscribe(self, call: Call, params: json.Fields) -> None:
        """`resources/subscribe`: answered when it is clear whose the resource is."""
        uri = _uri(params)
        if len(call.session.subscriptions) >= SUBSCRIPTIONS_LIMIT:
            raise MessageError(f"one client may have {SUBSCRIPTIONS_LIMIT} subscriptions", versions.INVALID_PARAMS)
        is_new = uri not in call.session.subscriptions
        # Nobody's yet; but it may be withdrawn from now on.
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
        """`resources/unsubscribe`."""
        uri = _uri(params)
        session = call.session
        name, own = session.subscriptions.pop(uri, NOBODYS)
        for server, instance in session.bound[versions.LEGACY].items():
            # Another server may have the same one, under another name for this client.
            if server.name == name:
                instance.subscriptions.release(own, session)
        call.close(messages.result(call.id, b"{}"), drop=_keep(uri))

    # --- both

    async def _hold_all(self, session: Session, listen: ListenStream) -> None:
        """Have servers tell of what a stream is to hear; of what nobody has, there is nothing to tell."""
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
        """The session's instance of that server is on its way out: its successor is asked for what it waits to hear."""
        if any(name == server.name for name, _ in session.subscriptions.values()):
            self._spawn(self._bind(session, versions.LEGACY, server))
        sources = [source for listen in session.listens.values() for source in listen.sources.values()]
        if any(name == server.name for name, _ in sources):
            self._spawn(self._bind(session, versions.MODERN, server))

    async def _bind(self, session: Session, era: str, server: Server) -> None:
        try:
            await self._binding.bind(session, era, server)
        except HearthError:
            # It is in the log and in the status; the next call tries again.
            pass

    async def _locate(self, session: Session, uri: str) -> tuple[Server, str]:
        """Whose the resource is; servers that have never said what they have are started for it."""
        tried: set[Server] = set()
        while True:
            server = next((each for each in self._catalogue.unknown(session) if each not in tried), None)
            found = self._catalogue.view(session).locate(uri, session.links, settled=server is None)
            if found:
                return found
            if server is None:
                raise NoSuchResource(uri, session.era or versions.MODERN)
            tried.add(server)
            try:
                await self._binding.bind(session, session.era or versions.MODERN, server)
            except HearthError:
                pass

    def updated(self, instance: Instance, server: Server, params: json.Fields) -> None:
        """A server says that a resource is not what it was."""
        uri = values.text(params.get("uri"))
        if uri is None:
            return
        # Once, also to who holds it in more than one way.
        for holder in dict.fromkeys(holder for holder, _ in instance.subscriptions.holders(uri)):
            if isinstance(holder, ListenStream):
                holder.updated(self._exposed(holder.session, server, uri), params)
            elif isinstance(holder, Session):
                exposed = json.dumps(self._exposed(holder, server, uri))
                body = translate.notification_params(params, uri=exposed)
                payload = messages.notification("notifications/resources/updated", body)
                holder.sink.notify(payload, topic=f"updated {uri}")

    def _exposed(self, session: Session, server: Server, uri: str) -> str:
        return self._catalogue.view(session).expose(server, uri, session.links)


def _keep(uri: str) -> str:
    return keep_name("subscribe", uri.encode("utf-8", "replace"))


def _uri(params: json.Fields) -> str:
    uri = values.text(params.get("uri"))
    if uri is None:
        raise MessageError("params.uri must be a string", versions.INVALID_PARAMS)
    return uri

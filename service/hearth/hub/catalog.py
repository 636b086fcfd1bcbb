"""Views of clients: the lists of all servers, merged under unambiguous names and URIs, in the config's order.

Tools and prompts are called `server__name`; a client of a single server sees that server's own names. URIs stay as they
are, because they occur in other places, too. Where two servers have the same URI, the first keeps it and the other's is
prefixed. `hub.lookups` finds the server of a request in a view. Sends nothing.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Raw

from hearth.errors import MessageError
from hearth.hub.sessions import AUTO, FULL, SEARCH, Session
from hearth.mcp import catalog, downgrade, uris, versions
from hearth.mcp.catalog import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, Item, ListKind, ServerCatalog
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json
from hearth.wire.values import Members, RawBytes

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard

# Stands in for a hash: the search tools are the same for every client. No list has this hash.
SEARCH_CONTENT = -1


class Target(NamedTuple):
    """Server that a request goes to, and the params that are written differently for it."""

    server: Server
    changes: dict[str, Raw]
    # Name of what may not run twice; None if it may.
    unrepeatable: str | None = None
    # The names of the server and of its tool, if it is a tool from a list.
    tool: tuple[str, str] | None = None


class Offer(NamedTuple):
    """Entry of a list, with its server and the target of requests for it."""

    server: Server
    item: Item
    exposed: str
    target: Target


def _offer(server: Server, item: Item, exposed: str) -> Offer:
    changes = {item.kind.key: Raw(item.wire_name)}
    tool = (server.name, item.name) if item.kind is TOOLS else None
    return Offer(server, item, exposed, Target(server, changes, None if item.safe_to_repeat else item.name, tool))


class NotForRole(MessageError):
    """Error for a request that the client's role may not make; the lists of the role do not have what it names."""

    def __init__(self, what: str, name: str, role: str) -> None:
        super().__init__(f"{what} {name!r} not available for role {role!r}", versions.INVALID_PARAMS)
        self.data = {"reason": "role", "role": role}


class WithheldTool(NamedTuple):
    """Tool that is not offered: its server, its name there, and whether the config blocks it."""

    server: str
    tool: str
    is_blocked: bool


_NOTHING: Mapping[str, WithheldTool] = MappingProxyType({})
_NOTHING_HIDDEN: "Mapping[str, tuple[str, str]]" = MappingProxyType({})


class View:
    """Merged lists of some servers. Immutable. `alone`: the lists of one server, under its own names.

    `complete`: the catalog of every server that the client may use is known.
    """

    def __init__(
        self,
        offerings: Sequence[tuple[Server, ServerCatalog]],
        alone: bool,
        complete: bool = True,
        withheld: Mapping[str, WithheldTool] = _NOTHING,
        hidden: Mapping[str, tuple[str, str]] = _NOTHING_HIDDEN,
    ) -> None:
        self.offerings = offerings
        # Tools that the client's role may not see: the server and the name there, by the name that a client would see.
        self.hidden = hidden
        # Tools that would be listed if they were approved and not blocked.
        self.withheld = withheld
        self.offers: dict[ListKind, dict[str, Offer]] = {
            TOOLS: self._named(TOOLS, alone),
            PROMPTS: self._named(PROMPTS, alone),
            RESOURCES: self._addressed(RESOURCES),
            TEMPLATES: self._addressed(TEMPLATES),
        }
        self.tools = self.offers[TOOLS]
        # Servers of app pages that tools name and no list has. The first server that names a page has it.
        self._pages = self._named_pages() if len(offerings) > 1 else {}
        self.with_resources = [server for server, offered in offerings if offered.has(RESOURCES.capability)]
        # Results are searched for URIs only where it matters which server they belong to.
        self.looks_at_links = len(self.with_resources) > 1 or not complete
        self._rendered: dict[tuple[ListKind, str, str], bytes] = {}
        self.content = {kind: hash(self.render(kind, versions.MODERN, versions.NEWEST_MODERN)) for kind in KINDS}

    def _named(self, kind: ListKind, alone: bool) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for server, offered in self.offerings:
            for item in offered.lists[kind].values():
                name = item.name if alone else catalog.exposed_name(item, found)
                found[name] = _offer(server, item, name)
        return found

    def _addressed(self, kind: ListKind) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for server, offered in self.offerings:
            for item in offered.lists[kind].values():
                # A URI that looks prefixed would be taken for another server's.
                ambiguous = item.name in found or uris.unprefixed(item.name)
                uri = uris.prefixed(server.name, item.name) if ambiguous else item.name
                found[uri] = _offer(server, item, uri)
        return found

    def _named_pages(self) -> dict[str, Server]:
        found: dict[str, Server] = {}
        for server, offered in self.offerings:
            for item in offered.lists[TOOLS].values():
                for uri in uris.app_pages(item.definition.get("_meta")):
                    found.setdefault(uri, server)
        return found

    def definition(self, offer: Offer, era: str, version: str) -> Members:
        """Return the definition of a list entry for a client of that revision, under the names that it has here."""
        found = offer.item.render(offer.exposed)
        if offer.item.kind is not TOOLS:
            return found
        found = downgrade.tool(found, era, version)  # type: ignore[arg-type]  # raw is raw
        if self._pages and "_meta" in found:
            meta = uris.rewrite_app_page(found["_meta"], lambda uri: self.expose(offer.server, uri, {}))
            return {**found, "_meta": meta}
        return found

    def render(self, kind: ListKind, era: str, version: str) -> bytes:
        """Return the JSON array of one list for clients of that revision."""
        key = (kind, era, version)
        if key not in self._rendered:
            items = (json.join(self.definition(offer, era, version)) for offer in self.offers[kind].values())
            self._rendered[key] = b"[%b]" % b",".join(items)
        return self._rendered[key]

    # --- server of a URI

    def locate(self, uri: str, links: dict[str, str], settled: bool) -> tuple[Server, str] | None:
        """Return the server that has the resource, and its URI there; None if unknown.

        `links`: the servers of URIs that were mentioned to the client. `settled`: no server is left whose catalog is
        unknown and may turn out to have resources.
        """
        offer = self.offers[RESOURCES].get(uri)
        if offer:
            return offer.server, offer.item.name
        found = self._by_prefix(uri) or self._by_tool(uri) or self._by_template(uri) or self._by_link(uri, links)
        return found or (self._by_being_alone(uri) if settled else None)

    def _by_prefix(self, uri: str) -> tuple[Server, str] | None:
        parts = uris.unprefixed(uri)
        server = self._server(parts[0]) if parts else None
        return (server, parts[1]) if server and parts else None

    def _by_tool(self, uri: str) -> tuple[Server, str] | None:
        server = self._pages.get(uri)
        return (server, uri) if server else None

    def _by_template(self, uri: str) -> tuple[Server, str] | None:
        for offer in self.offers[TEMPLATES].values():
            if uris.matches(offer.item.name, uri):
                return offer.server, uri
        return None

    def _by_link(self, uri: str, links: dict[str, str]) -> tuple[Server, str] | None:
        server = self._server(links.get(uri))
        return (server, uri) if server else None

    def _by_being_alone(self, uri: str) -> tuple[Server, str] | None:
        # A prefix names another server, whose catalog is not known yet, or which is gone.
        is_anybodys = len(self.with_resources) == 1 and uris.unprefixed(uri) is None
        return (self.with_resources[0], uri) if is_anybodys else None

    def _server(self, name: str | None) -> Server | None:
        return next((server for server, _ in self.offerings if server.name == name), None)

    def locate_template(self, template: str) -> tuple[Server, str] | None:
        """Return the server that has the template which a completion refers to, and its own spelling of it."""
        offer = self.offers[TEMPLATES].get(template) or self.offers[RESOURCES].get(template)
        return (offer.server, offer.item.name) if offer else None

    def expose(self, server: Server, uri: str, links: dict[str, str]) -> str:
        """Return a server's URI as its client knows it: prefixed if it would otherwise mean another server."""
        found = self.locate(uri, links, settled=True)
        return uri if found is None or found == (server, uri) else uris.prefixed(server.name, uri)

    def with_links(self, session: Session, server: Server, result: RawBytes) -> RawBytes:
        """Return a server's result with its URIs as the client knows them, and remember their server."""
        result = uris.rewrite_result(result, lambda uri: self.expose(server, uri, session.links))
        for uri in uris.links(result):
            session.mention(uri, server.name)
        return result


def list_result(kind: ListKind, items: bytes, era: str, server_info: bytes) -> bytes:
    """Return the result of a list's method, one page, from the JSON array of its items."""
    fields: Members = {kind.member: items}
    if era == versions.MODERN:
        # Never fresh: the servers behind the list change it at any time, and announce that by list_changed.
        fields |= {"resultType": b'"complete"', "ttlMs": b"0", "cacheScope": b'"private"'}
        fields["_meta"] = json.join({versions.SERVER_INFO_KEY: server_info})
    return json.join(fields)


class Catalog:
    """Views of this daemon's clients. `version` grows whenever something that a client could see has changed.

    `threshold`: with more tools than that, a client in mode `auto` is given the search tools.
    """

    def __init__(
        self, servers: Callable[[], Iterable[Server]], threshold: Callable[[], float] = lambda: math.inf
    ) -> None:
        self.version = 1
        self._servers = servers
        self._threshold = threshold
        self._views: dict[tuple[object, ...], View] = {}
        # The policy in force, if there is one.
        self.filter: Guard | None = None

    def changed(self) -> None:
        """Discard all views, because a catalog has changed."""
        self.version += 1
        self._views.clear()

    def view(self, session: Session) -> View:
        """Return the client's current view."""
        if session.view_version != self.version or session.view is None:
            view = self._look(session)
            session.show(view, self.version)
            return view
        return session.view

    def has_tool(self, session: Session, name: str) -> bool:
        """Tell whether a tool of that name is the client's to call: it is listed, or finds and calls others.

        The name may be as the client writes it for its model.
        """
        from hearth.mcp.search_tools import NAMES
        from hearth.policy.hook_tools import BRIDGE_NAME, is_written

        names = {*self.view(session).tools, *(NAMES if session.mode != FULL else ())}
        return name in names or is_written(session.server or BRIDGE_NAME, name, names)

    def searches(self, session: Session) -> bool:
        """Tell whether the client is offered the search tools instead of all others."""
        if session.mode == AUTO:
            return len(self.view(session).tools) > self._threshold()
        return session.mode == SEARCH

    def content(self, session: Session) -> dict[ListKind, int]:
        """Return the hash of each list's content as the client would see it now."""
        content = self.view(session).content
        return {**content, TOOLS: SEARCH_CONTENT} if self.searches(session) else content

    def shows(self, session: Session, server: Server, instance: Instance) -> bool:
        """Tell whether the client sees the lists of that very instance of the server."""
        catalog = server.catalog_for(session.client_context())
        return server in self.in_view(session) and catalog is instance.catalog

    def in_view(self, session: Session) -> list[Server]:
        """Return the servers that the client may use."""
        if session.target:
            return [session.target]
        found = [server for server in self._servers() if session.server is None or server.name == session.server]
        return [each for each in found if self.filter.serves(session, each)] if self.filter else found

    def unknown(self, session: Session) -> list[Server]:
        """Return the servers that the client may use and whose catalog for such a client is not known yet."""
        tenant = session.client_context()
        return [server for server in self.in_view(session) if server.catalog_for(tenant) is None]

    def _look(self, session: Session) -> View:
        tenant = session.client_context()
        offerings, servers = [], self.in_view(session)
        withheld: dict[str, WithheldTool] = {}
        hidden: dict[str, tuple[str, str]] = {}
        known = 0
        for server in servers:
            offered = server.catalog_for(tenant) or server.catalogs.any
            if offered:
                tools = server.withheld(offered)
                for tool in tools:
                    name = tool if session.server else catalog.prefixed_name(server.name, tool)
                    withheld[name] = WithheldTool(server.name, tool, tool in server.spec.blocked_tools)
                known += 1
                seen = self._seen(session, server, offered.without_tools(tools), hidden)
                if seen:
                    offerings.append((server, seen))
        complete = known == len(servers)
        # Not by their names: two sessions may have targets of the same name, and must not share a view.
        offered_keys = ((server, offered.key) for server, offered in offerings)
        # Different withheld tools may leave the same lists, while the message about a withheld tool differs.
        key = (session.server, complete, frozenset(withheld.items()), frozenset(hidden.items()), *offered_keys)
        if key not in self._views:
            self._views[key] = View(offerings, session.server is not None, complete, withheld, hidden)
        return self._views[key]

    def _seen(
        self, session: Session, server: Server, offered: ServerCatalog, hidden: dict[str, tuple[str, str]]
    ) -> ServerCatalog | None:
        """Return the part of a catalog that the session's role may see; note the names of its other tools."""
        if self.filter is None:
            return offered
        seen = self.filter.visible(session, server, offered)
        for tool in offered.lists[TOOLS]:
            if seen is None or tool not in seen.lists[TOOLS]:
                hidden[tool if session.server else catalog.prefixed_name(server.name, tool)] = (server.name, tool)
        return seen

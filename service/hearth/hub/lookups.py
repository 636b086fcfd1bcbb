"""Lookups: the ways to find the server of a request in its client's view, by what the request names. Sends nothing."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Raw

from hearth.errors import HearthError, MessageError
from hearth.hub.calls import ClientRequest
from hearth.hub.catalog import Target, View
from hearth.hub.sessions import Session
from hearth.mcp import catalog, versions
from hearth.mcp.catalog import PROMPTS, TOOLS, Item, ListKind
from hearth.mcp.uris import NoSuchResource
from hearth.upstreams.server import Server
from hearth.wire import json, values

# Finds the target of a request in its client's view; the flag tells whether the view is final. None if it is not there.
Locate = Callable[[View, bool], Target | None]
# Tells whether a server whose lists are not known yet may have it.
MayHave = Callable[[Server], bool]


class TargetLookup(NamedTuple):
    """Way to find the server of a request, and the error if no server has what it names.

    `tool` is the name by which a tool is looked up.
    """

    locate: Locate
    may_have: MayHave
    missing: HearthError
    tool: str | None = None


def named_lookup(
    session: Session,
    kind: ListKind,
    name: str,
    missing: HearthError | None = None,
    check: Callable[[Item], None] | None = None,
) -> TargetLookup:
    """Return the lookup of a tool or a prompt. Its `locate` raises what `check` raises."""

    def locate(view: View, settled: bool) -> Target | None:
        offer = view.offers[kind].get(name)
        if offer and check:
            check(offer.item)
        return offer.target if offer else None

    unknown = missing or MessageError(f"unknown {kind.member[:-1]}: {name}", versions.INVALID_PARAMS)
    return TargetLookup(locate, _may_have(session, name), unknown, name if kind is TOOLS else None)


def resource_lookup(session: Session, uri: str, era: str) -> TargetLookup:
    """Return the lookup of a resource."""

    def locate(view: View, settled: bool) -> Target | None:
        found = view.locate(uri, session.links, settled)
        return Target(found[0], {"uri": Raw(json.dumps(found[1]))}) if found else None

    return TargetLookup(locate, any_server, NoSuchResource(uri, era))


def completion_lookup(session: Session, ref: json.Fields) -> TargetLookup:
    """Return the lookup of the prompt or resource template whose argument is completed. Raises MessageError."""
    name, uri = values.text(ref.get("name")), values.text(ref.get("uri"))
    if name is None and uri is None:
        raise MessageError("params.ref must name a prompt or a resource template", versions.INVALID_PARAMS)

    def locate(view: View, settled: bool) -> Target | None:
        if uri is not None:
            found = view.locate_template(uri) or view.locate(uri, session.links, settled)
            own = None if found is None else {**ref, "uri": Raw(json.dumps(found[1]))}
            return Target(found[0], {"ref": Raw(json.join(own))}) if found and own else None
        offer = view.offers[PROMPTS].get(name or "")
        if offer is None:
            return None
        return Target(offer.server, {"ref": Raw(json.join({**ref, "name": Raw(offer.item.wire_name)}))})

    may_have = any_server if name is None else _may_have(session, name)
    missing = f"unknown prompt: {name}" if uri is None else f"no server has the resource template {uri}"
    return TargetLookup(locate, may_have, MessageError(missing, versions.INVALID_PARAMS))


def request_lookup(request: ClientRequest) -> TargetLookup:
    """Return the lookup of a request that was resolved before: of a tool, a prompt or a resource."""
    if request.method == "resources/read":
        return resource_lookup(request.session, values.text(request.params.get("uri")) or "", request.era)
    kind = TOOLS if request.method == "tools/call" else PROMPTS
    return named_lookup(request.session, kind, values.text(request.params.get("name")) or "")


def any_server(server: Server) -> bool:
    """Allow every server."""
    return True


def _may_have(session: Session, name: str) -> MayHave:
    return lambda server: session.server is not None or catalog.may_have_name(server.name, name)

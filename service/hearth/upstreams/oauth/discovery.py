"""Discovery of the source of a server's tokens: the server's metadata, then that of its authorization server."""

import asyncio
from typing import NamedTuple

import httpx

from hearth.addresses import UNIX
from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.http.credentials import has_own_header
from hearth.upstreams.oauth import metadata, tokens
from hearth.upstreams.oauth.metadata import AddressPolicy, Authority, Challenge, Resource, parse_challenge

# A request without effect on a server that needs no login.
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_SENDING = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


class Found(NamedTuple):
    """Result of discovery: the resource that tokens are for, and the authorization server that issues them."""

    resource: Resource
    authority: Authority


def check_address(spec: ServerSpec) -> str:
    """Return the server's url if tokens may be sent to it. Raises LoginFailed."""
    url = spec.url or ""
    if has_own_header(spec):
        raise LoginFailed(
            "it has an Authorization in `headers` of its entry, which wins over any login: remove it first"
        )
    if url.startswith(UNIX):
        raise LoginFailed("it is on a Unix socket, and there is no login for those")
    if not metadata.is_safe(url, near=True):
        raise LoginFailed("its url is not https, and tokens are not sent where anybody can read them")
    return url


async def challenge(web: httpx.AsyncClient, spec: ServerSpec) -> Challenge | None:
    """Return the server's challenge to a request without a token; None if it needs no token. Raises Unsettled."""
    url = check_address(spec)
    sending = {**_SENDING, **spec.headers}
    try:
        async with (
            asyncio.timeout(tokens.ANSWER_SECONDS),
            web.stream("POST", url, headers=sending, content=_PING) as response,
        ):
            header = response.headers.get("www-authenticate")
            return parse_challenge(header) if response.status_code == 401 else None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as exc:
        raise tokens.Unsettled("it cannot be reached: is it running, and is its url right?") from exc


async def find(web: httpx.AsyncClient, spec: ServerSpec, wanted: Challenge | None, former: str | None = None) -> Found:
    """Find the source of the server's tokens.

    Of several authorization servers, choose the configured one, or the former, or the first. Raises LoginFailed, and
    Unsettled if a later attempt may succeed.
    """
    url = check_address(spec)
    near = metadata.is_loopback(url)
    resource = await find_resource(web, spec, wanted)
    if resource is None:
        found = await _find_old(web, url, near)
    else:
        issuer = _chosen(resource, spec.oauth.issuer, former)
        found = Found(resource, await find_authority(web, issuer, near))
    # The browser opens this endpoint; the HTTP client checks the others itself.
    await AddressPolicy.of(spec).check(found.authority.authorization_endpoint)
    return found


async def find_resource(web: httpx.AsyncClient, spec: ServerSpec, wanted: Challenge | None) -> Resource | None:
    """Return the server's resource metadata; None if neither the server nor the config has any."""
    url = check_address(spec)
    near = metadata.is_loopback(url)
    named = wanted.resource_metadata if wanted else None
    if named and not metadata.is_safe(named, near):
        raise LoginFailed("it describes itself at an address that is not https")
    for place in [named] if named else metadata.resource_places(url):
        document = await tokens.get_document(web, place)
        if document is not None:
            return metadata.read_resource(document, url, near)
    issuer = spec.oauth.issuer
    return Resource(resource=metadata.canonical(url), servers=(issuer,)) if issuer else None


def _chosen(resource: Resource, configured: str | None, former: str | None) -> str:
    if configured and configured not in resource.servers:
        raise LoginFailed(
            f"it names {', '.join(resource.servers)} for logins,"
            f" and not {configured}, which `oauth.issuer` of its entry wants"
        )
    if configured:
        return configured
    return former if former in resource.servers else resource.servers[0]


async def find_authority(web: httpx.AsyncClient, issuer: str, near: bool) -> Authority:
    """Return the metadata of an authorization server. Raises LoginFailed, Unsettled."""
    problem = None
    for place in metadata.authority_places(issuer):
        try:
            document = await tokens.get_document(web, place)
        except tokens.Unsettled as exc:
            # Some servers answer with an error instead of 404.
            problem = exc
            continue
        if document is not None:
            return metadata.read_authority(document, issuer, near)
    raise problem or LoginFailed(f"the authorization server {issuer} does not say where its endpoints are")


async def _find_old(web: httpx.AsyncClient, url: str, near: bool) -> Found:
    """Find the source of a 2025-03-26 server's tokens: it is its own authorization server, described at its root."""
    origin = metadata.origin(url)
    document = await tokens.get_document(web, metadata.authority_places(origin)[0])
    if document is None:
        raise LoginFailed(
            "it does not say where to log in; if it takes a key, put it into `headers` of its entry as Authorization"
        )
    issuer = f"{origin}/" if document.get("issuer") == f"{origin}/" else origin
    authority = metadata.read_authority(document, issuer, near)
    return Found(Resource(resource=metadata.canonical(url), servers=(issuer,)), authority)

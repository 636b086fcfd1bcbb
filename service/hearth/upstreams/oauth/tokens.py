"""Tokens for a server: discovery of their source, and requests to it for tokens, registration and revocation.

Discovery reads the server's metadata, then that of its authorization server. oauthlib, which does no I/O, builds the
requests; httpx sends them. Errors never carry the request, and of the response only the error code.
"""

import asyncio
import base64
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from oauthlib.oauth2 import OAuth2Error, WebApplicationClient

from hearth import __version__
from hearth.addresses import UNIX
from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.http.client import CONNECT_SECONDS, cause_of
from hearth.upstreams.http.client_setup import trust
from hearth.upstreams.http.credentials import has_own_header
from hearth.upstreams.oauth import metadata
from hearth.upstreams.oauth.metadata import SECRET_METHODS, AddressPolicy, Authority, Challenge, Resource
from hearth.upstreams.oauth.store import Grant, OAuthClient

# A token endpoint that takes longer is down; callers have limits of their own.
ANSWER_SECONDS = 30.0
# Metadata and tokens have some KiB.
BODY_LIMIT_BYTES = 1024 * 1024
# A longer lifetime is a mistake, and is cut to this.
_LONGEST_SECONDS = 400 * 86400.0
# RFC 8414 2: the default if an authorization server does not say how clients authenticate.
_UNSAID = "client_secret_basic"
# A request without effect on a server that needs no login.
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_SENDING = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

# oauthlib would log tokens at its debug level.
logging.getLogger("oauthlib").setLevel(logging.CRITICAL + 1)


class Denied(LoginFailed):
    """Refusal of the authorization server. `code` is OAuth's error code."""

    def __init__(self, sentence: str, code: str) -> None:
        super().__init__(sentence)
        self.code = code


class Unsettled(LoginFailed):
    """Failure to reach the authorization server, or an error of the server itself: a later attempt may succeed."""


def open_client(spec: ServerSpec) -> httpx.AsyncClient:
    """Return an HTTP client for every request of a login. Reads certificates, which takes tens of milliseconds.

    Requests raise LoginFailed for an address that the server's metadata may not lead to.
    """
    return httpx.AsyncClient(
        event_hooks={"request": [AddressPolicy.of(spec).guard]},
        headers={"User-Agent": f"hearth/{__version__}", "Accept": "application/json"},
        verify=trust(),
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_keepalive_connections=0),
    )


async def get_document(web: httpx.AsyncClient, url: str) -> dict[str, Any] | None:
    """Return the JSON object at an address; None if there is none. Raises Unsettled."""
    status, body = await _request(web, "GET", url)
    if status >= 500:
        raise Unsettled(f"{_place(url)} answered HTTP {status}")
    return _object(body) if status == 200 else None


# --- discovery


class TokenSource(NamedTuple):
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
        async with asyncio.timeout(ANSWER_SECONDS), web.stream("POST", url, headers=sending, content=_PING) as response:
            header = response.headers.get("www-authenticate")
            return metadata.parse_challenge(header) if response.status_code == 401 else None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as exc:
        raise Unsettled("it cannot be reached: is it running, and is its url right?") from exc


async def find_source(
    web: httpx.AsyncClient, spec: ServerSpec, wanted: Challenge | None, former: str | None = None
) -> TokenSource:
    """Find the source of the server's tokens.

    Of several authorization servers, choose the configured one, or the former, or the first. Raises LoginFailed, and
    Unsettled if a later attempt may succeed.
    """
    url = check_address(spec)
    near = metadata.is_loopback(url)
    resource = await _find_resource(web, spec, wanted, url, near)
    if resource is None:
        found = await _find_old(web, url, near)
    else:
        found = TokenSource(resource, await _find_authority(web, _chosen(resource, spec.oauth.issuer, former), near))
    # The browser opens this endpoint; the HTTP client checks the others itself.
    await AddressPolicy.of(spec).check(found.authority.authorization_endpoint)
    return found


async def _find_resource(
    web: httpx.AsyncClient, spec: ServerSpec, wanted: Challenge | None, url: str, near: bool
) -> Resource | None:
    """Return the server's resource metadata; None if neither the server nor the config has any."""
    named = wanted.resource_metadata if wanted else None
    if named and not metadata.is_safe(named, near):
        raise LoginFailed("it describes itself at an address that is not https")
    for place in [named] if named else metadata.resource_places(url):
        document = await get_document(web, place)
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


async def _find_authority(web: httpx.AsyncClient, issuer: str, near: bool) -> Authority:
    """Return the metadata of an authorization server. Raises LoginFailed, Unsettled."""
    problem = None
    for place in metadata.authority_places(issuer):
        try:
            document = await get_document(web, place)
        except Unsettled as exc:
            # Some servers answer with an error instead of 404.
            problem = exc
            continue
        if document is not None:
            return metadata.read_authority(document, issuer, near)
    raise problem or LoginFailed(f"the authorization server {issuer} does not say where its endpoints are")


async def _find_old(web: httpx.AsyncClient, url: str, near: bool) -> TokenSource:
    """Find the source of a 2025-03-26 server's tokens: it is its own authorization server, described at its root."""
    origin = metadata.origin(url)
    document = await get_document(web, metadata.authority_places(origin)[0])
    if document is None:
        raise LoginFailed(
            "it does not say where to log in; if it takes a key, put it into `headers` of its entry as Authorization"
        )
    issuer = f"{origin}/" if document.get("issuer") == f"{origin}/" else origin
    authority = metadata.read_authority(document, issuer, near)
    return TokenSource(Resource(resource=metadata.canonical(url), servers=(issuer,)), authority)


# --- requests to the authorization server


async def redeem(
    web: httpx.AsyncClient,
    authority: Authority,
    client: OAuthClient,
    code: str,
    verifier: str,
    redirect_uri: str,
    resource: str,
) -> Grant:
    """Exchange a code for tokens. Raises Denied, Unsettled."""
    body = WebApplicationClient(client.client_id).prepare_request_body(
        code=code, redirect_uri=redirect_uri, code_verifier=verifier, resource=resource
    )
    return await _ask_for_tokens(web, authority.token_endpoint, client, body)


async def refresh(
    web: httpx.AsyncClient, token_endpoint: str, client: OAuthClient, former: Grant, resource: str
) -> Grant:
    """Exchange a refresh token, which may be good for one use only, for new tokens. Raises Denied, Unsettled."""
    body = WebApplicationClient(client.client_id).prepare_refresh_body(
        refresh_token=former.refresh_token, client_id=client.client_id, resource=resource
    )
    grant = await _ask_for_tokens(web, token_endpoint, client, body)
    # RFC 6749 6: values that the response omits stay unchanged.
    return grant.replace(
        refresh_token=grant.refresh_token or former.refresh_token,
        scopes=grant.scopes or former.scopes,
        client_secret=former.client_secret,
        method=former.method,
    )


async def revoke(web: httpx.AsyncClient, endpoint: str, client: OAuthClient, token: str, hint: str) -> bool:
    """Revoke a token (RFC 7009). Return whether the authorization server confirms it. Raises Unsettled."""
    form = httpx.QueryParams({"token": token, "token_type_hint": hint, "client_id": client.client_id})
    status, _ = await _post(web, endpoint, client, str(form))
    return status == 200


async def register(
    web: httpx.AsyncClient, authority: Authority, redirect_uri: str, scopes: tuple[str, ...]
) -> OAuthClient:
    """Register as a client of an authorization server (RFC 7591). Raises Denied, Unsettled."""
    assert authority.registration_endpoint is not None
    wanted = _method(authority)
    document = {
        "client_name": "Hearth",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted,
        # Without it, OpenID servers assume a web application, which may not redirect to this machine.
        "application_type": "native",
        "software_id": "mcp-hearth",
        "software_version": __version__,
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    content = json.dumps(document).encode()
    kind = {"Content-Type": "application/json"}
    status, body = await _request(web, "POST", authority.registration_endpoint, kind, content)
    answer = _object(body) or {}
    id, secret, method = (answer.get(name) for name in ("client_id", "client_secret", "token_endpoint_auth_method"))
    if not 200 <= status < 300 or not isinstance(id, str) or not id:
        if status >= 500:
            raise Unsettled(f"{_place(authority.issuer)} could not register Hearth: HTTP {status}")
        code = metadata.error_code(answer.get("error"))
        raise Denied(f"{authority.issuer} does not register Hearth as a client ({code or f'HTTP {status}'})", code)
    secret = secret if isinstance(secret, str) and secret else None
    spoken = method if method in ("none", *SECRET_METHODS) else wanted
    return OAuthClient(
        client_id=id,
        client_secret=secret,
        method=spoken if secret or spoken == "none" else "none",
        redirect_uri=redirect_uri,
        scopes=scopes,
    )


def _method(authority: Authority) -> str:
    """Return the preferred way to authenticate at the token endpoint.

    Without a secret if possible: a program on every user's disk cannot keep one.
    """
    offered = authority.methods
    if offered is None or "none" in offered:
        return "none"
    return next((method for method in SECRET_METHODS if method in offered), "none")


def secret_method(methods: tuple[str, ...] | None) -> str:
    """Return how a client with a secret of its own authenticates."""
    return next((method for method in SECRET_METHODS if method in (methods or ())), _UNSAID)


# --- HTTP requests


async def _ask_for_tokens(web: httpx.AsyncClient, endpoint: str, client: OAuthClient, body: str) -> Grant:
    asked_at = time.time()
    status, answer = await _post(web, endpoint, client, body)
    document = _object(answer)
    if status >= 500 or status == 429 or (document is None and status != 200):
        raise Unsettled(f"{_place(endpoint)} gave no token: HTTP {status}")
    try:
        found = WebApplicationClient(client.client_id).parse_request_body_response(json.dumps(document or {}))
    except OAuth2Error as exc:
        code = metadata.error_code(exc.error) or "an error without a name"
        raise Denied(f"{_place(endpoint)} gave no token: {code}", code) from None
    except (ValueError, TypeError, AttributeError):
        raise Denied(f"{_place(endpoint)} gave no token that makes sense", "") from None
    return _grant(found, asked_at, endpoint)


def _grant(found: Mapping[str, Any], asked_at: float, endpoint: str) -> Grant:
    token, refresh_token, kind = found.get("access_token"), found.get("refresh_token"), found.get("token_type")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Denied(f"{_place(endpoint)} gave a token that no header can carry", "")
    if isinstance(kind, str) and kind.lower() != "bearer":
        raise Denied(f"{_place(endpoint)} gave a token of a kind that Hearth cannot use", "")
    lifetime, scope = found.get("expires_in"), found.get("scope")
    return Grant(
        access_token=token,
        refresh_token=refresh_token if isinstance(refresh_token, str) and refresh_token else None,
        scopes=tuple(each for each in scope if isinstance(each, str)) if isinstance(scope, list) else (),
        obtained_at=asked_at,
        expires_in=min(float(lifetime), _LONGEST_SECONDS) if isinstance(lifetime, int) and lifetime > 0 else None,
    )


async def _post(web: httpx.AsyncClient, url: str, client: OAuthClient, body: str) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if client.client_secret and client.method == "client_secret_basic":
        # RFC 6749 2.3.1: both are form-encoded first; a space not as `+`, which some servers do not decode.
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.client_secret:
        body += f"&{httpx.QueryParams({'client_secret': client.client_secret})}"
    return await _request(web, "POST", url, headers, body.encode())


async def _request(
    web: httpx.AsyncClient,
    method: str,
    url: str,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> tuple[int, bytes]:
    """Send a request; return status and body. Raises Unsettled.

    Redirects are not followed: the request is for that address only.
    """
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            web.stream(method, url, headers=headers, content=content) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > BODY_LIMIT_BYTES:
                    raise Unsettled(f"{_place(url)} answered with more than {BODY_LIMIT_BYTES} bytes")
            return response.status_code, bytes(body)
    except TimeoutError:
        raise Unsettled(f"{_place(url)} did not answer within {ANSWER_SECONDS:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
        raise Unsettled(f"{_place(url)} cannot be reached ({cause_of(exc)})") from exc


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _place(url: str) -> str:
    """Return an address for messages, without its query, which may contain keys."""
    return url.partition("?")[0]

"""Requests to an authorization server: codes and refresh tokens to access tokens, registration, revocation.

oauthlib, which does no I/O, builds the requests; httpx sends them. Errors never carry the request, and of the response
only the error code.
"""

import asyncio
import base64
import json
import logging
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from oauthlib.oauth2 import OAuth2Error, WebApplicationClient

from hearth import __version__
from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.http import client, pool
from hearth.upstreams.oauth.metadata import SECRET_METHODS, AddressPolicy, Authority
from hearth.upstreams.oauth.store import Grant, OAuthClient

# A token endpoint that takes longer is down; callers have limits of their own.
ANSWER_SECONDS = 30.0
# Metadata and tokens have some KiB.
BODY_LIMIT_BYTES = 1024 * 1024
# A longer lifetime is a mistake, and is cut to this.
_LONGEST_SECONDS = 400 * 86400.0
# RFC 8414 2: the default if an authorization server does not say how clients authenticate.
_UNSAID = "client_secret_basic"
_CODE = re.compile(r"[a-z0-9_.-]{1,60}", re.IGNORECASE)

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
        verify=client.trust(),
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=pool.CONNECT_SECONDS),
        limits=httpx.Limits(max_keepalive_connections=0),
    )


async def get_document(web: httpx.AsyncClient, url: str) -> dict[str, Any] | None:
    """Return the JSON object at an address; None if there is none. Raises Unsettled."""
    status, body = await _request(web, "GET", url)
    if status >= 500:
        raise Unsettled(f"{_place(url)} answered HTTP {status}")
    return _object(body) if status == 200 else None


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
        raise Denied(
            f"{authority.issuer} does not register Hearth as a client ({_error_code(answer) or f'HTTP {status}'})",
            _error_code(answer),
        )
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
        code = exc.error if isinstance(exc.error, str) and _CODE.fullmatch(exc.error) else "an error without a name"
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
        raise Unsettled(f"{_place(url)} cannot be reached ({pool.cause_of(exc)})") from exc


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _error_code(answer: Mapping[str, Any]) -> str:
    code = answer.get("error")
    return code if isinstance(code, str) and _CODE.fullmatch(code) else ""


def _place(url: str) -> str:
    """Return an address for messages, without its query, which may contain keys."""
    return url.partition("?")[0]

"""An authorization server on the official Python SDK's routes, and two MCP servers that want its tokens, on one port
that it prints: /mcp and /other/mcp.

    echo TEXT    the text; any token will do
    write TEXT   the text; wants the scope `write`, or says 403 insufficient_scope

Everybody who asks is let in. What it was asked is told by GET /test/counts; POST /test/set changes how it behaves:

    lifetime      seconds that an access token is good for
    says_lifetime whether it says so
    rotates       whether a refresh token is good for one use (a second one ends the login)
    metadata      members that go over its own description, null removes one
    resource      the same for the description of the MCP servers
    challenge     what a 401 says after `Bearer `
    iss, state    what is put into the redirect in place of the truth; null: nothing
    places        false: no well-known place has a description of the MCP servers
    slow          seconds that the token endpoint takes
    broken        the status of the token endpoint, if it is not 200
    denies        whether the person says no
    narrows       whether tokens are good for `read` only, whatever was asked for
"""

import asyncio
import json
import secrets
import socket
import time
from collections import Counter
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, TokenError
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

SCOPES = ["read", "write"]
counts: Counter[str] = Counter()
asked: list[dict[str, Any]] = []
settings: dict[str, Any] = {
    "lifetime": 3600, "says_lifetime": True, "rotates": True, "metadata": {}, "resource": {}, "challenge": None,
    "places": True, "slow": 0, "broken": None, "document": {},
}  # fmt: skip
listener = socket.create_server(("127.0.0.1", 0))
ORIGIN = f"http://127.0.0.1:{listener.getsockname()[1]}"
ISSUER = f"{ORIGIN}/"


class Provider:
    """Keeps everything in memory, and lets everybody in."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.spent: set[str] = set()

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if client_id.startswith("http"):
            counts["document"] += 1
            async with httpx.AsyncClient() as web:
                found = (await web.get(client_id)).json()
            assert found["client_id"] == client_id
            return OAuthClientInformationFull.model_validate(found)
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        counts["register"] += 1
        asked.append({"register": json.loads(client_info.model_dump_json())})
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: Any) -> str:
        counts["authorize"] += 1
        asked.append({"authorize": {"resource": params.resource, "scopes": params.scopes, "client": client.client_id}})
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        answer = {"code": code, "state": settings.get("state", params.state), "iss": settings.get("iss", ISSUER)}
        if settings.get("denies"):
            answer = {"error": "access_denied", "state": params.state, "iss": ISSUER}
        told = {name: value for name, value in answer.items() if value is not None}
        return f"{params.redirect_uri}?{urlencode(told)}"

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        counts["code"] += 1
        del self.codes[authorization_code.code]
        return self._give(client.client_id, authorization_code.scopes, authorization_code.resource)

    def _give(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        scopes = ["read"] if settings.get("narrows") else scopes
        access, refresh = f"access-{secrets.token_hex(12)}", f"refresh-{secrets.token_hex(12)}"
        lifetime = settings["lifetime"]
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=int(time.time() + lifetime), resource=resource
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            scope=" ".join(scopes),
            expires_in=lifetime if settings["says_lifetime"] else None,
        )

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.spent:
            # RFC 9700 4.14.2: whoever uses one twice may have stolen it.
            counts["reuse"] += 1
            self.refresh.clear()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        counts["refresh"] += 1
        if settings["rotates"]:
            del self.refresh[refresh_token.token]
            self.spent.add(refresh_token.token)
        given = self._give(client.client_id, scopes, refresh_token.resource)
        if not settings["rotates"]:
            del self.refresh[given.refresh_token or ""]
            return given.model_copy(update={"refresh_token": None})
        return given

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: Any) -> None:
        counts["revoke"] += 1
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)

    async def exchange_identity_assertion(self, client: Any, params: Any) -> OAuthToken:
        raise TokenError("unsupported_grant_type")


provider = Provider()


def changed(document: dict[str, Any], by: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**document, **by}.items() if value is not None}


async def describe_itself(request: Request) -> Response:
    counts["metadata"] += 1
    options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES)
    own = build_metadata(AnyHttpUrl(ISSUER), None, options, RevocationOptions(enabled=True))
    return JSONResponse(changed(own.model_dump(mode="json", exclude_none=True), settings["metadata"]))


async def describe_server(request: Request) -> Response:
    counts["resource"] += 1
    if not settings["places"] and not request.url.path.startswith("/elsewhere"):
        return Response(status_code=404)
    path = "/other/mcp" if request.url.path.endswith("/other/mcp") else "/mcp"
    own = {"resource": ORIGIN + path, "authorization_servers": [ISSUER], "scopes_supported": ["read"]}
    return JSONResponse(changed(own, settings["resource"]))


async def describe_client(request: Request) -> Response:
    return JSONResponse({"client_id": str(request.url), "client_name": "Hearth", **settings["document"]})


async def change(request: Request) -> Response:
    wanted = await request.json()
    if wanted.pop("end_access", False):
        provider.access.clear()
    if wanted.pop("end_refresh", False):
        provider.refresh.clear()
    if client := wanted.pop("client", None):
        provider.clients[client["client_id"]] = OAuthClientInformationFull.model_validate(client)
    settings.update(wanted)
    return JSONResponse({})


async def tell(request: Request) -> Response:
    return JSONResponse({"counts": counts, "asked": asked})


class Guard:
    """Lets in who has a token for that server, and to `write` who may write."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            return await self._app(scope, receive, send)
        counts["mcp"] += 1
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if headers.get("authorization") == "Bearer by-hand":
            counts["by hand"] += 1
            return await self._app(scope, receive, send)
        token = provider.access.get(headers.get("authorization", "").removeprefix("Bearer "))
        if token is None or token.resource != ORIGIN + self._path or (token.expires_at or 0) <= time.time():
            counts["401"] += 1
            said = f'resource_metadata="{ORIGIN}/.well-known/oauth-protected-resource{self._path}", scope="read"'
            said = settings["challenge"] if settings["challenge"] is not None else said
            refusal = Response(status_code=401, headers={"WWW-Authenticate": f"Bearer {said}"})
            return await refusal(scope, receive, send)
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        if b'"write"' in body and "write" not in token.scopes:
            counts["403"] += 1
            said = 'Bearer error="insufficient_scope", scope="write"'
            return await Response(status_code=403, headers={"WWW-Authenticate": said})(scope, receive, send)
        sent = False

        async def again() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        return await self._app(scope, again, send)


class Slow:
    """Counts requests for tokens, and holds them up."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/token":
            counts["token"] += 1
            await asyncio.sleep(settings["slow"])
            if settings["broken"]:
                return await Response(status_code=settings["broken"])(scope, receive, send)
        return await self._app(scope, receive, send)


def mcp_server(name: str, path: str) -> Starlette:
    server = MCPServer(name)

    @server.tool()
    def echo(text: str) -> str:
        """Echo."""
        return text

    @server.tool()
    def write(text: str) -> str:
        """Write."""
        return text

    open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(streamable_http_path=path, transport_security=open_to_all)


def main() -> None:
    one, other = mcp_server("one", "/mcp"), mcp_server("other", "/other/mcp")
    options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES)
    own = create_auth_routes(
        provider,  # type: ignore[arg-type]
        AnyHttpUrl(ISSUER),
        client_registration_options=options,
        revocation_options=RevocationOptions(enabled=True),
    )
    routes = [
        Route("/.well-known/oauth-authorization-server{rest:path}", describe_itself),
        *(
            Route(f"{begin}/.well-known/oauth-protected-resource{end}", describe_server)
            for begin in ("", "/elsewhere")
            for end in ("", "/mcp", "/other/mcp")
        ),
        Route("/client.json", describe_client),
        Route("/test/set", change, methods=["POST"]),
        Route("/test/counts", tell),
        *own,
        *one.routes,
        *other.routes,
    ]

    async def lifespan(app: Starlette) -> Any:
        async with one.router.lifespan_context(one), other.router.lifespan_context(other):
            yield

    app: ASGIApp = Starlette(routes=routes, lifespan=lifespan)  # type: ignore[arg-type]
    app = Slow(Guard(Guard(app, "/mcp"), "/other/mcp"))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listener])


if __name__ == "__main__":
    main()

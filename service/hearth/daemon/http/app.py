"""HTTP app that all HTTP connections of a daemon share: the sessions, the routes, and the guard before them."""

import asyncio
import hmac
import importlib
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from starlette.routing import Route, Router

from hearth.daemon.acceptor import STRANGERS_LIMIT
from hearth.daemon.client_connection import COUNTERS
from hearth.daemon.http import admission, http_messages, mcp
from hearth.daemon.http.admission import AuthenticatedConnections, Gates
from hearth.daemon.http.connection import HttpConnection
from hearth.daemon.http.session_store import ClientIdentity, SessionStore
from hearth.daemon.http.sessions import SWEEP_SECONDS, TTL_SECONDS, HttpSessions
from hearth.daemon.http.uvicorn_protocol import load_settings
from hearth.errors import NoRoom, Refused
from hearth.host import process_table
from hearth.host.peers import Peer
from hearth.host.system import user_id
from hearth.hub.events import Subscription
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon
    from hearth.daemon.http.agents import LogStream

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Handler = Callable[["Request"], Awaitable[None]]


# Path prefix of the commands of `ControlApi`.
API = b"/api/v1/"


class Request:
    """HTTP request, with the methods that answer it."""

    def __init__(self, app: "HttpApp", scope: Scope, receive: Receive, send: http_messages.Send) -> None:
        self.app = app
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        self._is_api = self.raw_path.startswith(API)
        self.headers = http_messages.headers_of(scope["headers"])
        self.connection: HttpConnection = scope["state"]["connection"]
        self.receive = receive
        self.send = send
        query: bytes = scope["query_string"]
        self.query = parse_qs(query.decode("latin-1")) if query else {}
        self.server = None
        if "server" in scope.get("path_params", ()):
            # `/mcp/SERVER`, with or without a final slash; slashes in the name may be sent as %2F.
            self.server = unquote(self.raw_path.split(b"/", 2)[2].decode("latin-1").removesuffix("/"))
        # The connection's URL is this request's: no other is read before this one is answered.
        self._proven: tuple[str | None, str | None] = (None, None)
        self.target_host = http_messages.target_host(self.connection.url)

    @property
    def who(self) -> ClientIdentity:
        """The identity of the client."""
        uid = self.connection.peer.uid
        claims = self._claim("role"), self._claim("agent")
        return ClientIdentity(uid, *claims, self.server, self.first("mode"), *self._proven)

    def _claim(self, name: str) -> str | None:
        # With a policy, a URL claims nothing: it is in logs and configs.
        in_query = None if self.app.hub.policy.guard else self.first(name)
        return self.headers.get(f"x-hearth-{name}") or in_query

    def prove_role(self) -> None:
        """Check the token of a role or of an agent, or the claim of a role that needs one. Raises Refused."""
        token = self.headers.get("hearth-role-token")
        origin = self.app.services.policy.origin(self.connection.peer.pid, token)
        self._proven = self.app.hub.policy.admit(self._claim("role"), token, self._claim("agent"), origin)

    def first(self, name: str) -> str | None:
        """Return the first value of a query parameter."""
        return next(iter(self.query.get(name, ())), None)

    async def answer(
        self,
        status: int,
        body: bytes = b"",
        headers: http_messages.Headers = [],  # noqa: B006  # never changed
        kind: bytes = b"application/json",
    ) -> None:
        """Send a complete answer; `kind` is the content type of its body, if it has one."""
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", kind))
        await self.begin(status, fields, body, more=False)

    async def begin(self, status: int, headers: http_messages.Headers, body: bytes, more: bool) -> None:
        """Send the head of the answer and its body, or the first part of the body if there is `more`."""
        with self.connection.one_write():
            await self.send({"type": "http.response.start", "status": status, "headers": headers})
            await self.send_body(body, more)

    async def send_body(self, body: bytes, more: bool) -> None:
        """Send the next part of the body, the last one if there is no `more`."""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def refuse(self, status: int, reason: str, headers: http_messages.Headers = []) -> None:  # noqa: B006
        """Answer with an error and its reason."""
        body = http_messages.api_error(status, reason) if self._is_api else http_messages.reason(reason)
        await self.answer(status, body, headers)

    async def refuse_method(self, *allowed: str) -> None:
        """Refuse a request whose method means nothing at its path."""
        await self.refuse(405, f"{self.method} means nothing here", [(b"allow", ", ".join(allowed).encode())])


class HttpApp:
    """HTTP app of a daemon, created with the first HTTP connection."""

    def __init__(self, services: "Daemon") -> None:
        self.services = services
        self.hub = services.hub
        self.sessions = HttpSessions(
            services.hub,
            lambda: (services.config.max_connections, services.config.outbound_limit),
            services.now,
            SessionStore(services.kept_sessions, TTL_SECONDS),
        )
        self.gates = Gates(services)
        # Connections over TCP that have shown no token yet, the oldest first.
        self.strangers: dict[HttpConnection, None] = {}
        self.guests = AuthenticatedConnections()
        # Streams of `/api/v1/events`, and of logs of agents.
        self.followers: set[Subscription | LogStream] = set()
        # The reason why no further request is taken.
        self.farewell: str | None = None
        # Without the layers of a complete Starlette application, each of which would slow every request. The guard also
        # refuses requests to unknown paths.
        router = Router(self._routes(), redirect_slashes=False, default=_RequestGuard(self, _nothing))
        self._settings = load_settings(router)
        self._sweep()

    def _routes(self) -> list[Route]:
        served: list[tuple[str, Handler]] = [
            ("/mcp", _with_role(mcp.serve)),
            # People write this, too, and a browser follows no redirect of a preflight.
            ("/mcp/", _with_role(mcp.serve)),
            # A name may contain slashes.
            ("/mcp/{server:path}", _with_role(mcp.serve)),
            ("/sse", _only(_with_role(mcp.serve_stream), "GET")),
            ("/messages", _only(_with_role(mcp.serve_message), "POST")),
            ("/healthz", _only(_health, "GET", "HEAD")),
            ("/status", _only(_limited(_status), "GET", "HEAD")),
            ("/metrics", _only(_limited(_loaded("metrics")), "GET", "HEAD")),
            (API.decode() + "{command:path}", _limited(_loaded("api"))),
            ("/hooks/{event}", _loaded("hooks")),
        ]
        return [Route(path, _RequestGuard(self, handler)) for path, handler in served]

    def connect(self, peer: Peer) -> HttpConnection:
        """Return the protocol object for a new connection."""
        return HttpConnection(self, self._settings, peer)

    def connect_port(self, token: str = "") -> HttpConnection:
        """Return the protocol object for a connection over TCP. A client with the endpoint's token is this user."""
        if len(self.strangers) >= STRANGERS_LIMIT:
            COUNTERS.connections_refused += 1
            # Drop a connection, so that others cannot lock out a client with the token.
            self.drop_stranger()
        stranger = HttpConnection(self, self._settings, Peer(None, user_id(), -1), needs_token=True)
        stranger.token = token
        self.strangers[stranger] = None
        return stranger

    def drop_stranger(self) -> None:
        """Drop the unauthenticated connection of the lowest priority, and of several the oldest."""
        dropped = min(self.strangers, key=lambda each: each.claim)
        del self.strangers[dropped]
        dropped.drop()

    def introduced(self, connection: HttpConnection) -> None:
        """Treat a connection over TCP as authenticated, since it has shown the token. Raises NoRoom."""
        if connection.is_stranger:
            self.services.check_room()
            connection.is_stranger = False
            self.strangers.pop(connection, None)
            self.services.welcome(connection)

    def lost(self, connection: HttpConnection) -> None:
        """Remove a connection that has ended."""
        self.strangers.pop(connection, None)
        self.guests.discard(connection)
        self.services.forget(connection)

    def drain(self, reason: str) -> None:
        """Take no further request, and end the streams that would stay open forever."""
        if self.farewell is None:
            self.farewell = reason
            self.sessions.remember()
            for follower in list(self.followers):
                follower.close()
            for each in self.sessions:
                for listen in list(each.session.listens.values()):
                    listen.complete()
                each.sink.end_standing()

    def _sweep(self) -> None:
        # Scheduled first: if this sweep fails, the next may succeed.
        asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
        self.sessions.sweep()


class _RequestGuard:
    """Guard that passes requests to a handler or refuses them. Handlers need not check addresses."""

    def __init__(self, app: HttpApp, handler: Handler) -> None:
        self._app = app
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: http_messages.Send) -> None:
        request = Request(self._app, scope, receive, send)
        config = self._app.services.config
        origin = request.headers.get("origin")
        own = request.connection.own_address
        fault = http_messages.faulty_host(request.headers, scope["http_version"])
        if (host := request.target_host) is not None:
            request.headers["host"] = host
        refusal = http_messages.refused_address(request.headers, config.http_hosts, config.http_origins, own)
        if fault or refusal:
            self._dismiss_stranger(request)
            await request.refuse(400 if fault else 403, fault or refusal or "")
            return
        if scope["http_version"] in _WITHOUT_CHUNKS:
            request.send = request.connection.ended_by_close(send)
        if origin is not None:
            request.send = http_messages.with_headers(request.send, http_messages.shared_with(origin))
        if request.method == "OPTIONS":
            self._dismiss_stranger(request)
            await request.answer(204, b"", http_messages.preflight(request.headers))
        elif request.connection.needs_token and not self._has_token(request):
            request.connection.dismiss()
            where = "the daemon's registry entry has it" if request.connection.token else "`hearth token show`"
            await request.refuse(401, f"the token is missing or wrong: {where}", _WANTS_TOKEN)
        elif self._app.farewell is not None:
            request.connection.dismiss()
            await request.refuse(503, "the daemon is shutting down; ask again", http_messages.RETRY_SOON)
        else:
            await self._let_in(request)

    async def _let_in(self, request: Request) -> None:
        try:
            self._app.introduced(request.connection)
        except NoRoom as exc:
            request.connection.dismiss()
            await request.refuse(503, str(exc), http_messages.RETRY_SOON)
        else:
            await self._handler(request)

    def _dismiss_stranger(self, request: Request) -> None:
        """Close the connection after this answer if it is unauthenticated, whatever the request is."""
        if request.connection.is_stranger:
            request.connection.dismiss()

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = request.connection.token or self._app.guests.token()
        if token is None or not hmac.compare_digest(given.strip().encode(), token.encode()):
            return False
        if scheme.lower() != "bearer":
            return False
        if not request.connection.token:
            self._app.guests.add(request.connection, token)
        return True


_WITHOUT_CHUNKS = ("0.9", "1.0")
_WANTS_TOKEN: http_messages.Headers = [(b"www-authenticate", b'Bearer realm="hearth"')]


async def _nothing(request: Request) -> None:
    await request.refuse(404, "there is nothing at this address; MCP is at /mcp")


async def _health(request: Request) -> None:
    await request.answer(200, b'{"status":"ok"}')


def _only(handler: Handler, *methods: str) -> Handler:
    """Return a handler that accepts only these methods."""

    async def serve(request: Request) -> None:
        if request.method in methods:
            await handler(request)
        else:
            await request.refuse_method(*methods)

    return serve


def _limited(handler: Handler) -> Handler:
    """Return a handler with a rate limit: composing the status takes the loop's time."""

    async def serve(request: Request) -> None:
        try:
            request.app.gates.check_look(request.connection.needs_token)
        except admission.Rejected as exc:
            await mcp.reject(request, exc)
        else:
            await handler(request)

    return serve


async def _status(request: Request) -> None:
    # Not in the loop: the kernel takes milliseconds to measure a large process.
    found = await asyncio.to_thread(process_table.with_memory, request.app.services.status())
    await request.answer(200, json.dumps(found))


def _with_role(handler: Handler) -> Handler:
    """Return a handler of requests whose client has the role that it claims."""

    async def serve(request: Request) -> None:
        try:
            request.prove_role()
        except Refused as exc:
            log.info("a request is refused: %s", exc)
            COUNTERS.connections_refused += 1
            await request.refuse(403, str(exc))
        else:
            await handler(request)

    return serve


def _loaded(name: str) -> Handler:
    """Return the handler of a module that is loaded with the first request to it."""

    async def serve(request: Request) -> None:
        try:
            # The first import takes a moment; other requests are served meanwhile.
            module = await asyncio.to_thread(importlib.import_module, f"hearth.daemon.http.{name}")
        except ImportError:
            log.exception("HTTP endpoint cannot be loaded endpoint=%s", name)
            await request.refuse(500, f"{name} cannot be served; `hearth logs` has why")
            return
        await module.serve(request)

    return serve

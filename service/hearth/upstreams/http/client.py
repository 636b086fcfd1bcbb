"""HTTP client for one server: connections, headers, redirects, and messages for network failures.

Only this module and `client_setup` import httpx, which takes longer to import than everything else that a daemon needs:
nothing imports them before a server with a url is started. Knows nothing of MCP.
"""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import httpx

from hearth.errors import LoginRequired, UpstreamError
from hearth.host import ownership, peers
from hearth.upstreams.http.conversation import ENTRY, ConnectionBroken, Wording, retry_after
from hearth.upstreams.http.credentials import REFUSALS, HeaderSource
from hearth.upstreams.stdio import TURN_MESSAGES, pieces

if TYPE_CHECKING:
    from hearth.upstreams.http.target import SessionTarget

CONNECT_SECONDS = 10.0
# Time for one write to get into the kernel: a server that does not read for so long never will.
WRITE_SECONDS = 60.0
# Idle connections kept for the next request. Servers close theirs after five seconds (uvicorn, Node), and a request
# that is sent at that moment may or may not have been handled: better to be the first to close.
KEPT_CONNECTIONS = 16
KEPT_SECONDS = 4.0
REDIRECTS_LIMIT = 5
# Lines that are read in one turn of the loop: an event of a stream has three or four.
TURN_LINES = 4 * TURN_MESSAGES
# TCP keepalive for a silent peer: after a minute, six probes ten seconds apart. Otherwise a stream whose connection the
# network has dropped would wait forever.
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
# Redirects that keep method and body. The others turn a POST into a GET, or allow it; MCP has no such request.
_REDIRECTS = frozenset({301, 302, 307, 308})
# Permanent redirects; the others hold for one request.
_MOVED = frozenset({301, 308})
# Longest time in all that a server may ask to wait (Retry-After) before its refusal is the answer: clients wait for
# half a minute and more.
LONGEST_WAIT_SECONDS = 20.0
# Shortest wait: a server that says 0 would be asked in a loop.
_SHORTEST_WAIT_SECONDS = 0.5
# How long a target that takes no connection is given to come back before requests fail; after that each request tries
# once. A restart takes seconds, and clients give up their first request after ten.
PATIENCE_SECONDS = 5.0
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.1, 1.0

_CONNECTED = ("connect_unix_socket.complete", "connect_tcp.complete")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
# Both would write every address, and httpcore the headers, into the daemon's log.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class Response:
    """Response whose body has not been read. An async context manager: leaving it releases the connection."""

    def __init__(
        self, client: "HttpClient", inner: httpx.Response, drained: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._client = client
        self._inner = inner
        # Waits until the only reader of what comes has taken it: a server that is not read stops.
        self._drained = drained
        self.status = inner.status_code
        self.content_type = inner.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._inner.aclose()
        except (httpx.HTTPError, OSError):
            pass  # a connection that cannot even be closed is gone

    def header(self, name: str) -> str | None:
        """Return a header's value."""
        found: str | None = self._inner.headers.get(name)
        return found

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, with a turn of the loop for others between pieces of many lines.

        Raises ConnectionBroken.
        """
        try:
            async for chunk in self._inner.aiter_bytes():
                for number, piece in enumerate(pieces(chunk, TURN_LINES)):
                    if number:
                        await asyncio.sleep(0)
                    yield piece
                if self._drained:
                    await self._drained()
        except (httpx.HTTPError, OSError) as exc:
            raise self._client.broken(exc, sent=True) from exc

    async def body(self, limit: int) -> bytes:
        """Return the whole body. Raises ConnectionBroken, and UpstreamError as soon as the body exceeds the limit."""
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > limit:
                raise UpstreamError(
                    f"server {self._client.name!r} sent a message over the limit of {limit} bytes (message_limit)"
                )
        return bytes(found)

    def keep_alive(self) -> None:
        """Enable TCP keepalive, which detects that the peer of a stream has silently disappeared."""
        stream = self._inner.extensions.get("network_stream")
        sock = stream.get_extra_info("socket") if stream else None
        if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        except OSError:
            pass  # the socket is closed already, or the system has no such thing


class DistrustedPeer(httpx.ConnectError):
    """Error for a listener to which nothing is sent."""


class _Request(NamedTuple):
    """Request to send, whatever its address. `HttpClient.send` documents the fields."""

    method: str
    headers: Mapping[str, str]
    body: bytes | None
    may_repeat: bool
    on_sent: Callable[[], None]


class HttpClient:
    """Client of one server, with its connections. `socket_path`: the server is on a Unix socket."""

    def __init__(
        self,
        name: str,
        client: httpx.AsyncClient,
        url: httpx.URL,
        source: HeaderSource | None = None,
        target: "SessionTarget | None" = None,
        socket_path: str | None = None,
    ) -> None:
        self.name = name
        self._httpx = client
        self._url = url
        self._source = source
        self._target = target
        self._socket_path = socket_path
        self._words = target.words if target else ENTRY
        # When the server was first found to take no connection; None while it does.
        self._away_since: float | None = None
        # Whether the last request was refused for want of a login.
        self.needs_login = False

    @property
    def origin(self) -> str:
        """Address of the server for messages, without path and query, which may contain tokens."""
        return _origin(self._url)

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        may_repeat: bool = False,
        *,
        to: str | None = None,
        on_sent: Callable[[], None] = lambda: None,
    ) -> Response:
        """Send one request, to the server's own address or another one of the same origin. Return with its headers.

        Raises ConnectionBroken, LoginRequired, and UpstreamError for a redirect that is not followed. `on_sent` is
        called when the request is completely written.
        An idle connection may end at the moment it is used again: `may_repeat` tells whether the request may then be
        sent twice.
        """
        request = _Request(method, headers, body, may_repeat, on_sent)
        url = self._url.join(to) if to else self._url
        has_moved = to is None
        for _ in range(REDIRECTS_LIMIT):
            inner = await self._send_in_time(request, url)
            if inner.status_code not in _REDIRECTS or "location" not in inner.headers:
                return Response(self, inner, self._target.bridge.drained if self._target else None)
            await inner.aclose()
            url = self._redirected(url, inner.headers["location"])
            # The server of an entry is asked at the new address from then on: frameworks redirect /mcp to /mcp/ by 307,
            # every time. For a target, as HTTP has it.
            has_moved = has_moved and (self._target is None or inner.status_code in _MOVED)
            if has_moved:
                self._url = url
        raise UpstreamError(f"server {self.name!r} redirects for ever: check {self._words.url}")

    async def _send_in_time(self, request: _Request, url: httpx.URL) -> httpx.Response:
        """Send a request, again after a while if the server asks for that: then it did not handle it."""
        waited = 0.0
        while True:
            inner = await self._send_as_somebody(request, url)
            wait = retry_after(inner.status_code, inner.headers, time.time())
            if wait is None or waited + wait > LONGEST_WAIT_SECONDS:
                return inner
            await inner.aclose()
            wait = max(wait, _SHORTEST_WAIT_SECONDS)
            waited += wait
            await asyncio.sleep(wait)

    async def _send_as_somebody(self, request: _Request, url: httpx.URL) -> httpx.Response:
        """Send a request with the server's login, if any. A refused request was not handled, and may be sent again."""
        source = self._source
        if source is None:
            return await self._send_surely(request, url)
        for is_last in (False, True):
            try:
                own = await source.headers()
            except LoginRequired:
                self.needs_login = True
                raise
            inner = await self._send_surely(request._replace(headers={**own, **request.headers}), url)
            if inner.status_code not in REFUSALS:
                source.accepted(own)
                self.needs_login = False
                break
            try:
                asks_again = await source.refused(inner.status_code, inner.headers.get("www-authenticate"), own)
            except BaseException as exc:
                self.needs_login = isinstance(exc, LoginRequired) and inner.status_code == 401
                await inner.aclose()
                raise
            if is_last or not asks_again:
                break
            await inner.aclose()
        return inner

    async def _send_surely(self, request: _Request, url: httpx.URL) -> httpx.Response:
        may_repeat, pause = request.may_repeat, _FIRST_PAUSE_SECONDS
        while True:
            try:
                inner = await self._send_once(request, url)
            except ConnectionBroken as exc:
                if exc.sent and may_repeat:
                    may_repeat = False
                elif exc.is_away and self._is_patient():
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LAST_PAUSE_SECONDS)
                else:
                    raise
            else:
                self._away_since = None
                return inner

    def _is_patient(self) -> bool:
        """Tell whether a target that takes no connection may still come back in time."""
        if self._target is None:
            return False
        self._away_since = self._away_since or time.monotonic()
        return time.monotonic() - self._away_since < PATIENCE_SECONDS

    async def _send_once(self, request: _Request, url: httpx.URL) -> httpx.Response:
        sent = False

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal sent
            if event.endswith("send_request_body.complete"):
                sent = True
                request.on_sent()
            elif event.endswith(_CONNECTED):
                await self._check_peer(info["return_value"])

        # The id of a stream's last event may be any bytes, here as Latin-1; httpx by default accepts ASCII only.
        try:
            fields = httpx.Headers(dict(request.headers), encoding="latin-1")
        except UnicodeError:
            # Without the cause, which shows a part of the header's value.
            raise ConnectionBroken(f"server {self.name!r} {_unsendable(self._words)}", sent=False) from None
        built = self._httpx.build_request(
            request.method, url, headers=fields, content=request.body, extensions={"trace": trace}
        )
        try:
            return await self._httpx.send(built, stream=True)
        except (httpx.HTTPError, OSError) as exc:
            raise self.broken(exc, sent) from exc

    async def _check_peer(self, stream: Any) -> None:
        """Close a new connection to a listener that must not get the request, before anything is sent."""
        sock = stream.get_extra_info("socket")
        flaw = None
        if self._socket_path and (peer := peers.peer_of(sock)):
            flaw = ownership.objection_to_listener(self._socket_path, peer.uid)
        if self._target and self._target.bridge.leads_here(sock.getpeername(), sock.getsockname()):
            flaw = "this is Hearth's own address; leave --to out, or name one of its servers with --server"
        if flaw:
            await stream.aclose()
            raise DistrustedPeer(f"nothing was sent: {flaw}")

    def _redirected(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            found = url.join(location)
        except (httpx.InvalidURL, ValueError):
            raise UpstreamError(f"server {self.name!r} redirects to something that is no address") from None
        if _origin(found) != _origin(url):
            # The headers carry secrets, and they were given for the address in the config.
            raise UpstreamError(
                f"server {self.name!r} redirects to {_origin(found)}, which is not followed:"
                f" put the new address {self._words.place}, if you trust it"
            )
        return found

    def broken(self, exc: Exception, sent: bool) -> ConnectionBroken:
        """Return the error for a network failure."""
        is_away = isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout) and not isinstance(exc, DistrustedPeer)
        reason = cause_of(exc)
        is_away = is_away and _UNTRUSTED not in reason
        sentence = _describe(exc, reason, self.origin, sent, self._words)
        return ConnectionBroken(f"server {self.name!r} {sentence}", sent, is_away)

    def is_own(self, address: str) -> bool:
        """Tell whether an address from the server has the server's own origin, and so may get its headers."""
        try:
            return _origin(self._url.join(address)) == self.origin
        except (httpx.InvalidURL, ValueError):
            return False

    async def close(self) -> None:
        """Close every connection."""
        try:
            await self._httpx.aclose()
        except (httpx.HTTPError, OSError):
            pass


def _origin(url: httpx.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{host}{port}"


def _describe(exc: Exception, reason: str, origin: str, sent: bool, words: Wording) -> str:
    if _UNTRUSTED in reason:
        return (
            f"at {origin} has a certificate that is not trusted ({reason});"
            f" for an authority of your own, set SSL_CERT_FILE in {words.environment}"
        )
    if isinstance(exc, httpx.LocalProtocolError):
        # Its text would show the header's value.
        return _unsendable(words)
    if isinstance(exc, httpx.RemoteProtocolError) and "location header" in reason:
        return "redirects to something that is no address"
    if isinstance(exc, httpx.ProxyError):
        return f"at {origin} cannot be reached through the proxy ({reason}): check HTTP_PROXY and HTTPS_PROXY"
    if isinstance(exc, httpx.ConnectTimeout):
        return f"at {origin} did not take a connection within {CONNECT_SECONDS:g} s: is it running?"
    if not sent or isinstance(exc, httpx.ConnectError):
        return f"at {origin} cannot be reached ({reason}): is it running, and is {words.url} right?"
    return (
        f"at {origin} broke the connection ({reason}) before it answered; what was asked may or may not have been done"
    )


def _unsendable(words: Wording) -> str:
    return f"cannot be asked: {words.header} has a character that HTTP cannot carry"


def cause_of(exc: BaseException) -> str:
    """Return the operating system's own message, from below the exceptions of the layers above."""
    seen = [exc]
    while (cause := seen[-1].__cause__ or seen[-1].__context__) and len(seen) < 10:
        seen.append(cause)
    for found in reversed(seen):
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"{_UNTRUSTED}: {found.verify_message}"
        if isinstance(found, OSError) and found.strerror:
            # asyncio puts the address into the reason; names that do not resolve have codes of their own.
            has_own_codes = isinstance(found, socket.gaierror | ssl.SSLError)
            return found.strerror if has_own_codes or not found.errno else os.strerror(found.errno)
    return next((text for found in seen if (text := str(found).rstrip("."))), type(exc).__name__)

"""HTTP client for one server: connections, headers, redirects, and messages for network failures.

The only module here that knows httpx, which takes longer to import than everything else that a daemon needs: nothing
imports this one before a server with a url is started. Knows nothing of MCP.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

import httpx

from hearth import __version__
from hearth.addresses import UNIX, unix_parts
from hearth.config import ServerSpec
from hearth.errors import LoginRequired, UpstreamError
from hearth.host.posix import ownership, peers
from hearth.upstreams.http.conversation import ConnectionBroken
from hearth.upstreams.http.credentials import REFUSALS, Credentials, credentials_of
from hearth.upstreams.stdio import TURN_MESSAGES, pieces

_CONNECTED = "connection.connect_unix_socket.complete"
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

# Both would write every address, and httpcore the headers, into the daemon's log.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)


class Response:
    """Response whose body has not been read. An async context manager: leaving it releases the connection."""

    def __init__(self, pool: "Pool", inner: httpx.Response) -> None:
        self._pool = pool
        self._inner = inner
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
        except (httpx.HTTPError, OSError) as exc:
            raise self._pool.broken(exc, sent=True) from exc

    async def body(self, limit: int) -> bytes:
        """Return the whole body. Raises ConnectionBroken, and UpstreamError as soon as the body exceeds the limit."""
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > limit:
                raise UpstreamError(
                    f"server {self._pool.name!r} sent a message over the limit of {limit} bytes (message_limit)"
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


class _Request(NamedTuple):
    """Request to send, whatever its address. `Pool.send` documents the fields."""

    method: str
    headers: Mapping[str, str]
    body: bytes | None
    may_repeat: bool
    on_sent: Callable[[], None]


class Pool:
    """Pool of the connections to one server."""

    def __init__(
        self, name: str, client: httpx.AsyncClient, url: httpx.URL, credentials: Credentials | None = None
    ) -> None:
        self.name = name
        self._client = client
        self._url = url
        self._credentials = credentials
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
        for _ in range(REDIRECTS_LIMIT):
            inner = await self._send_as_somebody(request, url)
            if inner.status_code not in _REDIRECTS or "location" not in inner.headers:
                if to is None:
                    self._url = url
                return Response(self, inner)
            await inner.aclose()
            url = self._redirected(url, inner.headers["location"])
        raise UpstreamError(f"server {self.name!r} redirects for ever: check the url of its entry")

    async def _send_as_somebody(self, request: _Request, url: httpx.URL) -> httpx.Response:
        """Send a request with the server's login, if any. A refused request was not handled, and may be sent again."""
        credentials = self._credentials
        if credentials is None:
            return await self._send_surely(request, url)
        for is_last in (False, True):
            value = await self._authorization(credentials)
            signed = request._replace(headers={**request.headers, "Authorization": value}) if value else request
            inner = await self._send_surely(signed, url)
            if inner.status_code not in REFUSALS:
                credentials.accepted(value)
                self.needs_login = False
                break
            try:
                asks_again = await credentials.refused(inner.status_code, inner.headers.get("www-authenticate"), value)
            except BaseException as exc:
                self.needs_login = isinstance(exc, LoginRequired) and inner.status_code == 401
                await inner.aclose()
                raise
            if is_last or not asks_again:
                break
            await inner.aclose()
        return inner

    async def _authorization(self, credentials: Credentials) -> str | None:
        try:
            return await credentials.authorization()
        except LoginRequired:
            self.needs_login = True
            raise

    async def _send_surely(self, request: _Request, url: httpx.URL) -> httpx.Response:
        try:
            return await self._send_once(request, url)
        except ConnectionBroken as exc:
            if not (exc.sent and request.may_repeat):
                raise
        return await self._send_once(request, url)

    async def _send_once(self, request: _Request, url: httpx.URL) -> httpx.Response:
        sent = False

        async def trace(event: str, _: object) -> None:
            nonlocal sent
            if event.endswith("send_request_body.complete"):
                sent = True
                request.on_sent()

        # The id of a stream's last event may be any bytes, here as Latin-1; httpx by default accepts ASCII only.
        fields = httpx.Headers(dict(request.headers), encoding="latin-1")
        built = self._client.build_request(
            request.method, url, headers=fields, content=request.body, extensions={"trace": trace}
        )
        try:
            return await self._client.send(built, stream=True)
        except (httpx.HTTPError, OSError) as exc:
            raise self.broken(exc, sent) from exc

    def _redirected(self, url: httpx.URL, location: str) -> httpx.URL:
        try:
            found = url.join(location)
        except (httpx.InvalidURL, ValueError):
            raise UpstreamError(f"server {self.name!r} redirects to something that is no address") from None
        if _origin(found) != _origin(url):
            # The headers carry secrets, and they were given for the address in the config.
            raise UpstreamError(
                f"server {self.name!r} redirects to {_origin(found)}, which is not followed:"
                " put the new address into its entry, if you trust it"
            )
        return found

    def broken(self, exc: Exception, sent: bool) -> ConnectionBroken:
        """Return the error for a network failure."""
        return ConnectionBroken(f"server {self.name!r} {_describe(exc, self.origin, sent)}", sent)

    def is_own(self, address: str) -> bool:
        """Tell whether an address from the server has the server's own origin, and so may get its headers."""
        try:
            return _origin(self._url.join(address)) == self.origin
        except (httpx.InvalidURL, ValueError):
            return False

    async def close(self) -> None:
        """Close every connection."""
        try:
            await self._client.aclose()
        except (httpx.HTTPError, OSError):
            pass


def _origin(url: httpx.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{host}{port}"


def _describe(exc: Exception, origin: str, sent: bool) -> str:
    reason = cause_of(exc)
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return (
            f"at {origin} has a certificate that is not trusted ({reason});"
            " for an authority of your own, set SSL_CERT_FILE in the daemon's environment"
        )
    if isinstance(exc, httpx.LocalProtocolError):
        # Its text would show the header's value.
        return "cannot be asked: a header of its entry has a character that HTTP cannot carry"
    if isinstance(exc, httpx.RemoteProtocolError) and "location header" in reason:
        return "redirects to something that is no address"
    if isinstance(exc, httpx.ProxyError):
        return f"at {origin} cannot be reached through the proxy ({reason}): check HTTP_PROXY and HTTPS_PROXY"
    if isinstance(exc, httpx.ConnectTimeout):
        return f"at {origin} did not take a connection within {CONNECT_SECONDS:g} s: is it running?"
    if not sent or isinstance(exc, httpx.ConnectError):
        return f"at {origin} cannot be reached ({reason}): is it running, and is the url of its entry right?"
    return (
        f"at {origin} broke the connection ({reason}) before it answered; what was asked may or may not have been done"
    )


def cause_of(exc: BaseException) -> str:
    """Return the operating system's own message, from below the exceptions of the layers above."""
    seen = [exc]
    while (cause := seen[-1].__cause__ or seen[-1].__context__) and len(seen) < 10:
        seen.append(cause)
    for found in reversed(seen):
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"CERTIFICATE_VERIFY_FAILED: {found.verify_message}"
        if isinstance(found, OSError) and found.strerror:
            # asyncio puts the address into the reason; names that do not resolve have codes of their own.
            has_own_codes = isinstance(found, socket.gaierror | ssl.SSLError)
            return found.strerror if has_own_codes or not found.errno else os.strerror(found.errno)
    return next((text for found in seen if (text := str(found).rstrip("."))), type(exc).__name__)


def open_pool(name: str, spec: ServerSpec) -> Pool:
    """Open the pool for a server with a url, its references resolved. Raises UpstreamError.

    Connects to nothing yet, but reads certificates, which takes tens of milliseconds.
    """
    assert spec.url is not None
    transport = None
    address = spec.url
    limits = httpx.Limits(
        max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_SECONDS
    )
    # Where nothing is encrypted, nothing needs to be verified.
    verify = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if address.startswith(UNIX):
        if not hasattr(socket, "AF_UNIX"):
            raise UpstreamError(f"server {name!r} is on a Unix socket, which this system does not have")
        path, request = unix_parts(address)
        transport = SocketTransport(os.path.expanduser(path), verify, limits)
        address = f"http://localhost{request}"
    try:
        url = httpx.URL(address)
        if url.scheme == "https":
            verify = trust()
        client = httpx.AsyncClient(
            headers={"User-Agent": f"hearth/{__version__}", **spec.headers},
            verify=verify,
            limits=limits,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
            transport=transport,
        )
    except (httpx.InvalidURL, ValueError, ImportError, OSError) as exc:
        raise UpstreamError(f"server {name!r} cannot be asked: {_setup_problem(exc)}") from exc
    return Pool(name, client, url, credentials_of(spec))


def trust() -> ssl.SSLContext:
    """Return the SSL context with the trusted certificates.

    SSL_CERT_FILE or SSL_CERT_DIR alone if one of them is set, or else certifi's list and the system's own.
    """
    context = httpx.create_ssl_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_default_certs()
    return context


def _setup_problem(exc: Exception) -> str:
    if isinstance(exc, UnicodeError):
        # Its text would show the header's value.
        return "a header of its entry has a character that HTTP cannot carry"
    if isinstance(exc, ImportError):
        return "a proxy variable names a SOCKS proxy, which needs the package socksio"
    if isinstance(exc, OSError):
        return f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({exc.strerror or exc})"
    if isinstance(exc, httpx.InvalidURL):
        return "the url of its entry is not an address"
    return "a proxy variable in the daemon's environment is not an address"


class SocketTransport(httpx.AsyncHTTPTransport):
    """Transport for one server on a Unix socket; checks the listener before it sends a request."""

    def __init__(self, path: str, verify: ssl.SSLContext, limits: httpx.Limits) -> None:
        super().__init__(uds=path, verify=verify, limits=limits)
        self._path = path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, on a connection whose peer was checked when it was opened."""
        request.extensions = {**request.extensions, "trace": self._check}
        return await super().handle_async_request(request)

    async def _check(self, event: str, info: dict[str, Any]) -> None:
        if event != _CONNECTED:
            return
        stream = info["return_value"]
        flaw = objection(self._path, stream.get_extra_info("socket"))
        if flaw:
            await stream.aclose()
            raise httpx.ConnectError(f"nothing was sent: {flaw}")


def objection(path: str, connected: socket.socket) -> str | None:
    """Return why the listener at the socket is not trusted, as a clause; None if it is."""
    peer = peers.peer_of(connected)
    return ownership.objection_to_listener(path, peer.uid) if peer else None

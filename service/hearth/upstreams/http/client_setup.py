"""Construction of the HTTP client for one server: its proxy, its certificates, its headers. Connects to nothing yet."""

import os
import socket
import ssl
from typing import TYPE_CHECKING

import httpx

from hearth import __version__
from hearth.addresses import UNIX, unix_parts
from hearth.config import ServerSpec
from hearth.errors import UpstreamError
from hearth.upstreams.http.client import CONNECT_SECONDS, KEPT_CONNECTIONS, KEPT_SECONDS, WRITE_SECONDS, HttpClient
from hearth.upstreams.http.conversation import ENTRY, Wording
from hearth.upstreams.http.credentials import header_source

if TYPE_CHECKING:
    from hearth.upstreams.http.target import SessionTarget


def open_client(name: str, spec: ServerSpec, target: "SessionTarget | None" = None) -> HttpClient:
    """Open the client of a server with a url, its references resolved. Raises UpstreamError.

    Connects to nothing yet, but reads certificates, which takes tens of milliseconds.
    """
    assert spec.url is not None
    transport = proxy = socket_path = None
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
        socket_path = os.path.expanduser(path)
        transport = httpx.AsyncHTTPTransport(uds=socket_path, verify=verify, limits=limits)
        address = f"http://localhost{request}"
    words = target.words if target else ENTRY
    try:
        url = httpx.URL(address)
        if url.scheme == "https":
            verify = target.trust() if target else trust()
        if target and transport is None:
            proxy = target.proxy(address)
        headers = httpx.Headers({"User-Agent": f"hearth/{__version__}"})
        # Not by a dict: names of headers are the same in any case, and two of this one must not be sent.
        headers.update(spec.headers)
        client = httpx.AsyncClient(
            headers=headers,
            verify=verify,
            limits=limits,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS),
            transport=transport,
            proxy=proxy,
            trust_env=target is None,
        )
    except (httpx.InvalidURL, ValueError, ImportError, OSError) as exc:
        raise UpstreamError(f"server {name!r} cannot be asked: {_setup_problem(exc, words)}") from exc
    return HttpClient(name, client, url, header_source(spec, target), target, socket_path)


def trust() -> ssl.SSLContext:
    """Return the SSL context with the trusted certificates.

    SSL_CERT_FILE or SSL_CERT_DIR alone if one of them is set, or else certifi's list and the system's own.
    """
    context = httpx.create_ssl_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_default_certs()
    return context


def _setup_problem(exc: Exception, words: Wording) -> str:
    if isinstance(exc, UnicodeError):
        # Its text would show the header's value.
        return f"{words.header} has a character that HTTP cannot carry"
    if isinstance(exc, ImportError):
        return "a proxy variable names a SOCKS proxy, which needs the package socksio"
    if isinstance(exc, OSError):
        return f"the certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read ({exc.strerror or exc})"
    if isinstance(exc, httpx.InvalidURL):
        return f"{words.url} is not an address"
    return f"a proxy variable in {words.environment} is not an address"

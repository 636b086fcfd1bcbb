"""Policy for the addresses that a login may contact: decided by the resolved address, not by the name.

A server's metadata names hosts, and the owner of a name may give it an address of any network (DNS rebinding,
`https://127.0.0.1.nip.io`). Loopback, private and link-local addresses are refused unless the server itself, or the
`oauth.issuer` in the user's config, has an address of the same kind. Names are resolved before a connection is made;
the address of the connection is checked again before anything is sent, as a name may resolve differently a moment
later. With a proxy, the proxy resolves names, and nothing can be checked here.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx

from hearth.config import ServerSpec
from hearth.errors import LoginFailed

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Kind = Literal["public", "loopback", "link-local", "private"]
Resolver = Callable[[str], Awaitable[list[str]]]

# RFC 6052: an IPv4 address behind a translator.
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
# RFC 6598: shared by providers and by overlay networks; `ipaddress` calls it neither private nor global.
_SHARED = ipaddress.ip_network("100.64.0.0/10")


def kind_of(text: str) -> Kind:
    """Classify an address. An IPv4 address inside an IPv6 one counts as itself."""
    address = _unwrapped(ipaddress.ip_address(text.partition("%")[0]))
    # Unspecified: a connection to it reaches this machine.
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    is_shared = isinstance(address, ipaddress.IPv4Address) and address in _SHARED
    return "private" if address.is_private or is_shared or not address.is_global else "public"


def _unwrapped(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


async def resolve(host: str) -> list[str]:
    """Resolve a host; return no addresses on failure, which the connection will report."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


class AddressPolicy:
    """Policy for the addresses of one server's login. `trusted` are the addresses in the user's config."""

    def __init__(self, trusted: Iterable[str], resolver: Resolver = resolve) -> None:
        self._trusted = {host for url in trusted if (host := _host(url))}
        self._resolve = resolver
        self._allowed: set[Kind] | None = None

    @classmethod
    def of(cls, spec: ServerSpec) -> "AddressPolicy":
        """Return the policy for a server whose references are resolved."""
        return cls([url for url in (spec.url, spec.oauth.issuer) if url])

    async def check(self, url: str) -> None:
        """Resolve the host of a url and check its addresses. Raises LoginFailed."""
        host = _host(url)
        if host not in self._trusted:
            for address in await self._resolve(host):
                await self._check_address(host, address)

    async def _check_address(self, host: str, address: str) -> None:
        if self._allowed is None:
            own = [each for name in self._trusted for each in await self._resolve(name)]
            self._allowed = {"public", *map(kind_of, own)}
        kind = kind_of(address)
        if kind not in self._allowed:
            raise LoginFailed(
                f"it names {host} for its login, which leads to {address}, a {kind} address, and the server itself is"
                " at none; if that is right, set `oauth.issuer` of its entry to the authorization server's address"
            )

    async def guard(self, request: httpx.Request) -> None:
        """Check the connection of a request before anything is sent on it; a hook of httpx."""
        host = request.url.raw_host.decode("ascii")
        is_direct = False

        async def trace(event: str, info: dict[str, Any]) -> None:
            nonlocal is_direct
            if event == "connection.connect_tcp.started":
                # Any other host is a proxy.
                is_direct = str(info["host"]) == host and host not in self._trusted
                if is_direct:
                    await self.check(str(request.url))
            elif event == "connection.connect_tcp.complete" and is_direct:
                await self._check_stream(host, info["return_value"])

        request.extensions = {**request.extensions, "trace": trace}

    async def _check_stream(self, host: str, stream: Any) -> None:
        peer = stream.get_extra_info("server_addr")
        try:
            await self._check_address(host, str(peer[0]))
        except LoginFailed:
            await stream.aclose()
            raise


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""

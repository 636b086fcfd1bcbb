"""Metadata of a server and its authorization server: location, content and validation, and the addresses in it.

Covers the WWW-Authenticate of a refusal (RFC 9110 11.6.1, RFC 6750 3, RFC 9728 5.1), RFC 9728 for the server, RFC 8414
and OpenID Connect Discovery for the authorization server. Sends nothing; `AddressPolicy` looks names up.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from hearth.addresses import host_of
from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.records import Record

if TYPE_CHECKING:
    import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Kind = Literal["public", "loopback", "link-local", "private"]
Resolver = Callable[[str], Awaitable[list[str]]]

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
# Authorization servers of one resource. A few leave a choice open; more than this are a mistake.
_SERVERS_LIMIT = 20
# Ways in which a client sends its secret, the preferred one first: servers on the Python SDK accept the second for
# tokens, but not for revocation.
SECRET_METHODS = ("client_secret_post", "client_secret_basic")
# Longer than any server's header; the rest is ignored.
HEADER_LIMIT_CHARACTERS = 8192

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))')
_WORD = re.compile(rf"({_TOKEN})")
_QUOTED = re.compile(r"\\(.)")
# RFC 6749 3.3: everything visible but quotes and backslashes.
_SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]+")
_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,60}", re.IGNORECASE)
# RFC 6052: an IPv4 address behind a translator.
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
# RFC 6598: shared by providers and by overlay networks; `ipaddress` calls it neither private nor global.
_SHARED = ipaddress.ip_network("100.64.0.0/10")


class Challenge(NamedTuple):
    """Challenge of a server. `schemes` are in lower case; the other fields are those of the first `Bearer`."""

    schemes: frozenset[str] = frozenset()
    resource_metadata: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def is_for_tokens(self) -> bool:
        """True if a token may help: the header says so, or says nothing."""
        return not self.schemes or "bearer" in self.schemes


def parse_challenge(header: str | None) -> Challenge:
    """Parse the header as far as possible; commas may join several challenges."""
    schemes: set[str] = set()
    bearer: dict[str, str] = {}
    current: dict[str, str] = {}
    text, position = (header or "")[:HEADER_LIMIT_CHARACTERS], 0
    while position < len(text):
        if found := _PARAMETER.match(text, position):
            name, quoted, plain = found.groups()
            current.setdefault(name.lower(), plain if quoted is None else _QUOTED.sub(r"\1", quoted))
        elif found := _WORD.match(text, position):
            scheme = found[1].lower()
            current = bearer if scheme == "bearer" and scheme not in schemes else {}
            schemes.add(scheme)
        position = found.end() if found else position + 1
    return Challenge(
        frozenset(schemes),
        bearer.get("resource_metadata") or None,
        parse_scopes(bearer.get("scope")),
        bearer.get("error"),
    )


def parse_scopes(text: object) -> tuple[str, ...]:
    """Return the scopes in a text, each once, in their order; none if the value is no text."""
    if not isinstance(text, str):
        return ()
    return tuple(dict.fromkeys(word for word in text.split() if _SCOPE.fullmatch(word)))


def error_code(found: object) -> str:
    """Return an error code of OAuth; an empty text for a value that is none, and may be anything."""
    return found if isinstance(found, str) and _ERROR_CODE.fullmatch(found) else ""


class Resource(Record):
    """Resource metadata of a server. `scopes` is None if the server does not list any."""

    resource: str
    servers: tuple[str, ...]
    scopes: tuple[str, ...] | None = None


class Authority(Record):
    """Authorization server. `names_itself`: whether it puts its issuer into its responses (RFC 9207)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] | None = None
    takes_documents: bool = False
    names_itself: bool = False


def is_loopback(url: str) -> bool:
    """Tell whether the address is on this machine."""
    return bool(_LOOPBACK.fullmatch(host_of(url)))


def is_safe(url: object, near: bool) -> bool:
    """Tell whether a token or a code may be sent to an address.

    The address must be encrypted, or on this machine if the server itself is (`near`): a remote server that names an
    address of this machine could make Hearth send requests to any local listener.
    """
    if not isinstance(url, str) or not host_of(url) or any(character <= " " for character in url):
        return False
    scheme = urlsplit(url).scheme
    return scheme == "https" if not is_loopback(url) else near and scheme in ("http", "https")


def canonical(url: str) -> str:
    """Return the server's address as a resource: without query and fragment, scheme and host in lower case."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower(), path, "", ""))


def origin(url: str) -> str:
    """Return scheme, host and port."""
    parts = urlsplit(canonical(url))
    return f"{parts.scheme}://{parts.netloc}"


# --- the server


def resource_places(url: str) -> list[str]:
    """Return the well-known addresses of a server's metadata, for a server that names no address."""
    parts = urlsplit(canonical(url))
    at_root = _placed(parts, _RESOURCE)
    return [_placed(parts, _RESOURCE + parts.path), at_root] if parts.path else [at_root]


def read_resource(document: dict[str, Any], url: str, near: bool) -> Resource:
    """Parse resource metadata. Raises LoginFailed if it does not belong to the server at that url."""
    resource = document.get("resource")
    if not isinstance(resource, str) or not _is_of(resource, canonical(url)):
        raise LoginFailed(
            f"it describes itself as {_shown(resource)}, which is not {canonical(url)}; its tokens would be for another"
        )
    servers = document.get("authorization_servers")
    named = [issuer for issuer in servers if is_safe(issuer, near)] if isinstance(servers, list) else []
    if not named:
        raise LoginFailed("it names no authorization server that is reached by https")
    listed = document.get("scopes_supported")
    return Resource(
        resource=resource,
        servers=tuple(named[:_SERVERS_LIMIT]),
        scopes=_texts(listed) if isinstance(listed, list) else None,
    )


def _is_of(resource: str, url: str) -> bool:
    """Tell whether the resource is that address, or a path prefix of it on the same origin."""
    try:
        found, wanted = urlsplit(canonical(resource)), urlsplit(url)
    except ValueError:
        return False
    if urlsplit(resource).fragment or (found.scheme, found.netloc) != (wanted.scheme, wanted.netloc):
        return False
    return wanted.path == found.path or (wanted.path + "/").startswith(found.path.rstrip("/") + "/")


# --- the authorization server


def authority_places(issuer: str) -> list[str]:
    """Return the addresses of an authorization server's metadata, in the order of the specification."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    if not path:
        return [_placed(parts, _OAUTH), _placed(parts, _OPENID)]
    return [_placed(parts, _OAUTH + path), _placed(parts, _OPENID + path), _placed(parts, path + _OPENID)]


def read_authority(document: dict[str, Any], issuer: str, near: bool) -> Authority:
    """Parse the metadata of an authorization server.

    Raises LoginFailed if it belongs to another issuer, or if the server lacks what MCP demands.
    """
    if document.get("issuer") != issuer:
        # RFC 8414 3.3: the issuer must match exactly, or one server could impersonate another.
        raise LoginFailed(
            f"the authorization server {issuer} calls itself {_shown(document.get('issuer'))}, and is not believed"
        )
    methods = document.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or "S256" not in methods:
        raise LoginFailed(f"the authorization server {issuer} does not offer PKCE with S256, which MCP demands")
    for name in ("authorization_endpoint", "token_endpoint"):
        if not is_safe(document.get(name), near):
            raise LoginFailed(f"the authorization server {issuer} has no {name} that is reached by https")
    optional = {
        name: document[name]
        for name in ("registration_endpoint", "revocation_endpoint")
        if is_safe(document.get(name), near)
    }
    offered = document.get("token_endpoint_auth_methods_supported")
    return Authority(
        issuer=issuer,
        authorization_endpoint=document["authorization_endpoint"],
        token_endpoint=document["token_endpoint"],
        scopes=_texts(document.get("scopes_supported")),
        methods=_texts(offered) if isinstance(offered, list) else None,
        takes_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        **optional,
    )


def _placed(parts: SplitResult, path: str) -> str:
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def _texts(found: object) -> tuple[str, ...]:
    return parse_scopes(" ".join(text for text in found if isinstance(text, str))) if isinstance(found, list) else ()


def _shown(found: object) -> str:
    """Quote a foreign value, shortened for a message."""
    return repr(found[:100]) if isinstance(found, str) else "nothing"


# --- addresses


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
    """Policy for the addresses that a login may contact: decided by the resolved address, not by the name.

    A server's metadata names hosts, and the owner of a name may give it an address of any network (DNS rebinding,
    `https://127.0.0.1.nip.io`). Loopback, private and link-local addresses are refused unless the server itself, or the
    `oauth.issuer` in the user's config, has an address of the same kind (`trusted` are these two). Names are resolved
    before a connection is made; the address of the connection is checked again before anything is sent, as a name may
    resolve differently a moment later. With a proxy, the proxy resolves names, and nothing can be checked here.
    """

    def __init__(self, trusted: Iterable[str], resolver: Resolver = resolve) -> None:
        self._trusted = {host for url in trusted if (host := host_of(url))}
        self._resolve = resolver
        self._allowed: set[Kind] | None = None

    @classmethod
    def of(cls, spec: ServerSpec) -> "AddressPolicy":
        """Return the policy for a server whose references are resolved."""
        return cls([url for url in (spec.url, spec.oauth.issuer) if url])

    async def check(self, url: str) -> None:
        """Resolve the host of a url and check its addresses. Raises LoginFailed."""
        host = host_of(url)
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

    async def guard(self, request: "httpx.Request") -> None:
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
                stream = info["return_value"]
                try:
                    await self._check_address(host, str(stream.get_extra_info("server_addr")[0]))
                except LoginFailed:
                    await stream.aclose()
                    raise

        request.extensions = {**request.extensions, "trace": trace}

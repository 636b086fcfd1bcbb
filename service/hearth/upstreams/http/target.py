"""Target of one session: the server that `hearth bridge --to URL` names, reached as if from the bridge.

The bridge sends the address, its headers and its proxy and certificate variables with `hello`. The daemon's own
environment does not count for a target. Nothing here is stored, and no header value is logged or shown. Importing this
module loads no HTTP library.
"""

import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from hearth.addresses import UNIX, fault, unix_parts
from hearth.config import ServerSpec
from hearth.errors import Refused, UpstreamError, WireError
from hearth.host.sockets import is_loopback
from hearth.masking import Mask
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.http.connection import HttpUpstreamConnection
from hearth.upstreams.http.conversation import Wording
from hearth.upstreams.transports import ConnectionLimits
from hearth.wire import json

# Servers take 8 to 16 KiB of headers, their own ones included.
HEADERS_LIMIT_BYTES = 16 * 1024
# One message of `hello`; the rest of it has a few short values.
PAYLOAD_LIMIT_BYTES = 64 * 1024
# Kept for the mask: a server may repeat a value that was replaced a moment ago.
_VALUES_KEPT = 4
_SENTENCE_LIMIT_CHARACTERS = 2000
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


class TargetBridge(Protocol):
    """Bridge that named the target, as far as the connection to it needs the bridge."""

    def leads_here(self, peer: object, local: object) -> bool:
        """Tell whether a connection between these addresses ends at this daemon."""

    async def ask_headers(self) -> list[tuple[str, str]]:
        """Return the headers with their references resolved in the bridge's environment. Raises UpstreamError."""

    # Waits until the client has read what was sent to it.
    drained: Callable[[], Awaitable[None]]


class HeaderMask(Mask):
    """Mask of the header values of one target; it grows when the bridge sends others."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: list[Mask] = []

    def hide(self, values: Iterable[str]) -> None:
        """Hide these values, too; a token also without the scheme before it."""
        secrets = [part for value in values for part in (value, value.partition(" ")[2]) if part]
        # The first stays: it has the passwords of proxies, which no lookup brings again.
        self._masks = [*self._masks[:1], *self._masks[1:][1 - _VALUES_KEPT :], Mask(secrets)]

    def __call__(self, text: str) -> str:
        """Return the text with asterisks in place of each value."""
        for mask in self._masks:
            text = mask(text)
        return text


class SessionTarget(NamedTuple):
    """Target of a session. `entries` returns the config's servers: one with the same address has its login."""

    bridge: TargetBridge
    environ: Mapping[str, str]
    # Names of all headers that the bridge was given, in lower case, and whether it has to resolve their values.
    header_names: frozenset[str]
    has_references: bool
    entries: Callable[[], Iterable[ServerSpec]]
    mask: HeaderMask
    words: Wording

    def connect(self, spec: ServerSpec, owner: Owner, limits: ConnectionLimits) -> Connection:
        """Return a connection to the target, not open yet."""
        connection = HttpUpstreamConnection(spec.name, owner, spec, limits[:2], self)
        connection.mask = self.mask
        connection.list_limits = limits.lists
        return connection

    def proxy(self, url: str) -> str | None:
        """Return the proxy on the way to an address, by the bridge's variables; None if there is none."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if is_loopback(host):
            return None
        value = self.environ.get(f"{parts.scheme}_proxy") or self.environ.get("all_proxy")
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        entries = self.environ.get("no_proxy", "").split(",")
        if not value or any(_leads_past(entry.strip(), parts.scheme, host, port) for entry in entries):
            return None
        return value if "://" in value else f"http://{value}"

    def trust(self) -> ssl.SSLContext:
        """Return the SSL context with the certificates that the bridge's variables name, or the usual ones."""
        file, folder = self.environ.get("ssl_cert_file"), self.environ.get("ssl_cert_dir")
        if file or folder:
            return ssl.create_default_context(cafile=file, capath=None if file else folder)
        import certifi

        context = ssl.create_default_context(cafile=certifi.where())
        # Not load_default_certs(), in which OpenSSL looks at the daemon's own variables.
        usual = ssl.get_default_verify_paths()
        for name, path in (("cafile", usual.openssl_cafile), ("capath", usual.openssl_capath)):
            try:
                context.load_verify_locations(**{name: path})
            except OSError:
                pass  # the system has none there
        return context


def read(
    payload: bytes, bridge: TargetBridge, entries: Callable[[], Iterable[ServerSpec]]
) -> tuple[ServerSpec, SessionTarget]:
    """Return the entry and the settings of a target, from the payload of `hello`. Raises Refused."""
    if len(payload) > PAYLOAD_LIMIT_BYTES:
        raise Refused(f"the settings of --to are over the limit of {PAYLOAD_LIMIT_BYTES} bytes")
    try:
        fields = json.loads(payload)
        url, headers = str(fields["url"]), read_headers(fields["headers"])
        given = {str(name).lower(): str(value) for name, value in fields.get("environ", {}).items()}
        environ = {name: given[name] for name in VARIABLES if given.get(name)}
        has_references = fields.get("references") is True
    except (WireError, AttributeError, KeyError, TypeError, ValueError):
        # Without the cause, which may show a header's value.
        raise Refused("hello has settings for --to that cannot be read; restart the older of the two") from None
    phrase = "takes no references" if "${" in url else fault(url)
    if phrase:
        raise Refused(f"--to {phrase}")
    name = target_name(url)
    mask = HeaderMask()
    mask.hide([*(value for _, value in headers), *(_password(environ[key]) for key in VARIABLES[:3] if key in environ)])
    names = frozenset(key.lower() for key, _ in headers)
    target = SessionTarget(bridge, environ, names, has_references, entries, mask, _words(url))
    spec = ServerSpec(name=name, url=url, headers={} if has_references else dict(headers), isolation="session")
    return spec, target


def read_headers(pairs: Any) -> list[tuple[str, str]]:
    """Return headers from their JSON form. Raises Refused, TypeError, ValueError."""
    found = [(str(name), str(value)) for name, value in pairs]
    if sum(len(name) + len(value) for name, value in found) > HEADERS_LIMIT_BYTES:
        raise Refused(f"the headers of --header are over the limit of {HEADERS_LIMIT_BYTES} bytes in all")
    return found


def read_answer(payload: bytes) -> list[tuple[str, str]]:
    """Return the headers from a bridge's answer to `headersWanted`. Raises UpstreamError."""
    try:
        fields = json.loads(payload) if len(payload) <= PAYLOAD_LIMIT_BYTES else {}
        if "error" not in fields:
            return read_headers(fields["headers"])
        sentence = str(fields["error"])[:_SENTENCE_LIMIT_CHARACTERS]
    except Refused as exc:
        sentence = str(exc)
    except (WireError, AttributeError, KeyError, TypeError, ValueError):
        sentence = "the bridge resolved its headers to something that cannot be read"
    raise UpstreamError(sentence)


def target_name(url: str) -> str:
    """Return the name of a target for policy, audit and messages: `to:HOST`, or `to:unix:PATH` for a socket."""
    if url.startswith(UNIX):
        return f"to:{UNIX}{unix_parts(url)[0]}"
    try:
        host = urlsplit(url).hostname
    except ValueError:
        host = None
    if not host:
        raise Refused("--to has no host that could be connected to")
    return f"to:{host.lower()}"


def _words(url: str) -> Wording:
    advice = "give it --header 'Authorization: Bearer ${keyring:NAME}'"
    if urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        from hearth.secrets import http_token

        advice += f"; if it is a port of Hearth, --header 'Authorization: Bearer ${{file:{http_token.path()}}}'"
    elif not url.startswith(UNIX):
        advice += ", or log in: `hearth add NAME --url URL`, then `hearth auth login NAME`"
    return Wording(
        identity=advice,
        headers="--header",
        header="a header given by --header",
        address="the address after --to",
        url="the address after --to",
        place="after --to",
        pace="wait a moment",
        environment="the bridge's environment",
    )


def _password(proxy: str) -> str:
    return proxy.rpartition("@")[0].rpartition("://")[2].partition(":")[2]


def _leads_past(entry: str, scheme: str, own: str, own_port: int) -> bool:
    """Tell whether an entry of NO_PROXY names a server: `*`, HOST, .DOMAIN or an address, perhaps with port, scheme."""
    wanted, _, rest = entry.lower().rpartition("://")
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
    else:
        host, port = (rest, "") if rest.count(":") != 1 else (rest.partition(":")[0], rest[rest.find(":") :])
    if not host or wanted not in ("", "all", scheme) or port not in ("", f":{own_port}"):
        return False
    host = host.removeprefix("*")
    return own.endswith(host) if host[:1] in ("", ".") else own == host or own.endswith(f".{host}")

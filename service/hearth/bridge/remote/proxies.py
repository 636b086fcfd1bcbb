"""The proxy between the bridge and its server: which one the environment names, and the way through it.

As for the daemon's upstreams, which leave it to httpx; but nothing goes through a proxy to this machine itself, where
it would be looked for on the proxy's own. The caller has the connection to the proxy, and closes it.
"""

from hearth.bridge.remote import http1
from hearth.bridge.remote.target import BadTarget, host_and_port
from hearth.errors import WireError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping

    from hearth.bridge.remote.target import Target

_READ_BYTES = 4096


def find(target: "Target", environ: "Mapping[str, str]") -> "Proxy | None":
    """The proxy on the way to a server; None where there is none."""
    if target.is_loopback:
        return None
    value = _variable(environ, f"{target.scheme}_proxy") or _variable(environ, "all_proxy")
    if not value or any(_leads_past(entry.strip(), target) for entry in _variable(environ, "no_proxy").split(",")):
        return None
    return Proxy(value)


def _variable(environ: "Mapping[str, str]", name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _leads_past(entry: str, target: "Target") -> bool:
    """Whether NO_PROXY means that server by `*`, HOST, .DOMAIN or an address, with a port and a scheme or without."""
    scheme, _, rest = entry.lower().rpartition("://")
    if rest.startswith("["):
        host, _, port = rest[1:].partition("]")
    else:
        host, port = (rest, "") if rest.count(":") != 1 else (rest.partition(":")[0], rest[rest.find(":") :])
    if not host or scheme not in ("", "all", target.scheme) or port not in ("", f":{target.port}"):
        return False
    own, host = target.host.lower(), host.removeprefix("*")
    return own.endswith(host) if host[:1] in ("", ".") else own == host or own.endswith(f".{host}")


class Proxy:
    """One proxy. `problem`: why it cannot be used, in a sentence. What is shown of it has no password."""

    def __init__(self, address: str) -> None:
        scheme, separator, rest = address.partition("://")
        if not separator:
            scheme, rest = "http", address
        end = min((found for found in map(rest.find, "/?#") if found >= 0), default=len(rest))
        user, has_user, authority = rest[:end].rpartition("@")
        self.problem: str | None = None
        self.host, self.port = "", 0
        try:
            self.host, port = host_and_port(authority)
            self.port = port or 80
        except BadTarget as exc:
            self.problem = f"a proxy variable in the bridge's environment {exc}"
        if scheme.lower() != "http":
            self.problem = (
                "the bridge's environment names a proxy whose address does not begin with http://, and a bridge can use"
                " no other; put the server into Hearth's config, or its host into NO_PROXY"
            )
        self.shown = f"http://{self.host}:{self.port}"
        # What goes with a plain request, or with the one that opens a tunnel.
        self.headers = {"Proxy-Authorization": f"Basic {_base64(user)}"} if has_user else {}

    def open_tunnel(self, sock: "socket", target: "Target") -> None:
        """Have it connect to the server. Raises OSError with what it says."""
        name = f"[{target.host}]" if ":" in target.host else target.host
        where = f"{name}:{target.port}"
        asked = memoryview(http1.request("CONNECT", where, [("Host", where), *self.headers.items()], b""))
        while asked:
            asked = asked[sock.send(asked) :]
        parser = http1.ResponseParser()
        try:
            while parser.head is None:
                data = sock.recv(_READ_BYTES)
                if not data:
                    raise OSError(0, f"the proxy {self.shown} closed the connection")
                parser.receive_data(data)
        except WireError as exc:
            raise OSError(0, f"the proxy {self.shown}: {exc}") from exc
        status = parser.head.status
        if not 200 <= status < 300:
            advice = ": put a user and a password into HTTPS_PROXY" if status == 407 else ""
            raise OSError(0, f"the proxy {self.shown} answered HTTP {status}{advice}")


def _base64(user: str) -> str:
    from binascii import b2a_base64
    from urllib.parse import unquote_to_bytes

    words = unquote_to_bytes(user.encode("utf-8", "surrogateescape"))
    return b2a_base64(words if b":" in words else words + b":", newline=False).decode("ascii")

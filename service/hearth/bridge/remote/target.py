"""Where `--to` leads: an http or https address, or HTTP on a Unix socket. Pure."""

from hearth import addresses

_PORTS = {"http": 80, "https": 443}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What may stand in a request's first line as it is; the rest is percent-encoded.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?[]@!$&'()*+,;=%")


class BadTarget(ValueError):
    """An address that leads nowhere; the message is a phrase that follows `--to`."""


class Target:
    """The server's address, in the parts that connecting and asking need."""

    __slots__ = ("authority", "host", "is_loopback", "path", "port", "scheme", "shown", "socket", "url")

    def __init__(self, url: str, home: str) -> None:
        """Take an address apart; `home` is what `~` stands for. Raises BadTarget."""
        if "${" in url:
            raise BadTarget("takes no references; --header does")
        phrase = addresses.fault(url)
        if phrase:
            raise BadTarget(f"{phrase}: http://HOST/PATH, https://HOST/PATH or unix:/PATH/OF/SOCKET[:/REQUEST]")
        self.url = url
        self.socket: str | None = None
        if url.startswith(addresses.UNIX):
            self._take_socket(url, home)
        else:
            self._take_url(url)

    def _take_socket(self, url: str, home: str) -> None:
        path, request = addresses.unix_parts(url)
        self.socket = home + path[1:] if path.startswith("~/") else path
        self.scheme, self.host, self.port, self.authority = "http", "localhost", 0, "localhost"
        self.is_loopback = True
        self.path = request_path(request)
        self.shown = f"unix:{self.socket}"

    def _take_url(self, url: str) -> None:
        scheme, _, rest = url.partition("://")
        self.scheme = scheme.lower()
        end = min((found for found in map(rest.find, "/?#") if found >= 0), default=len(rest))
        authority, path = rest[:end], rest[end:]
        if "@" in authority:
            raise BadTarget("has a user or a password in it; use --header 'Authorization: …'")
        self.host, port = host_and_port(authority)
        self.port = port or _PORTS[self.scheme]
        name = f"[{self.host}]" if ":" in self.host else self.host
        self.authority = f"{name}:{port}" if port and port != _PORTS[self.scheme] else name
        self.is_loopback = self.host.lower() in _LOOPBACK or self.host.startswith("127.")
        self.path = request_path(path)
        # Paths and queries carry keys.
        self.shown = f"{self.scheme}://{self.authority}"

    def redirected(self, location: str, path: str) -> str | None:
        """What a redirect of that path leads to; None if it is somebody else, who must not get our headers."""
        if _is_path(location):
            from urllib.parse import urljoin  # seldom needed

            return request_path(urljoin(path.partition("?")[0], location))
        if self.socket is None and "://" in location:
            try:
                other = Target(location, "")
            except BadTarget:
                return None
            if (other.scheme, other.host.lower(), other.port) == (self.scheme, self.host.lower(), self.port):
                return other.path
        return None


def _is_path(location: str) -> bool:
    """Whether it names no server (RFC 3986, 4.2): no scheme before its first slash, which is a single one."""
    end = min((found for found in map(location.find, "/?#") if found >= 0), default=len(location))
    return ":" not in location[:end] and not location.startswith("//")


def request_path(written: str) -> str:
    """Path and query as they go into a request: without a fragment, in ASCII."""
    path = written.partition("#")[0]
    if not path.startswith("/"):
        path = "/" + path
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogateescape"))


def host_and_port(authority: str) -> tuple[str, int | None]:
    """The host and the port, if there is one, of an address. Raises BadTarget."""
    if authority.startswith("["):
        host, closed, rest = authority[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise BadTarget("has a host in brackets that do not end")
    else:
        host, colon, port = authority.rpartition(":")
        host, rest = (host, ":" + port) if colon else (authority, "")
    if not host or " " in host or ("[" in host) or (":" in host and not authority.startswith("[")):
        raise BadTarget("has no host that could be connected to")
    digits = rest[1:]
    if digits and not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65536):
        raise BadTarget(f"has the port {digits!r}, which is none")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError as exc:
            raise BadTarget("has a host that is no name") from exc
    return host, int(digits) if digits else None

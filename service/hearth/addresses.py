"""Addresses of servers that are not started by a command: the forms of `url`. Pure.

http://HOST/…   https://HOST/…
unix:/PATH/OF/SOCKET              HTTP over a Unix socket; the request goes to DEFAULT_REQUEST_PATH
unix:/PATH/OF/SOCKET:/REQUEST     the same with a request path of its own, and its query if it has one
"""

UNIX = "unix:"
# The usual request path of MCP servers, this daemon included.
DEFAULT_REQUEST_PATH = "/mcp"


def fault(url: str) -> str | None:
    """Return why the address is unusable, as a phrase to follow the key's name; None if it is usable.

    A reference may replace a host or the beginning of a socket's path.
    """
    if any(character < " " or character == "\x7f" for character in url):
        return "has a line end or another control character in it"
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() in ("http", "https"):
        return "has no host" if rest[:1] in ("", "/", "?", "#", ":") else None
    if not url.startswith(UNIX):
        return "must begin with http://, https:// or unix:/"
    path = unix_parts(url)[0]
    # Two slashes would start a host.
    if not path.startswith(("/", "~/", "${")) or path.startswith("//") or path.endswith("/"):
        return "must give the whole path of the socket, as in unix:/run/user/1000/name.sock"
    return None


def host_of(url: str) -> str:
    """Return the host of a web address, in lower case and without brackets; empty if there is none."""
    from urllib.parse import urlsplit

    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def unix_parts(url: str) -> tuple[str, str]:
    """Return the socket's path and the request's path of an address that begins with `unix:`."""
    rest = url.removeprefix(UNIX)
    # Some programs write the address with an empty host.
    rest = rest.removeprefix("//") if rest.startswith("///") else rest
    # A reference is skipped: `${SOCKET:-/run/x.sock}` has a colon of its own, though never directly before a slash.
    closing = rest.rfind("}") + 1
    socket, colon, request = rest[closing:].partition(":/")
    return rest[:closing] + socket, "/" + request if colon else DEFAULT_REQUEST_PATH

"""What can go wrong over HTTP: a broken connection, and a status that is no success, in sentences that say what to do.

Pure. Knows neither sockets nor MCP beyond what a server's entry in the config may have.
"""

from hearth.errors import UpstreamError

# These say nothing about what the server speaks: it did not look at the message.
_ABOUT_THE_CALLER = frozenset({401, 403, 407, 408, 425, 429})

_WHAT_TO_DO = {
    401: "it wants to know who asks, and not by a login; give it an Authorization in `headers` of its entry",
    403: "it does not let this caller in; check `headers` of its entry, and what they allow",
    407: "the proxy wants to know who asks; put a user and a password into HTTP_PROXY or HTTPS_PROXY",
    408: "it waited too long for the request",
    413: "the message is too large for it",
    429: "it has had too many requests; wait, or lower max_concurrency of its entry",
    500: "it failed by itself; look at its own log",
    502: "whatever stands before it cannot reach it",
    503: "it is not available at the moment",
    504: "whatever stands before it waited too long for it",
}
_ELSEWHERE = "it takes no MCP at this address; check `url` and `transport` of its entry"


class Broken(UpstreamError):
    """The connection failed. `sent`: after all of the request had been written, so that the server may have it."""

    def __init__(self, sentence: str, sent: bool) -> None:
        super().__init__(sentence)
        self.sent = sent


def is_about_the_message(status: int) -> bool:
    """Whether the status refuses the message itself, rather than its sender, its moment or everything."""
    return 400 <= status < 500 and status not in _ABOUT_THE_CALLER


def refused(name: str, status: int) -> UpstreamError:
    """The error for a status. What the body said stays out of it: it could be anything, and errors are logged."""
    default = _WHAT_TO_DO[500] if status >= 500 else _ELSEWHERE
    return UpstreamError(f"server {name!r} answered HTTP {status}: {_WHAT_TO_DO.get(status, default)}")

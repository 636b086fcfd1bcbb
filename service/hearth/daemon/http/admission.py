"""Admission of HTTP clients and their requests: connections that have shown the token, rate limits, bodies.

Rotating the token ends the connections that have shown it: their streams may stay open for hours, and another person's
stream is the reason why a user rotates the token.

A client may open any number of connections, so the rate limits hold for sessions: a legacy one by its id, a modern one
by the identity that it claims. New sessions are counted for all clients at the ports, and for all on the socket:
otherwise every message could begin one. Requests for the daemon's status are counted in the same way, but separately:
too many of them keep no client from opening a session.
"""

import asyncio
import functools
import logging
from typing import TYPE_CHECKING

from hearth.daemon import client_limits
from hearth.daemon.client_limits import RateLimiter
from hearth.daemon.http import http_messages
from hearth.daemon.http.http_messages import Headers
from hearth.daemon.http.sessions import HttpSession
from hearth.errors import FileAccessError, HearthError, MessageError, OverLimit, TooLarge
from hearth.secrets import http_token
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon
    from hearth.daemon.http.app import Request
    from hearth.daemon.http.connection import HttpConnection

log = logging.getLogger(__name__)

# The token's file may change at any time, by any process; checking it takes microseconds.
LOOK_SECONDS = 1.0


class Rejected(Exception):
    """Rejection of a request. `problem` is in the body of the answer, for the request of that raw `id`."""

    def __init__(self, status: int, problem: HearthError, id: bytes | None = None) -> None:
        super().__init__(str(problem))
        self.status = status
        self.problem = problem
        self.id = id


class AuthenticatedConnections:
    """Authenticated connections, each with the token that it showed last. Without any, the file is not checked."""

    def __init__(self) -> None:
        self._token = http_token.Current()
        self._shown: dict[HttpConnection, str] = {}
        self._next_look: asyncio.TimerHandle | None = None

    def token(self) -> str | None:
        """Return the valid token, or None if there is no usable one."""
        try:
            return self._token.read()
        except FileAccessError:
            return None

    def add(self, connection: "HttpConnection", shown: str) -> None:
        """Add a connection that has shown the valid token."""
        if connection.transport.is_closing():
            # Its end may have been reported already, and would not be again: the entry would stay.
            return
        self._shown[connection] = shown
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def discard(self, connection: "HttpConnection") -> None:
        """Remove a connection that has ended."""
        self._shown.pop(connection, None)

    def _look(self) -> None:
        self._next_look = None
        token = self.token()
        former = [connection for connection, shown in self._shown.items() if shown != token]
        for connection in former:
            del self._shown[connection]
            connection.cut()
        if former:
            log.warning("the token is another: connections over TCP that came with the former are cut: %d", len(former))
        if self._shown:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)


class Gates:
    """Rate limiters of all HTTP clients. `is_far` is True for clients at a port, False for those on the socket."""

    def __init__(self, services: "Daemon") -> None:
        self._services = services
        self._doors: dict[bool, RateLimiter | None] = {}
        self._looks: dict[bool, RateLimiter | None] = {}

    def _gate(self, gates: dict[bool, RateLimiter | None], is_far: bool, name: str) -> RateLimiter | None:
        limits = client_limits.far(self._services.config) if is_far else client_limits.near(self._services.config)
        tell = functools.partial(log.warning, "%s: %s", name)
        found = gates[is_far] = client_limits.gate(limits, gates.get(is_far), self._services.now, tell)
        return found

    def _of_session(self, found: HttpSession, is_far: bool) -> RateLimiter | None:
        return self._gate(found.gates, is_far, f"the client of session {found.session.id} over HTTP")

    def admitted(
        self, found: HttpSession, is_far: bool, message: json.Message | json.Batch
    ) -> json.Message | json.Batch:
        """Return the message, or the part of it that may pass. Raises Rejected."""
        gate = self._of_session(found, is_far)
        if gate is None:
            return message
        admitted = gate.admitted(message, len(found.session.open))
        if isinstance(admitted, json.Batch):
            refused = [each for each in admitted.items if isinstance(each, OverLimit)]
            if refused and len(refused) == len(admitted.items):
                # Refused as a whole: a batch has no id of its own.
                raise Rejected(429, refused[0])
        elif not isinstance(admitted, json.Message):
            raise Rejected(429, admitted, admitted.id)
        return admitted

    def check_stream(self, found: HttpSession, is_far: bool) -> None:
        """Raise Rejected if a session may not open a stream for now; a stream counts as a message."""
        if gate := self._of_session(found, is_far):
            _check(gate.asking("message"))

    def check_look(self, is_far: bool) -> None:
        """Raise Rejected if there are too many requests for the daemon's status."""
        if gate := self._gate(self._looks, is_far, f"/status and /metrics {_door(is_far)}"):
            _check(gate.asking("request"))

    def check_opening(self, is_far: bool, id: bytes | None = None) -> None:
        """Raise Rejected, for the request of that id, if there are too many new sessions for now."""
        if gate := self._gate(self._doors, is_far, f"clients {_door(is_far)}"):
            _check(gate.opening(id))


def _check(refusal: OverLimit | None) -> None:
    if refusal:
        raise Rejected(429, refusal, refusal.id)


def _door(is_far: bool) -> str:
    return "at a port" if is_far else "on the socket, over HTTP"


def retry_after(problem: OverLimit) -> Headers:
    """Return the Retry-After header, in whole seconds (RFC 9110, 10.2.3)."""
    return [(b"retry-after", b"%d" % problem.retry_after)]


# --- bodies


def check_body(request: "Request") -> None:
    """Raise Rejected unless the body has a readable type and encoding."""
    if problem := http_messages.refused_type(request.headers.get("content-type", "")):
        raise Rejected(415, MessageError(problem))
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Rejected(415, MessageError("the body must not be compressed"))


async def read_body(request: "Request") -> bytes | None:
    """Return the whole body, or None if the client has disconnected or the body is over the limit.

    A body over the limit is refused here, and the connection is closed.
    """
    limit = request.app.services.config.message_limit
    declared = request.headers.get("content-length", "")
    too_large = TooLarge(f"the body is over the limit of {limit} bytes (message_limit)")
    if declared.isdigit() and int(declared) > limit:
        request.connection.refuse(413, str(too_large), headers=request.headers)
        return None
    pieces, size = [], 0
    while True:
        part = await request.receive()
        if part["type"] == "http.disconnect":
            return None
        pieces.append(part["body"])
        size += len(part["body"])
        if size > limit:
            request.connection.refuse(413, str(too_large), headers=request.headers)
            return None
        if not part["more_body"]:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

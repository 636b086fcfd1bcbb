"""Admission of HTTP clients: connections over TCP that have shown the token, and rate limits.

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

from hearth.config import Config
from hearth.daemon import client_limits
from hearth.daemon.client_limits import Limits, RateLimiter
from hearth.daemon.http.responses import Headers
from hearth.daemon.http.sessions import HttpSession
from hearth.daemon.services import DaemonServices
from hearth.errors import FileAccessError, OverLimit
from hearth.secrets import http_token
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.daemon.http.connection import HttpConnection

log = logging.getLogger(__name__)

# The token's file may change at any time, by any process; checking it takes microseconds.
LOOK_SECONDS = 1.0


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

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        self._doors: dict[bool, RateLimiter] = {}
        self._looks: dict[bool, RateLimiter] = {}
        self._read(services.config)

    def _read(self, config: Config) -> None:
        self._config = config
        self._limits = {False: client_limits.near(config), True: client_limits.far(config)}

    def _wanted(self, is_far: bool) -> Limits | None:
        if self._services.config is not self._config:
            self._read(self._services.config)
        return self._limits[is_far]

    def _gate(self, gates: dict[bool, RateLimiter], is_far: bool, wanted: Limits, name: str) -> RateLimiter:
        found = gates.get(is_far)
        if found is None:
            found = gates[is_far] = RateLimiter(
                wanted, self._services.now, functools.partial(log.warning, "%s: %s", name)
            )
        elif found.limits is not wanted:
            found.settle(wanted)
        return found

    def admitted(
        self, found: HttpSession, is_far: bool, message: json.Message | json.Batch
    ) -> json.Message | json.Batch:
        """Return the message, or the part of it that may pass. Raises OverLimit."""
        wanted = self._wanted(is_far)
        if wanted is None:
            return message
        admitted = self._of_session(found, is_far, wanted).admitted(message, len(found.session.open))
        if isinstance(admitted, json.Batch):
            refused = [each for each in admitted.items if isinstance(each, OverLimit)]
            if refused and len(refused) == len(admitted.items):
                # Refused as a whole: a batch has no id of its own.
                raise OverLimit(str(refused[0]), refused[0].reason, None, refused[0].retry_after)
        elif not isinstance(admitted, json.Message):
            raise admitted
        return admitted

    def _of_session(self, found: HttpSession, is_far: bool, wanted: Limits) -> RateLimiter:
        return self._gate(found.gates, is_far, wanted, f"the client of session {found.session.id} over HTTP")

    def check_stream(self, found: HttpSession, is_far: bool) -> None:
        """Raise OverLimit if a session may not open a stream for now; a stream counts as a message."""
        wanted = self._wanted(is_far)
        refusal = wanted and self._of_session(found, is_far, wanted).asking("message")
        if refusal:
            raise refusal

    def check_look(self, is_far: bool) -> None:
        """Raise OverLimit if there are too many requests for the daemon's status."""
        wanted = self._wanted(is_far)
        name = f"/status and /metrics {_door(is_far)}"
        refusal = wanted and self._gate(self._looks, is_far, wanted, name).asking("request")
        if refusal:
            raise refusal

    def check_opening(self, is_far: bool, id: bytes | None = None) -> None:
        """Raise OverLimit, for the request of that id, if there are too many new sessions for now."""
        wanted = self._wanted(is_far)
        refusal = wanted and self._gate(self._doors, is_far, wanted, f"clients {_door(is_far)}").opening(id)
        if refusal:
            raise refusal


def _door(is_far: bool) -> str:
    return "at a port" if is_far else "on the socket, over HTTP"


def retry_after(problem: OverLimit) -> Headers:
    """Return the Retry-After header, in whole seconds (RFC 9110, 10.2.3)."""
    return [(b"retry-after", b"%d" % problem.retry_after)]

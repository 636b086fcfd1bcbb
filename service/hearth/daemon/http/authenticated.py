"""Authenticated connections over TCP. Rotating the token ends them: their streams may stay open for hours, and another
person's stream is the reason why a user rotates the token.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from hearth.errors import FileAccessError
from hearth.secrets import http_token

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

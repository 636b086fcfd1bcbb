"""Connections over TCP that have shown the token. One that is rotated ends them: what they were let in for may go on
for hours, and somebody else's stream is why one rotates it.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from hearth.errors import StartError
from hearth.secrets import http_token

if TYPE_CHECKING:
    from hearth.daemon.http.connection import HttpConnection

log = logging.getLogger(__name__)

# The file may be another at any time, whoever has written it; a look at it takes microseconds.
LOOK_SECONDS = 1.0


class AuthenticatedConnections:
    """Each with the token that it has shown last. The file is looked at only while there is anybody."""

    def __init__(self) -> None:
        self._token = http_token.Current()
        self._shown: dict[HttpConnection, str] = {}
        self._next_look: asyncio.TimerHandle | None = None

    def token(self) -> str | None:
        """The one that lets in; None while there is none, or none that can be used."""
        try:
            return self._token.read()
        except StartError:
            return None

    def add(self, connection: "HttpConnection", shown: str) -> None:
        """It has shown that token, which was the right one."""
        if connection.transport.is_closing():
            # Nobody would say again that it has ended.
            return
        self._shown[connection] = shown
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def discard(self, connection: "HttpConnection") -> None:
        """It has ended."""
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

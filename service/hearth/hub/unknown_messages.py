"""Warnings about protocol versions and notifications that Hearth does not know: one of each for a client."""

import logging

from hearth.hub.sessions import Session
from hearth.mcp import versions

log = logging.getLogger(__name__)

# Clients that are remembered. Beyond, the oldest is forgotten and may be warned of again.
CLIENTS_LIMIT = 1000
# Of what a client sent, in the log.
_SHOWN_CHARACTERS = 80


class UnknownMessages:
    """Record of the clients that were warned of. A client is a session, or whatever tells HTTP clients apart."""

    def __init__(self) -> None:
        self._warned: dict[tuple[object, str], None] = {}

    def version(self, client: object, version: str | None) -> None:
        """Warn of a protocol version that is not served."""
        if version not in versions.VERSIONS and self._is_first(client, "version"):
            log.warning("unknown protocol version %s from %s", _shown(version), _name(client), extra=_fields(client))

    def notification(self, client: object, method: str, server: str | None = None) -> None:
        """Warn of a notification that no revision has; `server` is the one that it was passed on to, if any."""
        if method not in versions.CLIENT_NOTIFICATIONS and self._is_first(client, "notification"):
            fate = f"passed on to server {server!r}" if server else "ignored"
            log.warning(
                "unknown notification %s from %s: %s", _shown(method), _name(client), fate, extra=_fields(client)
            )

    def _is_first(self, client: object, kind: str) -> bool:
        key = (client.id if isinstance(client, Session) else client, kind)
        if key in self._warned:
            return False
        if len(self._warned) >= CLIENTS_LIMIT:
            del self._warned[next(iter(self._warned))]
        self._warned[key] = None
        return True


def _shown(text: str | None) -> str:
    return ascii(text if text is None else text[:_SHOWN_CHARACTERS])


def _name(client: object) -> str:
    if not isinstance(client, Session):
        return "an HTTP client"
    name = client.client.get("name")
    return f"client {_shown(name)}" if name else "a client"


def _fields(client: object) -> dict[str, str]:
    return {"session": client.id} if isinstance(client, Session) else {}

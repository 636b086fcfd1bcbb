"""Authorization header for a server whose entry has none, and the reaction to its refusal.

Knows nothing of OAuth, and loads it only after a server has refused a request, or if there are stored logins.
"""

import asyncio
import os
from typing import TYPE_CHECKING

from hearth.addresses import UNIX
from hearth.config import ServerSpec
from hearth.places import oauth_file

if TYPE_CHECKING:
    from hearth.upstreams.oauth.account import Account

REFUSALS = frozenset({401, 403})


def credentials_of(spec: ServerSpec) -> "Credentials | None":
    """Return the credentials of a server with its references resolved; None if its entry has a header."""
    return None if has_own_header(spec) or (spec.url or "").startswith(UNIX) else Credentials(spec)


def has_own_header(spec: ServerSpec) -> bool:
    """Return whether the entry has an Authorization of its own, which wins over any login."""
    return any(name.lower() == "authorization" for name in spec.headers)


class Credentials:
    """Credentials of one server: its login, if there is one."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._account: Account | None = None

    async def authorization(self) -> str | None:
        """Return the header's value; None without a login. Raises UpstreamError."""
        if self._account is None and not os.path.exists(oauth_file()):
            return None
        return await (await self._opened()).authorization()

    def accepted(self, value: str | None) -> None:
        """Note that the server accepted a request with that value."""
        if self._account:
            self._account.accepted(value)

    async def refused(self, status: int, challenge: str | None, value: str | None) -> bool:
        """Handle a refusal; return whether to retry once. Raises LoginRequired, UpstreamError."""
        return await (await self._opened()).refused(status, challenge, value)

    async def _opened(self) -> "Account":
        if self._account is None:
            # In a thread: loading the OAuth package takes tens of milliseconds.
            self._account = await asyncio.to_thread(_open, self._spec)
        return self._account


def _open(spec: ServerSpec) -> "Account":
    from hearth.upstreams.oauth.account import account_of

    return account_of(spec)

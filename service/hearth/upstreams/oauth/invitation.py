"""Invitation to log in, for clients to show: an address on this machine that leads to the login, shared by all."""

import asyncio
import logging
import secrets
from collections.abc import Callable

from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.oauth import logins
from hearth.upstreams.oauth.logins import Login
from hearth.upstreams.oauth.store import fingerprint
from hearth.upstreams.threads import SingleFlight

log = logging.getLogger(__name__)

# Time to find a password, a phone and a second factor; the listener is closed afterwards.
INVITATION_SECONDS = 600.0
_NONCE_BYTES = 16


class Invitation:
    """Invitation to log in to one server at `url`."""

    def __init__(self, server: str, login: Login, url: str) -> None:
        self.id = secrets.token_hex(_NONCE_BYTES)
        self.server = server
        self.url = url
        self._login = login
        self._over = asyncio.ensure_future(self._wait())

    @property
    def is_open(self) -> bool:
        """True while the address still leads to the login."""
        return not self._over.done()

    async def wait(self, seconds: float) -> bool | None:
        """Return whether a user logged in by the invitation; None if that is undecided after `seconds`."""
        done, _ = await asyncio.wait([self._over], timeout=seconds)
        return self._over.result() if done else None

    def when_over(self, act: Callable[[bool], None]) -> None:
        """Call `act` at the end of the invitation, with whether a user has logged in."""
        self._over.add_done_callback(lambda late: None if late.cancelled() else act(late.result()))

    async def _wait(self) -> bool:
        try:
            async with asyncio.timeout(INVITATION_SECONDS):
                await self._login.wait()
        except TimeoutError:
            return False
        except LoginFailed as exc:
            log.warning("nobody was logged in: %s", exc, extra={"upstream": self.server})
            return False
        finally:
            await self._login.close()
        return True


_OPEN: dict[str, Invitation] = {}
_FLIGHTS: dict[str, SingleFlight[Invitation]] = {}


async def invite(spec: ServerSpec) -> Invitation:
    """Return the invitation to log in to a server with its references resolved. Raises LoginFailed, VaultError."""
    key = fingerprint(spec)
    found = _OPEN.get(key)
    if found and found.is_open:
        return found
    return await _FLIGHTS.setdefault(key, SingleFlight()).join(lambda: _begin(key, spec))


async def _begin(key: str, spec: ServerSpec) -> Invitation:
    login, url = await logins.begin(spec, path=f"/login/{secrets.token_urlsafe(_NONCE_BYTES)}")
    found = _OPEN[key] = Invitation(spec.name, login, url)
    return found

"""One server's login in a running daemon: the token for each request, refreshed once for all before it expires.

Any number of connections and callers share an account, and any number of daemons share the tokens. A process that uses
a refresh token takes its lock and reads the vault first: a rotating refresh token that is used twice ends the login.
"""

import asyncio
import logging
import shlex
import time

from hearth.config import ServerSpec
from hearth.errors import FileAccessError, HearthError, LoginFailed, LoginRequired, UpstreamError, VaultError
from hearth.host.private_files import FileLock
from hearth.masking import Mask
from hearth.upstreams import threads
from hearth.upstreams.oauth import tokens
from hearth.upstreams.oauth.logins import client_of
from hearth.upstreams.oauth.metadata import Challenge, parse_challenge
from hearth.upstreams.oauth.store import Grant, Link, Store, fingerprint, grant_name
from hearth.upstreams.threads import SingleFlight

log = logging.getLogger(__name__)

# The holder of the lock asks an authorization server, and may have to wait for the keyring.
LOCK_SECONDS = 2 * tokens.ANSWER_SECONDS
LOCK_POLL_SECONDS = 0.02
# Seconds before a server whose kind of login is unknown here is asked about it again.
UNKNOWN_SECONDS = 60.0
# Between two attempts at an authorization server that cannot be reached while the token is still valid, or that
# refuses for a reason that does not end the login.
PAUSE_SECONDS = 10.0

_OVER = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})


class Account:
    """Login of one server, identified by its address."""

    def __init__(self, spec: ServerSpec, store: Store) -> None:
        # Replaced with the config: the client's secret may have changed.
        self.spec = spec
        self._store = store
        self._seen: object = ()
        self._link: Link | None = None
        self._grant: Grant | None = None
        # A reference keeps the mask in force: no log line and no error of this daemon may contain the tokens.
        self._mask: Mask | None = None
        # Access tokens that the vault may still have because their successors could not be stored: the refresh tokens
        # beside them are used up.
        self._spent: set[str] = set()
        # Token of a refresh after a 401, until it has been accepted once: if refused, another refresh is useless.
        self._on_trial: str | None = None
        # Until then a token that is still valid is used as it is: the authorization server gave no other.
        self._not_before = 0.0
        # Access token whose refresh was refused last, and the reason: the server is not asked again before then.
        self._denied: tuple[str, str] | None = None
        self._refresh: SingleFlight[Grant] = SingleFlight()
        self._asking: SingleFlight[bool] = SingleFlight()
        self._asked_at = -UNKNOWN_SECONDS
        self._wants_login = False

    # --- requests

    async def authorization(self) -> str | None:
        """Return the value of the Authorization header; None without a login. Raises LoginRequired, UpstreamError."""
        grant = await self._current()
        if grant is None:
            return None
        now = time.time()
        if grant.is_due(now) and not (grant.left(now) > 0 and time.monotonic() < self._not_before):
            grant = await self._refreshed(grant)
        return grant.bearer

    def accepted(self, bearer: str | None) -> None:
        """Note that the server accepted a request with this token."""
        if self._on_trial is not None and self._on_trial == bearer:
            self._on_trial = None

    async def refused(self, status: int, header: str | None, bearer: str | None) -> bool:
        """Handle a refused request; return whether to retry it once. Raises LoginRequired, UpstreamError."""
        wanted = parse_challenge(header)
        if status == 403:
            return await self._widen(wanted) if wanted.error == "insufficient_scope" else False
        grant = await self._current()
        if grant is not None and grant.bearer != bearer:
            # Another task or process refreshed the token, or a user logged in, meanwhile.
            return True
        if grant is None:
            if await self._is_login_wanted(wanted):
                raise self._required("needs a login")
            return False
        if bearer == self._on_trial:
            raise self._required("refuses a token that is new; log in again")
        refreshed = await self._refreshed(grant)
        if refreshed.bearer == bearer:
            return False
        self._on_trial = refreshed.bearer
        return True

    # --- stored tokens

    async def _current(self) -> Grant | None:
        signature = self._store.signature()
        if signature != self._seen:
            try:
                link, grant = await threads.run(self._load)
            except VaultError as exc:
                if self._spent:
                    return self._grant
                raise self._unreadable(exc) from exc
            self._seen = signature
            if grant is None or grant.access_token not in self._spent:
                self._link, self._grant = link, grant
                self._spent.clear()
                self._hide()
        return self._grant

    def _hide(self) -> None:
        grant = self._grant
        self._mask = Mask(token for token in (grant.access_token, grant.refresh_token) if token) if grant else None

    def _load(self) -> tuple[Link | None, Grant | None]:
        link = self._store.link(self.spec)
        return link, self._store.grant(link) if link and link.logged_in else None

    def _unreadable(self, exc: VaultError) -> UpstreamError:
        return UpstreamError(f"server {self.spec.name!r}: its login cannot be read: {exc}")

    def _required(self, why: str) -> LoginRequired:
        return required(self.spec.name, why)

    # --- refreshing

    async def _refreshed(self, stale: Grant) -> Grant:
        """Return tokens other than the stale ones. Raises LoginRequired, UpstreamError."""
        if self._grant is not None and self._grant.access_token != stale.access_token:
            return self._grant
        return await self._refresh.join(lambda: self._refresh_once(stale))

    async def _refresh_once(self, stale: Grant) -> Grant:
        link = self._link
        assert link is not None
        lock = self._store.lock(grant_name(link))
        await self._acquire(lock)
        try:
            former = await self._former(link, stale)
            if former is None:
                self._grant = None
                raise self._required("has been logged out of")
            if former is self._grant and former is not stale:
                # A user has logged in, perhaps at another issuer: the new tokens are not for the former endpoint.
                return former
            if former.access_token != stale.access_token and not former.is_due(time.time()):
                # Another daemon was first.
                self._grant = former
                self._hide()
                return former
            self._grant = await self._use(link, former)
            self._hide()
            if self._grant is not former:
                await self._keep(link, former, self._grant)
            return self._grant
        except VaultError as exc:
            raise self._unreadable(exc) from exc
        finally:
            lock.release()

    async def _former(self, link: Link, stale: Grant) -> Grant | None:
        """Return the tokens to refresh: those in the vault, or those that only this daemon has."""
        if not self._spent:
            return await threads.run(self._store.grant, link)
        current = await self._current()
        return stale if self._spent else current

    async def _acquire(self, lock: FileLock) -> None:
        name, deadline = self.spec.name, time.monotonic() + LOCK_SECONDS
        try:
            while not lock.acquire(blocking=False):
                if time.monotonic() >= deadline:
                    raise UpstreamError(f"server {name!r}: another process has been refreshing its login too long")
                await asyncio.sleep(LOCK_POLL_SECONDS)
        except FileAccessError as exc:
            raise UpstreamError(f"server {name!r}: its login cannot be refreshed: {exc}") from exc

    async def _use(self, link: Link, former: Grant) -> Grant:
        """Use the refresh token.

        If the response is lost, it is unknown whether the token is used up. A later attempt tries it again: if it was
        used up, the login is over in either case.
        """
        if not former.refresh_token:
            await self._end(link)
            raise self._required("needs a login again: the last one has ended")
        if self._denied and self._denied[0] == former.access_token and time.monotonic() < self._not_before:
            return self._go_on(former, self._denied[1])
        self._denied = None
        web = await threads.run(tokens.open_client, self.spec)
        try:
            return await tokens.refresh(
                web, link.token_endpoint, client_of(self.spec, link, former), former, link.resource
            )
        except LoginFailed as exc:
            if isinstance(exc, tokens.Denied):
                if exc.code in _OVER:
                    await self._end(link)
                    raise self._required(f"needs a login again: {exc}") from exc
                self._denied = former.access_token, str(exc)
            self._not_before = time.monotonic() + PAUSE_SECONDS
            return self._go_on(former, str(exc))
        finally:
            await web.aclose()

    def _go_on(self, former: Grant, why: str) -> Grant:
        """Return a token that could not be refreshed while it is still valid. Raises UpstreamError."""
        if former.left(time.time()) > 0:
            return former
        raise UpstreamError(f"server {self.spec.name!r}: its login cannot be refreshed now: {why}")

    async def _keep(self, link: Link, former: Grant, grant: Grant) -> None:
        try:
            await threads.run(self._store.put_grant, link, grant)
            self._spent.clear()
            self._seen = self._store.signature()
        except HearthError as exc:
            # This daemon keeps using its tokens until it stops, or until a user logs in or out.
            self._spent.add(former.access_token)
            log.error("a refreshed login cannot be kept: %s", exc, extra={"upstream": self.spec.name})

    async def _end(self, link: Link) -> None:
        self._grant = None
        self._spent.clear()
        try:
            await threads.run(self._store.drop_grant, link)
        except HearthError as exc:
            log.error("a login that has ended cannot be removed: %s", exc, extra={"upstream": self.spec.name})
        self._seen = self._store.signature()

    # --- challenges

    async def _is_login_wanted(self, wanted: Challenge) -> bool:
        """Tell whether a login would help: a server that takes keys of another kind answers 401, too."""
        if not wanted.is_for_tokens:
            return False
        if self._link is not None:
            return True
        if time.monotonic() - self._asked_at >= UNKNOWN_SECONDS or self._wants_login:
            self._wants_login = await self._asking.join(lambda: self._ask(wanted))
            self._asked_at = time.monotonic()
        return self._wants_login

    async def _ask(self, wanted: Challenge) -> bool:
        try:
            tokens.check_address(self.spec)
            if wanted.resource_metadata or self.spec.oauth.issuer:
                return True
            web = await threads.run(tokens.open_client, self.spec)
            try:
                await tokens.find_source(web, self.spec, wanted)
            finally:
                await web.aclose()
        except tokens.Unsettled:
            return False
        except LoginFailed as exc:
            log.info("nothing to log in to: %s", exc, extra={"upstream": self.spec.name})
            return False
        return True

    async def _widen(self, wanted: Challenge) -> bool:
        """Handle a request for scopes that the login lacks: a new login can ask for more, if the user agrees.

        Raises LoginRequired if a new login may help; returns False if not.
        """
        await self._current()
        link = self._link
        if link is None:
            return False
        missing = set(wanted.scopes) - set(link.requested)
        if not missing:
            # The scopes were requested before, and were not granted or do not help: asking again would not either.
            return False
        if missing - set(link.wanted):
            everything = tuple(dict.fromkeys((*link.wanted, *wanted.scopes)))
            try:
                await threads.run(self._store.update, link, wanted=everything)
            except HearthError as exc:
                log.error(
                    "scopes that the server demands cannot be stored: %s", exc, extra={"upstream": self.spec.name}
                )
        raise self._required(f"wants more to be allowed ({' '.join(sorted(missing))}); log in again")


def required(name: str, why: str) -> LoginRequired:
    """Return the error that tells the user which command to run."""
    return LoginRequired(f"server {name!r} {why}: type `hearth auth login {shlex.quote(name)}`", name)


_ACCOUNTS: dict[str, Account] = {}


def account_of(spec: ServerSpec) -> Account:
    """Return the account of a server with its references resolved; all callers share it."""
    key = fingerprint(spec)
    found = _ACCOUNTS.get(key)
    if found is None:
        found = _ACCOUNTS[key] = Account(spec, Store())
    found.spec = spec
    return found

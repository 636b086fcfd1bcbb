"""Logins to one server: from the browser's way there and back to the stored tokens; their status, and logout.

The client identity is chosen in the order of the specification: the client in the config, the metadata document in the
config if the authorization server reads documents, the existing registration, or a new one. An `Invitation` is a login
by an address on this machine, which clients show; all clients share it. The status functions block; they read the store
and send no request.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import urljoin

import httpx

from hearth.config import ServerSpec
from hearth.errors import HearthError, LoginFailed
from hearth.upstreams import threads
from hearth.upstreams.http.credentials import has_own_header
from hearth.upstreams.oauth import tokens
from hearth.upstreams.oauth.metadata import Authority, Challenge, canonical
from hearth.upstreams.oauth.redirect import DEFAULT_URI, AuthorizationRequest, Redirect, WrongState, with_offline_access
from hearth.upstreams.oauth.store import Grant, Link, OAuthClient, RegistrationRefusal, Store, fingerprint, grant_name
from hearth.upstreams.oauth.tokens import TokenSource
from hearth.upstreams.threads import SingleFlight

log = logging.getLogger(__name__)

# Time to find a password, a phone and a second factor; the listener is closed afterwards.
INVITATION_SECONDS = 600.0
_NONCE_BYTES = 16


class Login:
    """Login in progress in a browser, to be opened at `url`. Always close it.

    With `path`, `url` is an address on this machine with that path, which leads to the authorization server.
    """

    def __init__(
        self,
        spec: ServerSpec,
        store: Store,
        web: httpx.AsyncClient,
        found: TokenSource,
        client: OAuthClient,
        redirect: Redirect,
        scopes: tuple[str, ...],
        path: str | None,
    ) -> None:
        self._spec = spec
        self._store = store
        self._web = web
        self._found = found
        self._client = client
        self._redirect = redirect
        self._done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._done.add_done_callback(lambda late: late.cancelled() or late.exception())
        self._is_taken = False
        attempt = self._attempt = AuthorizationRequest(
            found.authority, client.client_id, found.resource.resource, scopes, redirect.uri
        )
        redirect.expect(self._returned, (path, attempt.url) if path else None)
        self.url = urljoin(redirect.uri, path) if path else attempt.url
        self.issuer = found.authority.issuer
        # Requested scopes.
        self.scopes = attempt.scopes

    async def wait(self) -> str:
        """Wait until the tokens are stored; return their location in words. Raises LoginFailed; unbounded."""
        return await asyncio.shield(self._done)

    async def take(self, query: str) -> str:
        """Redeem the browser's response; return the location of the tokens. Raises LoginFailed, WrongState."""
        try:
            code = self._attempt.code(query)
            if self._is_taken:
                raise WrongState("the answer has come before")
            # A code is valid for one use, and reloading the page in the browser sends it again.
            self._is_taken = True
            where = await self._redeem(code)
        except WrongState:
            raise
        except HearthError as exc:
            problem = LoginFailed(f"server {self._spec.name!r}: {exc}")
            if not self._done.done():
                self._done.set_exception(problem)
            raise problem from exc
        if not self._done.done():
            self._done.set_result(where)
        return where

    async def _returned(self, query: str) -> str:
        await self.take(query)
        return f"Hearth has what it needs for {self._spec.name}. You can close this page."

    async def _redeem(self, code: str) -> str:
        resource, authority = self._found.resource.resource, self._found.authority
        attempt = self._attempt
        grant = await tokens.redeem(
            self._web, authority, self._client, code, attempt.verifier, attempt.redirect_uri, resource
        )
        return await threads.run(self._keep, grant.replace(scopes=grant.scopes or attempt.scopes))

    def _keep(self, grant: Grant) -> str:
        authority = self._found.authority
        link = Link(
            server=self._spec.name,
            address=canonical(self._spec.url or ""),
            issuer=authority.issuer,
            resource=self._found.resource.resource,
            client_id=self._client.client_id,
            origin=self._client.origin,
            token_endpoint=authority.token_endpoint,
            revocation_endpoint=authority.revocation_endpoint,
            methods=authority.methods,
            requested=self._attempt.scopes,
            granted=grant.scopes,
            since=time.time(),
        )
        if self._client.origin == "registered":
            grant = grant.replace(client_secret=self._client.client_secret, method=self._client.method)
        lock = self._store.lock(grant_name(link))
        # Another process may be refreshing the former tokens, and would overwrite the new ones.
        lock.acquire()
        try:
            self._store.put_link(self._spec, link)
            return self._store.put_grant(link, grant)
        finally:
            lock.release()

    async def close(self) -> None:
        """Close the login, whatever its outcome."""
        self._done.cancel()
        await self._redirect.close()
        await self._web.aclose()


async def begin(spec: ServerSpec, path: str | None = None) -> Login:
    """Begin a login to a server with its references resolved. Raises LoginFailed, VaultError. `path`: see `Login`."""
    web = await threads.run(tokens.open_client, spec)
    redirect: Redirect | None = None
    try:
        store = Store()
        link = await threads.run(store.link, spec)
        wanted = await tokens.challenge(web, spec)
        found = await tokens.find_source(web, spec, wanted, link.issuer if link else None)
        _check_binding(spec, link, found.authority)
        scopes = _scopes(spec, link, wanted, found)
        kept = await threads.run(_kept_client, spec, store, found.authority)
        redirect = await Redirect.open(spec.oauth.redirect_uri, kept.redirect_uri if kept else None)
        client = kept
        if client is None or not _still_fits(client, redirect.uri, scopes, found.authority):
            client = await _register(web, spec, store, found, redirect.uri, scopes, client)
        return Login(spec, store, web, found, client, redirect, scopes, path)
    except BaseException as exc:
        if redirect:
            await redirect.close()
        await web.aclose()
        if isinstance(exc, LoginFailed):
            raise LoginFailed(f"server {spec.name!r}: {exc}") from exc
        raise


def _check_binding(spec: ServerSpec, link: Link | None, authority: Authority) -> None:
    """Raise LoginFailed if a client's id and secret would be sent to another authorization server than their own."""
    if link and link.issuer != authority.issuer and link.origin == "configured" and not spec.oauth.issuer:
        raise LoginFailed(
            f"it wants logins at {authority.issuer} now, and `oauth.client_id` of its entry was used at {link.issuer};"
            " if that is right, set `oauth.issuer` to the new one"
        )


def _scopes(spec: ServerSpec, link: Link | None, wanted: Challenge | None, found: TokenSource) -> tuple[str, ...]:
    """Return the scopes to request.

    The config's scopes, or else those that the server demands, or else those that it has; and those that were requested
    or demanded before.
    """
    demanded = spec.oauth.scopes or (wanted.scopes if wanted else ()) or found.resource.scopes or ()
    before = (*link.requested, *link.wanted) if link and link.issuer == found.authority.issuer else ()
    return tuple(dict.fromkeys((*demanded, *before)))


def configured_client(spec: ServerSpec, methods: tuple[str, ...] | None) -> OAuthClient | None:
    """Return the client in the config, if any. `methods`: how it may authenticate."""
    oauth = spec.oauth
    if not oauth.client_id:
        return None
    method = tokens.secret_method(methods) if oauth.client_secret else "none"
    return OAuthClient(client_id=oauth.client_id, client_secret=oauth.client_secret, method=method, origin="configured")


def client_of(spec: ServerSpec, link: Link, grant: Grant) -> OAuthClient:
    """Return the client of a login: the config's client as it is now, or the one that was registered then."""
    configured = configured_client(spec, link.methods)
    if configured and configured.client_id == link.client_id:
        return configured
    return OAuthClient(
        client_id=link.client_id, client_secret=grant.client_secret, method=grant.method, origin=link.origin
    )


def _kept_client(spec: ServerSpec, store: Store, authority: Authority) -> OAuthClient | None:
    configured = configured_client(spec, authority.methods)
    if configured:
        return configured
    if spec.oauth.client_metadata_url and authority.takes_documents:
        return OAuthClient(client_id=spec.oauth.client_metadata_url, origin="document")
    return store.client(authority.issuer)


def _still_fits(client: OAuthClient, redirect_uri: str, scopes: tuple[str, ...], authority: Authority) -> bool:
    """Tell whether a registration still covers the redirect address and the scopes to request."""
    if client.origin != "registered":
        return True
    return client.redirect_uri == redirect_uri and set(with_offline_access(scopes, authority)) <= set(client.scopes)


async def _register(
    web: httpx.AsyncClient,
    spec: ServerSpec,
    store: Store,
    found: TokenSource,
    redirect_uri: str,
    scopes: tuple[str, ...],
    former: OAuthClient | None,
) -> OAuthClient:
    authority = found.authority
    refusal = RegistrationRefusal(authority.issuer, authority.takes_documents)
    if authority.registration_endpoint is None:
        await threads.run(store.note_refusal, spec, refusal)
        raise LoginFailed(
            f"{authority.issuer} registers no clients by itself. {refusal.advice} The redirect address is {DEFAULT_URI}"
        )
    # Register all scopes, not only those for now: later demands then need no other registration.
    everything = (*scopes, *(found.resource.scopes or ()), *(former.scopes if former else ()))
    scopes = with_offline_access(tuple(dict.fromkeys(everything)), authority)
    try:
        client = await tokens.register(web, authority, redirect_uri, scopes)
    except tokens.Denied as exc:
        await threads.run(store.note_refusal, spec, refusal)
        raise LoginFailed(f"{exc}. {refusal.advice}") from exc
    await threads.run(store.note_refusal, spec, None)
    await threads.run(store.put_client, authority.issuer, client)
    return client


# --- invitations


class Invitation:
    """Invitation to log in to one server at `url`."""

    def __init__(self, server: str, login: Login) -> None:
        self.id = secrets.token_hex(_NONCE_BYTES)
        self.server = server
        self.url = login.url
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
            log.warning("login by invitation failed: %s", exc, extra={"upstream": self.server})
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
    login = await begin(spec, f"/login/{secrets.token_urlsafe(_NONCE_BYTES)}")
    found = _OPEN[key] = Invitation(spec.name, login)
    return found


# --- status and logout

LOGGED_IN, NEEDS_LOGIN, WANTS_MORE = "logged in", "needs login", "wants more"
NOT_LOGGED_IN, OWN_HEADER = "not logged in", "own header"


def state(spec: ServerSpec, link: Link | None, now: float) -> str:
    """Return the state of a server's login in one or two words; the server has a url."""
    if has_own_header(spec):
        return OWN_HEADER
    if link is None:
        return NOT_LOGGED_IN
    is_over = link.expires_at is not None and link.expires_at <= now and not link.renews
    if not link.logged_in or is_over:
        return NEEDS_LOGIN
    return WANTS_MORE if set(link.wanted) - set(link.requested) else LOGGED_IN


def describe(spec: ServerSpec, store: Store) -> dict[str, object]:
    """Describe one server's login for `hearth auth status --json`; `spec` has its references resolved."""
    link = store.link(spec)
    found: dict[str, object] = {"server": spec.name, "state": state(spec, link, time.time())}
    if link is None:
        return found
    return found | {
        "issuer": link.issuer,
        "resource": link.resource,
        "clientId": link.client_id,
        "client": link.origin,
        "scopes": list(link.granted),
        "wanted": sorted(set(link.wanted) - set(link.requested)),
        "since": link.since,
        "expiresAt": link.expires_at,
        "renews": link.renews,
    }


class Ending(NamedTuple):
    """Result of a logout. `revoked` is None if the authorization server has no revocation endpoint."""

    was_logged_in: bool
    revoked: bool | None
    problem: str | None = None


async def log_out(spec: ServerSpec) -> Ending:
    """Remove the server's tokens, and revoke them at the authorization server. Raises VaultError, LoginFailed."""
    store = Store()
    link = await asyncio.to_thread(store.link, spec)
    if link is None:
        return Ending(False, None)
    lock = store.lock(grant_name(link))
    await asyncio.to_thread(lock.acquire)
    try:
        grant = await asyncio.to_thread(store.grant, link)
        # First: tokens that cannot be revoked must be removed here all the same.
        await asyncio.to_thread(store.drop_grant, link)
    finally:
        lock.release()
    if grant is None or link.revocation_endpoint is None:
        return Ending(grant is not None, None)
    try:
        return Ending(True, await _revoke(spec, link.revocation_endpoint, client_of(spec, link, grant), grant))
    except LoginFailed as exc:
        return Ending(True, False, str(exc))


async def _revoke(spec: ServerSpec, endpoint: str, client: OAuthClient, grant: Grant) -> bool:
    web = await asyncio.to_thread(tokens.open_client, spec)
    try:
        # RFC 7009 2.1: revoking the refresh token revokes its access tokens, too; not every server does so.
        done = await tokens.revoke(web, endpoint, client, grant.access_token, "access_token")
        if grant.refresh_token:
            done = await tokens.revoke(web, endpoint, client, grant.refresh_token, "refresh_token")
        return done
    finally:
        await web.aclose()

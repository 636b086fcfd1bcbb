"""Complete login to one server: client identity, the browser's way there and back, and storing of the tokens.

The client identity is chosen in the order of the specification: the client in the config, the metadata document in the
config if the authorization server reads documents, the existing registration, or a new one.
"""

import asyncio
import time

import httpx

from hearth.config import ServerSpec
from hearth.errors import HearthError, LoginFailed
from hearth.upstreams import threads
from hearth.upstreams.oauth import discovery, registration_refusals, tokens
from hearth.upstreams.oauth.metadata import Authority, Challenge, canonical
from hearth.upstreams.oauth.redirect import DEFAULT_URI, AuthorizationRequest, Redirect, WrongState, with_offline_access
from hearth.upstreams.oauth.registration_refusals import RegistrationRefusal
from hearth.upstreams.oauth.store import Grant, Link, OAuthClient, Store, grant_name


class Login:
    """Login in progress in a browser. Always close it."""

    def __init__(
        self,
        spec: ServerSpec,
        store: Store,
        web: httpx.AsyncClient,
        found: discovery.Found,
        client: OAuthClient,
        redirect: Redirect,
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

    def prepare(self, scopes: tuple[str, ...], begin: str | None = None) -> str:
        """Return the address for the browser; with `begin`, an address on this machine with that path leads there."""
        self._attempt = AuthorizationRequest(
            self._found.authority, self._client.client_id, self._found.resource.resource, scopes, self._redirect.uri
        )
        self._redirect.expect(self._returned, (begin, lambda: self._attempt.url) if begin else None)
        return self._redirect.uri.rpartition(self._path)[0] + begin if begin else self._attempt.url

    @property
    def _path(self) -> str:
        return "/" + self._redirect.uri.split("/", 3)[3]

    @property
    def issuer(self) -> str:
        """Issuer of the tokens."""
        return self._found.authority.issuer

    @property
    def scopes(self) -> tuple[str, ...]:
        """Requested scopes."""
        return self._attempt.scopes

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


async def begin(spec: ServerSpec, wanted: Challenge | None = None, path: str | None = None) -> tuple[Login, str]:
    """Begin a login; return it and the address for the browser. Raises LoginFailed, VaultError.

    `spec` has its references resolved. `wanted` is the server's challenge; without one the server is asked for it.
    `path`: see `Login.prepare`.
    """
    web = await threads.run(tokens.open_client, spec)
    redirect: Redirect | None = None
    try:
        store = Store()
        link = await threads.run(store.link, spec)
        wanted = wanted or await discovery.challenge(web, spec)
        found = await discovery.find(web, spec, wanted, link.issuer if link else None)
        _check_binding(spec, link, found.authority)
        scopes = _scopes(spec, link, wanted, found)
        kept = await threads.run(_kept_client, spec, store, found.authority)
        redirect = await Redirect.open(spec.oauth.redirect_uri, kept.redirect_uri if kept else None)
        client = kept
        if client is None or not _still_fits(client, redirect.uri, scopes, found.authority):
            client = await _register(web, spec, store, found, redirect.uri, scopes, client)
        login = Login(spec, store, web, found, client, redirect)
        return login, login.prepare(scopes, path)
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


def _scopes(spec: ServerSpec, link: Link | None, wanted: Challenge | None, found: discovery.Found) -> tuple[str, ...]:
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
    found: discovery.Found,
    redirect_uri: str,
    scopes: tuple[str, ...],
    former: OAuthClient | None,
) -> OAuthClient:
    authority = found.authority
    refusal = RegistrationRefusal(authority.issuer, authority.takes_documents)
    if authority.registration_endpoint is None:
        await threads.run(registration_refusals.note, spec, refusal)
        raise LoginFailed(
            f"{authority.issuer} registers no clients by itself. {refusal.advice} The redirect address is {DEFAULT_URI}"
        )
    # Register all scopes, not only those for now: later demands then need no other registration.
    everything = (*scopes, *(found.resource.scopes or ()), *(former.scopes if former else ()))
    scopes = with_offline_access(tuple(dict.fromkeys(everything)), authority)
    try:
        client = await tokens.register(web, authority, redirect_uri, scopes)
    except tokens.Denied as exc:
        await threads.run(registration_refusals.note, spec, refusal)
        raise LoginFailed(f"{exc}. {refusal.advice}") from exc
    await threads.run(registration_refusals.note, spec, None)
    await threads.run(store.put_client, authority.issuer, client)
    return client

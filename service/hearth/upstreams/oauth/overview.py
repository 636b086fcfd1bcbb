"""Status of logins for users, and logout. The status functions block; they read the store and send no request."""

import asyncio
import time
from typing import NamedTuple

from hearth.config import ServerSpec
from hearth.errors import LoginFailed
from hearth.upstreams.http.credentials import has_own_header
from hearth.upstreams.oauth import logins, tokens
from hearth.upstreams.oauth.store import Grant, Link, OAuthClient, Store, grant_name

LOGGED_IN, NEEDS_LOGIN, WANTS_MORE, NOT_LOGGED_IN, OWN_HEADER = (
    "logged in",
    "needs login",
    "wants more",
    "not logged in",
    "own header",
)


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
        client = logins.client_of(spec, link, grant)
        return Ending(True, await _revoke(spec, link.revocation_endpoint, client, grant))
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

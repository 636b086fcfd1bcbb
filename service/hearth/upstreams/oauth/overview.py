"""What is known of logins, for people, and their end. Blocking where it only looks; nobody is asked but the vault."""

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
    """One word or two for a server with a url."""
    if has_own_header(spec):
        return OWN_HEADER
    if link is None:
        return NOT_LOGGED_IN
    is_over = link.expires_at is not None and link.expires_at <= now and not link.renews
    if not link.logged_in or is_over:
        return NEEDS_LOGIN
    return WANTS_MORE if set(link.wanted) - set(link.requested) else LOGGED_IN


def describe(spec: ServerSpec, store: Store) -> dict[str, object]:
    """One server's login, for `hearth auth status --json`; `spec` has its references resolved."""
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
    """How a logout went. `revoked` is None where the authorization server has no place to say it."""

    was_logged_in: bool
    revoked: bool | None
    problem: str | None = None


async def log_out(spec: ServerSpec) -> Ending:
    """Forget the server's tokens, and have them end where they came from. Raises VaultError, LoginFailed."""
    store = Store()
    link = await asyncio.to_thread(store.link, spec)
    if link is None:
        return Ending(False, None)
    lock = store.lock(grant_name(link))
    await asyncio.to_thread(lock.acquire)
    try:
        grant = await asyncio.to_thread(store.grant, link)
        # First: what cannot be revoked is to be gone from here all the same.
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
        # RFC 7009 2.1: ending the refresh token ends what came of it, too; not everybody does so.
        done = await tokens.revoke(web, endpoint, client, grant.access_token, "access_token")
        if grant.refresh_token:
            done = await tokens.revoke(web, endpoint, client, grant.refresh_token, "refresh_token")
        return done
    finally:
        await web.aclose()

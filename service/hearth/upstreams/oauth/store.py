"""Storage of logins: tokens and registrations in the vault, everything else in files without secrets.

| place                       | holds                                                                    |
| --------------------------- | ------------------------------------------------------------------------ |
| vault, `grant-…`            | the tokens of one issuer, resource and client                            |
| vault, `client-…`           | this user's registration at one issuer, shared by every server behind it |
| STATE/oauth/servers.json    | by a hash of a server's address: its login, since when, until when       |
| STATE/oauth/refused.json    | by the same hash: the issuer that did not register Hearth as a client    |
| STATE/oauth/….lock          | held while a refresh token is used, or a file is written                 |

Every method blocks: in a daemon, call it from a thread. The errors are VaultError and LoginFailed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from hearth.config import ServerSpec
from hearth.errors import FileAccessError, LoginFailed
from hearth.host import private_files
from hearth.host.folders import make_private
from hearth.host.private_files import FileLock
from hearth.places import oauth_file
from hearth.secrets.vault import Vault

SIZE_LIMIT_BYTES = 4 * 1024 * 1024
# Servers whose logins are remembered; above this number the oldest are dropped.
SERVERS_LIMIT = 1000
# A clock that is set back by more than this invalidates all earlier dates.
SKEW_SECONDS = 60.0
# A token is renewed this long before it expires, or a quarter of its lifetime if that is shorter: calls take time, too.
AHEAD_SECONDS = 60.0
_VERSION = 1

Kept = TypeVar("Kept", bound="LoginRecord")


class LoginRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record that is stored as JSON: an object with a member for each field."""

    def replace(self, **changes: Any) -> Self:
        """Return the same record with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Grant(LoginRecord, frozen=True, kw_only=True):
    """Tokens of a login. `expires_in` is None if the authorization server does not say.

    The secret of a registered client is stored with the tokens that are bound to it: a later registration at the same
    issuer leaves them unchanged.
    """

    access_token: str
    refresh_token: str | None = None
    client_secret: str | None = None
    method: str = "none"
    scopes: tuple[str, ...] = ()
    obtained_at: float = 0.0
    expires_in: float | None = None

    def __repr__(self) -> str:
        return "Grant()"

    @property
    def bearer(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self.access_token}"

    @property
    def expires_at(self) -> float | None:
        """Wall-clock time at which the access token expires."""
        return None if self.expires_in is None else self.obtained_at + self.expires_in

    def left(self, now: float) -> float:
        """Return the seconds until the access token expires; 0 if the clock was set back and they are unknown."""
        if self.expires_in is None:
            return float("inf")
        return 0.0 if now < self.obtained_at - SKEW_SECONDS else self.obtained_at + self.expires_in - now

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a refresh."""
        return self.left(now) <= min(AHEAD_SECONDS, (self.expires_in or 0) / 4)


class OAuthClient(LoginRecord, frozen=True, kw_only=True):
    """OAuth client that Hearth is to an authorization server. `origin`: `configured`, `document` or `registered`."""

    client_id: str
    client_secret: str | None = None
    method: str = "none"
    origin: str = "registered"
    redirect_uri: str | None = None
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Client({self.client_id!r})"


class Link(LoginRecord, frozen=True, kw_only=True):
    """Login that a server uses. `wanted` are scopes that the server has demanded since; no field is secret."""

    server: str
    address: str
    issuer: str
    resource: str
    client_id: str
    origin: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    methods: tuple[str, ...] | None = None
    requested: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    logged_in: bool = True
    since: float = 0.0
    expires_at: float | None = None
    renews: bool = False


class RegistrationRefusal(NamedTuple):
    """Issuer that registers no client, remembered for `hearth doctor`. `takes_documents`: it reads metadata documents.

    The key of a server includes the configured client: once the user follows the advice and names a client, the entry
    has another key and the refusal no longer applies. A file that cannot be read or written costs the hint only.
    """

    issuer: str
    takes_documents: bool

    @property
    def advice(self) -> str:
        """Advice for the user."""
        by_hand = "register a client there by hand and put its id into `oauth.client_id` of the server's entry"
        if not self.takes_documents:
            return f"{by_hand[0].upper()}{by_hand[1:]}."
        return (
            "Publish a client-id metadata document and put its address into `oauth.client_metadata_url` of the server's"
            f" entry (docs/oauth.md has an example), or {by_hand}."
        )


def fingerprint(spec: ServerSpec) -> str:
    """Return the key of a server's login, from its address and the client in the config. A hash: urls carry keys."""
    return _digest(spec.url or "", spec.oauth.client_id or "", spec.oauth.client_metadata_url or "")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def grant_name(link: Link) -> str:
    """Return the name of a login's tokens in the vault, and of the lock for refreshing them."""
    return f"grant-{_digest(link.issuer, link.resource, link.client_id)}"


class Store:
    """Store of this user's logins."""

    def __init__(self) -> None:
        self._vault = Vault("oauth")
        self.path = oauth_file()
        self._refused = os.path.join(os.path.dirname(self.path), "refused.json")

    def signature(self) -> private_files.Stamp:
        """Return a value that changes with every login, logout and refresh; None before the first login."""
        return private_files.stamp(self.path)

    def lock(self, name: str) -> FileLock:
        """Return the lock of that name, not acquired yet."""
        return FileLock(os.path.join(os.path.dirname(self.path), f"{name}.lock"))

    # --- links

    def links(self) -> dict[str, Link]:
        """Return the links of all servers by fingerprint. A malformed file counts as empty."""
        tree = _read(self.path)
        entries = tree.get("servers") if tree.get("version") == _VERSION else None
        found = {key: _built(Link, entry) for key, entry in entries.items()} if isinstance(entries, dict) else {}
        return {key: link for key, link in found.items() if link}

    def link(self, spec: ServerSpec) -> Link | None:
        """Return the link of a server, if any."""
        return self.links().get(fingerprint(spec))

    def put_link(self, spec: ServerSpec, link: Link) -> None:
        """Remember which login the server uses."""
        self._change(lambda links: _put_last(links, fingerprint(spec), link))

    def update(self, link: Link, **changes: Any) -> None:
        """Change the links of every server that uses the same login."""
        name = grant_name(link)

        def change(links: dict[str, Link]) -> None:
            for key, known in links.items():
                if grant_name(known) == name:
                    links[key] = known.replace(**changes)

        self._change(change)

    def _change(self, change: Callable[[dict[str, Link]], None]) -> None:
        with self._writing():
            links = self.links()
            change(links)
            kept = dict(list(links.items())[-SERVERS_LIMIT:])
            _write(self.path, {"version": _VERSION, "servers": msgspec.to_builtins(kept)})

    @contextmanager
    def _writing(self) -> Iterator[None]:
        lock = self.lock("servers")
        try:
            make_private(os.path.dirname(self.path))
            lock.acquire()
            yield
        except (OSError, FileAccessError) as exc:
            why = exc.strerror if isinstance(exc, OSError) else exc
            raise LoginFailed(f"{self.path} cannot be written: {why}; logins are remembered there") from exc
        finally:
            lock.release()

    # --- refused registrations

    def refusal(self, spec: ServerSpec) -> RegistrationRefusal | None:
        """Return the refusal that a server's issuer gave, if any; `spec` has its references resolved."""
        found = _read(self._refused).get(fingerprint(spec))
        if not isinstance(found, dict) or not isinstance(found.get("issuer"), str):
            return None
        return RegistrationRefusal(found["issuer"], found.get("takesDocuments") is True)

    def note_refusal(self, spec: ServerSpec, refusal: RegistrationRefusal | None) -> None:
        """Remember that a server's issuer refused, or no longer refuses (None)."""
        key = fingerprint(spec)
        if refusal is None and key not in _read(self._refused):
            return
        try:
            with self._writing():
                known = _read(self._refused)
                known.pop(key, None)
                if refusal:
                    known[key] = {"issuer": refusal.issuer, "takesDocuments": refusal.takes_documents}
                _write(self._refused, dict(list(known.items())[-SERVERS_LIMIT:]))
        except LoginFailed:
            pass

    # --- secrets

    def grant(self, link: Link) -> Grant | None:
        """Return the tokens of a login, if any."""
        return _record(Grant, self._vault.get(grant_name(link)))

    def put_grant(self, link: Link, grant: Grant) -> str:
        """Store tokens; return their location in words."""
        where = self._vault.put(grant_name(link), _text(grant))
        self.update(
            link, logged_in=True, expires_at=grant.expires_at, renews=bool(grant.refresh_token), granted=grant.scopes
        )
        return where

    def drop_grant(self, link: Link) -> bool:
        """Remove tokens; return False if there were none."""
        was_there = self._vault.remove(grant_name(link))
        self.update(link, logged_in=False, expires_at=None, renews=False, granted=())
        return was_there

    def client(self, issuer: str) -> OAuthClient | None:
        """Return the registration at an issuer, if any."""
        return _record(OAuthClient, self._vault.get(f"client-{_digest(issuer)}"))

    def put_client(self, issuer: str, client: OAuthClient) -> None:
        """Store a registration."""
        self._vault.put(f"client-{_digest(issuer)}", _text(client))


def _read(path: str) -> dict[str, Any]:
    """Return the object in a file; a file that is absent, malformed or not ours counts as empty."""
    try:
        found = json.loads(private_files.read(path, SIZE_LIMIT_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: str, document: dict[str, Any]) -> None:
    private_files.write(path, json.dumps(document, indent=1).encode() + b"\n")


def _put_last(links: dict[str, Link], key: str, link: Link) -> None:
    links.pop(key, None)
    links[key] = link


def _text(record: LoginRecord) -> str:
    return json.dumps(msgspec.to_builtins(record))


def _record(kind: type[Kept], text: str | None) -> Kept | None:
    try:
        return _built(kind, json.loads(text)) if text else None
    except (ValueError, RecursionError):
        return None


def _built(kind: type[Kept], entry: object) -> Kept | None:
    """Build the record; return None for an entry of another version, or one that Hearth did not write."""
    try:
        return msgspec.convert(entry, kind)
    except msgspec.ValidationError:
        return None

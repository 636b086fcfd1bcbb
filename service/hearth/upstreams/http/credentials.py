"""Headers by which a server knows who asks, beyond those of its entry, and the reaction to its refusal.

There are two sources: the stored login of a server whose entry has no Authorization, and the headers of `--header`
whose references a bridge resolves. This module knows nothing of OAuth, and loads it only after a server has refused a
request, or if there are stored logins.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from hearth.addresses import UNIX
from hearth.config import ServerSpec
from hearth.errors import ConfigError, LoginRequired, UpstreamError
from hearth.places import oauth_file

if TYPE_CHECKING:
    from hearth.upstreams.http.target import SessionTarget
    from hearth.upstreams.oauth.account import Account

UNAUTHORIZED = 401
REFUSALS = frozenset({UNAUTHORIZED, 403})
_AUTHORIZATION = "Authorization"
# Between two lookups of headers that changed nothing: none after the first, then doubled each time. A user who has
# repaired the cause does not wait longer than the longest.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 16.0


def has_own_header(spec: ServerSpec) -> bool:
    """Return whether the entry has an Authorization of its own, which wins over any login."""
    return any(name.lower() == "authorization" for name in spec.headers)


class StoredLogin:
    """Login of one server, if there is one.

    `entries` is given for a server without an entry of its own, and returns those of the config by now: one with the
    same address has the login's settings.
    """

    def __init__(self, spec: ServerSpec, entries: Callable[[], Iterable[ServerSpec]] | None = None) -> None:
        self._spec = spec
        self._entries = entries
        self._account: Account | None = None

    async def headers(self) -> Mapping[str, str]:
        """Return the Authorization header; nothing without a login."""
        if self._account is None and not os.path.exists(oauth_file()):
            return {}
        account = await self._opened()
        try:
            value = await account.authorization()
        except LoginRequired as exc:
            raise self._explained(exc) from exc
        return {_AUTHORIZATION: value} if value else {}

    def accepted(self, sent: Mapping[str, str]) -> None:
        """Note that the server accepted a request."""
        if self._account:
            self._account.accepted(sent.get(_AUTHORIZATION))

    async def refused(self, status: int, challenge: str | None, sent: Mapping[str, str]) -> bool:
        """Handle a refusal."""
        account = await self._opened()
        try:
            return await account.refused(status, challenge, sent.get(_AUTHORIZATION))
        except LoginRequired as exc:
            raise self._explained(exc) from exc

    def _explained(self, exc: LoginRequired) -> LoginRequired:
        if self._entries is None or exc.server != self._spec.name:
            return exc
        return LoginRequired(
            f"server {exc.server!r} wants a login: put it into Hearth's config (`hearth add NAME --url URL`), then type"
            " `hearth auth login NAME`; the bridge uses that login from then on",
            exc.server,
        )

    async def _opened(self) -> "Account":
        if self._account is None:
            entries = tuple(self._entries()) if self._entries else ()
            # In a thread: loading the OAuth package takes tens of milliseconds.
            self._account = await asyncio.to_thread(_open, self._spec, entries)
        return self._account


def _open(spec: ServerSpec, entries: Iterable[ServerSpec]) -> "Account":
    from hearth.secrets import references
    from hearth.upstreams.oauth.account import account_of

    for entry in entries:
        try:
            if entry.url and references.glance(entry, os.environ).url == spec.url:
                return account_of(references.resolve(entry, os.environ).spec)
        except ConfigError:
            continue
    return account_of(spec)


class ResolvedHeaders:
    """Headers of `--header` with references, which the bridge resolves at first and after each 401.

    Tokens are rotated while a bridge runs: a request that was refused is repeated if the values are others by now.
    """

    def __init__(self, target: "SessionTarget", login: StoredLogin | None) -> None:
        self._target = target
        self._login = login
        self._known: dict[str, str] | None = None
        # One lookup at a time: many requests are refused at once.
        self._lock = asyncio.Lock()
        self._lookups = 0
        self._due = 0.0
        self._problem = ""

    async def headers(self) -> Mapping[str, str]:
        """Return the resolved headers, and the login's if none of them is an Authorization."""
        if self._known is None:
            async with self._lock:
                if self._known is None:
                    await self._look_up()
                    self._forget_failures()
        login = await self._login.headers() if self._login else {}
        return {**(self._known or {}), **login}

    def accepted(self, sent: Mapping[str, str]) -> None:
        """Note that the server accepted a request."""
        if self._login:
            self._login.accepted(sent)

    async def refused(self, status: int, challenge: str | None, sent: Mapping[str, str]) -> bool:
        """Look the references up again after a 401."""
        if status == UNAUTHORIZED:
            async with self._lock:
                # Another request may have looked them up meanwhile.
                if not self._differs(sent):
                    await self._look_up()
            if self._differs(sent):
                self._forget_failures()
                return True
        return await self._login.refused(status, challenge, sent) if self._login else False

    def _differs(self, sent: Mapping[str, str]) -> bool:
        return any(sent.get(name) != value for name, value in (self._known or {}).items())

    async def _look_up(self) -> None:
        """Ask the bridge, unless lookups brought nothing and the last was just now. Raises UpstreamError."""
        if monotonic() < self._due:
            if self._problem:
                raise UpstreamError(self._problem)
            return
        pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(self._lookups - 1, 16) if self._lookups else 0.0
        self._lookups += 1
        try:
            self._known = dict(await self._target.bridge.ask_headers())
            self._problem = ""
            self._target.mask.hide(self._known.values())
        except UpstreamError as exc:
            self._problem = str(exc)
            raise
        finally:
            self._due = monotonic() + min(pause, _LONGEST_PAUSE_SECONDS)

    def _forget_failures(self) -> None:
        self._lookups, self._due, self._problem = 0, 0.0, ""


# Sources of headers for the requests to one server. Their methods raise LoginRequired and UpstreamError.
HeaderSource = StoredLogin | ResolvedHeaders


def header_source(spec: ServerSpec, target: "SessionTarget | None" = None) -> HeaderSource | None:
    """Return the source for a server with its references resolved; None if its entry has all that is sent."""
    is_own = "authorization" in target.header_names if target else has_own_header(spec)
    login = None
    if not is_own and not (spec.url or "").startswith(UNIX):
        login = StoredLogin(spec, target.entries if target else None)
    return ResolvedHeaders(target, login) if target and target.has_references else login

"""Role tokens: random texts that show a role. The file has their hashes; a token itself is shown once, when issued.

The command line issues and revokes tokens under a lock; the daemon only reads, and notices a change by `stat`. A file
that cannot be read accepts no token. A token's id is the beginning of its hash, so that no second name is needed.
"""

import os
import re
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from hearth.errors import FileAccessError, Refused, RoleRefused
from hearth.host import private_files
from hearth.host.folders import make_private, refusal
from hearth.host.locks import Lock

_VERSION = 1
# Beginning of every token, by which people and scanners for secrets recognise one.
PREFIX = "hearth-role-"
TOKEN_BYTES = 32
# Longest text that is worth hashing. Tokens of this version have 55 characters.
TOKEN_LIMIT_CHARACTERS = 200
ID_CHARACTERS = 12
# A role or an agent has a name, and a label is a few words.
NAME_LIMIT_CHARACTERS = 200
# Far more than anyone can keep track of; the file is read whole.
TOKENS_LIMIT = 1000
FILE_LIMIT_BYTES = 2 * 1024 * 1024
# Ended tokens stay listed for so long: "expired" says more than "unknown" to a client that still has one.
ENDED_SECONDS = 30 * 86400.0


_ISSUE = "`hearth role token ROLE` issues a new one"
_HASH = re.compile(r"[0-9a-f]{64}")


class TokenHolder(NamedTuple):
    """Role and agent that a valid token shows."""

    role: str
    agent_id: str | None
    token_id: str


class RoleToken(NamedTuple):
    """Token as stored. Times are seconds since 1970; `expires` None is never, `revoked` None is not revoked."""

    hash: str
    role: str
    agent_id: str | None
    label: str
    created: float
    expires: float | None
    revoked: float | None

    @property
    def id(self) -> str:
        """Short name of the token; says nothing about it."""
        return self.hash[:ID_CHARACTERS]

    def state(self, now: float) -> str:
        """Return "valid", "expired" or "revoked"."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def ended(self, now: float) -> float | None:
        """Return when the token became invalid, None if it is valid."""
        ends = [end for end in (self.revoked, self.expires) if end is not None and end <= now]
        return min(ends) if ends else None


class RoleTokens:
    """Tokens of one profile (Places.role_tokens())."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock(path + ".lock")
        self._stamp: private_files.Stamp = None
        self._tokens: dict[str, RoleToken] = {}
        self._problem: FileAccessError | None = None

    # --- for the daemon

    def check(self, token: str) -> TokenHolder:
        """Return the role and the agent that a token shows. Raises RoleRefused."""
        try:
            found = self._current().get(_hash(token)) if 0 < len(token) <= TOKEN_LIMIT_CHARACTERS else None
        except FileAccessError as exc:
            raise RoleRefused(f"no role token is accepted: {exc}", "unreadable") from exc
        if found is None:
            raise RoleRefused(f"the role token is unknown: {_ISSUE}", "unknown")
        state = found.state(time.time())
        if state != "valid":
            ended = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.ended(time.time())))
            verb = "was revoked" if state == "revoked" else "expired"
            what = f"the role token {found.id} (role {found.role!r}) {verb} at {ended}"
            raise RoleRefused(f"{what}: {_ISSUE}", state)
        return TokenHolder(found.role, found.agent_id, found.id)

    def ended(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids whose tokens are accepted no longer."""
        try:
            known = {token.id: token for token in self._current().values()}
        except FileAccessError as exc:
            if isinstance(exc.__cause__, OSError):
                # Too many open files, say: nothing is known of the tokens, and they may all be valid.
                return set()
            known = {}
        now = time.time()
        return {id for id in ids if id not in known or known[id].state(now) != "valid"}

    # --- for the command line

    def issue(self, role: str, agent_id: str | None = None, expires_in: float | None = None, label: str = "") -> str:
        """Store a new token and return it; it is not shown again. `expires_in` is in seconds, None is never.

        Raises FileAccessError, and Refused for a name that is too long or too many tokens.
        """
        for value in (role, agent_id or "", label):
            if len(value) > NAME_LIMIT_CHARACTERS:
                raise Refused(f"{value[:40]!r}… is over the limit of {NAME_LIMIT_CHARACTERS} characters; shorten it")
        token = _new_token()
        now = time.time()
        expires = None if expires_in is None else now + expires_in
        self._edit(RoleToken(_hash(token), role, agent_id, label, now, expires, None))
        return token

    def list(self) -> "list[RoleToken]":
        """Return the tokens, oldest first. Raises FileAccessError."""
        return sorted(self._current().values(), key=lambda token: token.created)

    def revoke(self, id: str) -> RoleToken:
        """Revoke a token for good, and return it. Raises FileAccessError, and Refused for an unknown id.

        A beginning of the id will do, if no other token has it. Revoking twice changes nothing.
        """
        self._acquire()
        try:
            matching = [token for token in self._current().values() if id and token.hash.startswith(id.lower())]
            if len(matching) != 1 or len(id) > len(matching[0].hash):
                what = "is not the id of a role token" if not matching else "is the beginning of several ids"
                raise Refused(f"{id[:80]!r} {what}; `hearth role list` shows them")
            (found,) = matching
            if found.revoked is None:
                found = found._replace(revoked=time.time())
                self._write({**self._tokens, found.hash: found})
            return found
        finally:
            self._lock.release()

    def _edit(self, added: RoleToken) -> None:
        self._acquire()
        try:
            kept = {
                token.hash: token
                for token in self._current().values()
                if (token.ended(added.created) or added.created) > added.created - ENDED_SECONDS
            }
            if len(kept) >= TOKENS_LIMIT:
                raise Refused(f"there are {TOKENS_LIMIT} role tokens already; `hearth role revoke ID` ends one")
            self._write({**kept, added.hash: added})
        finally:
            self._lock.release()

    # --- the file

    def _acquire(self) -> None:
        make_private(os.path.dirname(self.path))
        self._lock.acquire()

    def _current(self) -> dict[str, RoleToken]:
        """Return the tokens by hash, read again if the file has changed or was not read. Raises FileAccessError."""
        stamp = private_files.stamp(self.path)
        if stamp != self._stamp or self._problem:
            self._tokens, self._problem = {}, None
            try:
                self._tokens = _read(self.path)
            except FileAccessError as exc:
                self._problem = exc
            self._stamp = stamp
        if self._problem:
            raise self._problem
        return self._tokens

    def _write(self, tokens: dict[str, RoleToken]) -> None:
        import json

        rows = [token._asdict() for token in tokens.values()]
        data = json.dumps({"version": _VERSION, "tokens": rows}, indent=1).encode() + b"\n"
        try:
            private_files.write(self.path, data, durable=True)
        except OSError as exc:
            raise refusal("write the role tokens", self.path, exc) from exc
        self._tokens, self._problem, self._stamp = tokens, None, private_files.stamp(self.path)


def token_id(token: str) -> str:
    """Return the id of a token."""
    return _hash(token)[:ID_CHARACTERS]


def _new_token() -> str:
    from base64 import urlsafe_b64encode

    return PREFIX + urlsafe_b64encode(os.urandom(TOKEN_BYTES)).decode().rstrip("=")


def _hash(token: str) -> str:
    # One round is enough: 256 random bits cannot be guessed, unlike a password.
    from hashlib import sha256

    return sha256(token.encode("utf-8", "replace")).hexdigest()


def _read(path: str) -> dict[str, RoleToken]:
    """Return the tokens in the file. Raises FileAccessError."""
    import json

    try:
        data = private_files.read(path, FILE_LIMIT_BYTES)
    except OSError as exc:
        raise refusal("read the role tokens", path, exc) from exc
    except ValueError as exc:
        raise FileAccessError(f"cannot read the role tokens {path}: {exc}; move the file away") from exc
    if not data:
        return {}
    try:
        tree = json.loads(data)
        if tree["version"] != _VERSION:
            raise ValueError("another version")
        return {token.hash: token for token in map(_token, tree["tokens"])}
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise FileAccessError(
            f"{path} is not a file of role tokens of this version; move it away and issue new tokens"
        ) from exc


def _token(row: dict[str, Any]) -> RoleToken:
    """Return one stored token. Raises ValueError, KeyError or TypeError."""
    token = RoleToken(**row)
    texts = (token.hash, token.role, token.agent_id or "", token.label)
    times = (token.created, token.expires or 0.0, token.revoked or 0.0)
    is_sound = all(isinstance(text, str) for text in texts) and all(isinstance(at, int | float) for at in times)
    if not is_sound or not _HASH.fullmatch(token.hash):
        raise ValueError("not a token")
    return token

"""Grants that a lead or a person gave: for one call, for one session, or always. Knows no sessions, only principals.

The rules:

1. A grant fits a call if principal, role, server, tool, tool definition and the digest of the raw arguments are all
   equal. A changed byte asks again. Wider permissions belong into the policy, where they can be read.
2. A grant for one call is taken once, within `ONCE_SECONDS`, and is removed from the disk before the call is sent.
3. A grant for a session ends with the daemon, or with the session's secret.
4. A grant for always is bound to the role instead of the principal. `approvals.toml` beside the policy holds it, where
   a person can read and remove it; only a person's decision writes it.
5. A lead's grant does not serve a call that only a person may allow, as after a change of the policy.
6. Requests that wait for a decision are on disk, too (`pending`): a call that a bridge repeats after a crash of the
   daemon has certainly not run if it was still waiting.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hearth.config.loader import read_file
from hearth.errors import ConfigError, FileAccessError
from hearth.host import folders, private_files

log = logging.getLogger(__name__)

# Time to repeat a call that was answered with "pending": models do so at once, people are sometimes asked first.
ONCE_SECONDS = 600.0
# Grants and waiting requests of one daemon; the oldest go first. A person does not decide more in ten minutes.
STATE_LIMIT = 2000
FILE_LIMIT_BYTES = 4 * 1024 * 1024

ONCE, SESSION, ALWAYS = "once", "session", "always"
_HEADER = """\
# Calls that a person allowed for always. Each entry fits one tool with exactly these arguments, for one role.
# `hearth approvals --granted` lists them, `hearth approvals --revoke ID` removes one; so does removing it here.
"""


class GrantKey(NamedTuple):
    """Call that a grant fits. `server` is empty for a client's own tool; `definition` and `digest` are hashes."""

    principal: str
    server: str
    tool: str
    definition: str
    digest: str


class CallGrant(NamedTuple):
    """Permission for one call. `id` is the approval's; `until` is 0 for a grant without an end."""

    id: str
    scope: str
    role: str
    key: GrantKey
    decided_by: str
    until: float = 0.0
    is_persons: bool = True

    def describe(self) -> dict[str, object]:
        """Return the grant for `hearth approvals --granted --json`."""
        return {
            "id": self.id,
            "scope": self.scope,
            "role": self.role,
            "server": self.key.server or None,
            "tool": self.key.tool,
            "digest": self.key.digest,
            "decidedBy": self.decided_by,
            "until": self.until or None,
        }


def always_file(policy_file: str) -> str:
    """Return the file of grants for always, beside the policy."""
    return os.path.join(os.path.dirname(policy_file), "approvals.toml")


class GrantStore:
    """Grants and waiting requests of one daemon. `state` and `always` are the paths of the two files.

    Methods that write raise FileAccessError: a decision counts only when it is on disk.
    """

    def __init__(self, state: str, always: str, now: Callable[[], float] = time.time) -> None:
        self._state = state
        self._always_path = always
        self._now = now
        self._once: dict[GrantKey, CallGrant] = {}
        self._session: dict[GrantKey, CallGrant] = {}
        self._always: dict[tuple[str, str, str, str, str], CallGrant] = {}
        self._always_seen: tuple[int, int] | None = None
        # Reason why the file of grants for always is not used.
        self._always_problem = ""
        # Requests that wait for a decision, by key, with the id of their approval.
        self._waiting: dict[GrantKey, str] = {}
        # Requests that waited when a former daemon ended.
        self.interrupted: set[GrantKey] = set()
        self._read_state()

    # --- reading

    def take(self, key: GrantKey, role: str, is_for_person: bool = False) -> CallGrant | None:
        """Return the grant that fits a call; one for a single call is used up. Raises FileAccessError.

        `is_for_person`: the policy wants a person's decision, and a lead's grant does not serve.
        """
        lasting = self._lasting(key, role)
        if lasting is not None:
            return lasting
        found = self._once.get(key)
        if found is None or found.role != role or (is_for_person and not found.is_persons):
            return None
        del self._once[key]
        self._write_state()
        return found if found.until >= self._now() else None

    def _lasting(self, key: GrantKey, role: str) -> CallGrant | None:
        """Return the grant for the session or for always that fits a call."""
        found = self._session.get(key)
        return found if found and found.role == role else self._read_always().get((role, *key[1:]))

    def list(self) -> "list[CallGrant]":
        """Return all grants that are still good."""
        now = self._now()
        once = [grant for grant in self._once.values() if grant.until >= now]
        return [*once, *self._session.values(), *self._read_always().values()]

    # --- writing

    def give(self, grant: CallGrant) -> None:
        """Store a grant. Raises FileAccessError."""
        if grant.scope == SESSION:
            self._session[grant.key] = grant
            _forget_oldest(self._session)
        elif grant.scope == ALWAYS:
            known = self._read_always()
            self._check_readable()
            self._write_always({**known, (grant.role, *grant.key[1:]): grant})
        else:
            former = dict(self._once)
            self._once[grant.key] = grant._replace(until=self._now() + ONCE_SECONDS)
            _forget_oldest(self._once)
            try:
                self._write_state()
            except FileAccessError:
                self._once = former
                raise

    def revoke(self, id: str) -> bool:
        """Remove the grants of that id; return whether there was one. Raises FileAccessError."""
        known = self._read_always()
        kept = {key: grant for key, grant in known.items() if grant.id != id}
        once = {key: grant for key, grant in self._once.items() if grant.id != id}
        session = {key: grant for key, grant in self._session.items() if grant.id != id}
        was_there = len(kept) < len(known) or len(once) < len(self._once) or len(session) < len(self._session)
        if len(kept) < len(known):
            self._write_always(kept)
        if len(once) < len(self._once):
            self._once = once
            self._write_state()
        self._session = session
        return was_there

    def wait(self, key: GrantKey, id: str) -> None:
        """Record that a request waits for a decision. Raises FileAccessError."""
        self._waiting[key] = id
        _forget_oldest(self._waiting)
        try:
            self._write_state()
        except FileAccessError:
            self._waiting.pop(key, None)
            raise

    def settle(self, key: GrantKey) -> None:
        """Record that a request waits no longer. Raises FileAccessError."""
        if self._waiting.pop(key, None) is not None:
            self._write_state()

    def was_interrupted(self, key: GrantKey) -> bool:
        """Tell, once, whether a request waited for a decision when a former daemon ended: it has not run."""
        if key in self.interrupted:
            self.interrupted.discard(key)
            return True
        return False

    # --- files

    def _read_state(self) -> None:
        try:
            data = private_files.read(self._state, FILE_LIMIT_BYTES)
            document: dict[str, Any] = json.loads(data) if data else {}
            once = {}
            for each in document.get("once", []):
                key, until = GrantKey(*_texts(*each["key"])), float(each["until"])
                id, role, by = _texts(each["id"], each["role"], each["by"])
                if until >= self._now():
                    once[key] = CallGrant(id, ONCE, role, key, by, until, each.get("isPersons") is True)
            self.interrupted = {GrantKey(*_texts(*key)) for key in document.get("waiting", [])}
            self._once = once
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
            # No grant is better than a wrong one: what was granted is asked again.
            log.warning("approvals of the former daemon cannot be read path=%s reason=%s", self._state, exc)

    def _write_state(self) -> None:
        once = [
            {
                "id": grant.id,
                "role": grant.role,
                "key": list(grant.key),
                "by": grant.decided_by,
                "until": grant.until,
                "isPersons": grant.is_persons,
            }
            for grant in self._once.values()
        ]
        document = {"once": once, "waiting": [list(key) for key in self._waiting]}
        self._write(self._state, json.dumps(document).encode())

    def _read_always(self) -> dict[tuple[str, str, str, str, str], CallGrant]:
        try:
            found = os.stat(self._always_path)
            seen = (found.st_mtime_ns, found.st_size)
        except OSError:
            self._always, self._always_seen, self._always_problem = {}, None, ""
            return self._always
        if seen != self._always_seen:
            self._always = self._parse_always()
            self._always_seen = seen
        return self._always

    def _parse_always(self) -> dict[tuple[str, str, str, str, str], CallGrant]:
        import tomllib

        found = {}
        self._always_problem = ""
        try:
            data = read_file(self._always_path, FILE_LIMIT_BYTES) or b""
            for each in tomllib.loads(data.decode()).get("always", []):
                id, role, by = _texts(each["id"], each["role"], each["decided_by"])
                key = GrantKey("", *_texts(*(each[name] for name in GrantKey._fields[1:])))
                found[(role, *key[1:])] = CallGrant(id, ALWAYS, role, key, by)
        except KeyError as exc:
            self._always_problem = f"an entry without {exc}"
        except (ConfigError, ValueError, TypeError, RecursionError) as exc:
            self._always_problem = str(exc)
        if self._always_problem:
            log.warning("approvals for always are not used path=%s reason=%s", self._always_path, self._always_problem)
            return {}
        return found

    def _check_readable(self) -> None:
        """Raise FileAccessError for a file with a mistake: to write it would remove what a person wrote."""
        if self._always_problem:
            what = f"{self._always_path} cannot be read ({self._always_problem})"
            raise FileAccessError(f"{what}: correct or remove it; the decision does not count")

    def _write_always(self, grants: dict[tuple[str, str, str, str, str], CallGrant]) -> None:
        parts = [_HEADER]
        for grant in grants.values():
            fields = {"id": grant.id, "role": grant.role, **grant.key._asdict(), "decided_by": grant.decided_by}
            del fields["principal"]
            parts.append("\n[[always]]\n" + "".join(f"{key} = {_quoted(value)}\n" for key, value in fields.items()))
        self._write(self._always_path, "".join(parts).encode("utf-8", "replace"))
        self._always_seen = None

    def _write(self, path: str, data: bytes) -> None:
        try:
            if path == self._state:
                folders.make_private(os.path.dirname(path))
            private_files.write(path, data)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise FileAccessError(f"{path} cannot be written ({reason}); the decision does not count") from exc


def _quoted(text: str) -> str:
    """Return a text as TOML: a JSON string, but for surrogates, which TOML has no escapes for, and a bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(*values: object) -> "list[str]":
    """Return the values of a file, each of which must be a text. Raises TypeError."""
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{value!r} is no text")
    return [*map(str, values)]


def _forget_oldest(table: dict[GrantKey, Any]) -> None:
    while len(table) > STATE_LIMIT:
        del table[next(iter(table))]

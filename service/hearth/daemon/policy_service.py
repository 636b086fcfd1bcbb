"""Policy of a running daemon: its file, and the guard that applies it.

A `stat` finds a change of the file: with each tick, hello, control request and, four times a second, with a call.
A new policy is parsed whole and swapped whole; a mistake keeps the last good one and is reported. A start with a broken
file takes the copy of the last good one, and without a copy asks a person about everything. With `apply = "manual"` a
change waits for `hearth policy apply`. The list of trusted projects is looked at as often as the file. Nothing of
`hearth.policy` is imported before there is a file.
"""

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hearth.config.loader import read_file
from hearth.daemon.attribution import Attribution
from hearth.daemon.config_file import ConfigFile
from hearth.daemon.heard_hooks import HeardHooks
from hearth.errors import ConfigError, FileAccessError, Refused
from hearth.host import folders, private_files
from hearth.hub.agent_directory import TOKEN_PREFIX
from hearth.hub.events import EVENTS, PolicyReloaded
from hearth.hub.hub import Hub
from hearth.hub.sessions import POLICY_SERVER, Session
from hearth.paths import Places

if TYPE_CHECKING:
    from hearth.daemon.policy_audit import AuditRecorder
    from hearth.hub.authorization.guard import Guard
    from hearth.hub.authorization.hooks import HookService
    from hearth.policy.audit import AuditLog
    from hearth.policy.model import Policy
    from hearth.policy.role_tokens import RoleTokens
    from hearth.policy.trust import TrustStore

log = logging.getLogger(__name__)

# A policy of thousands of rules; more is not a policy.
FILE_LIMIT_BYTES = 4 * 1024 * 1024
# Beginning of a digest that names a change: shorter ones could be guessed without a look at it.
DIGEST_CHARACTERS = 8


class PolicyService:
    """Policy file of one daemon, and everything that exists only while there is one."""

    def __init__(self, places: Places, hub: Hub) -> None:
        self._places = places
        self._hub = hub
        self._attribution = Attribution(hub)
        self.attributed = self._attribution.attributed
        self.origin = self._attribution.origin
        self.called_by = self._attribution.called_by
        self.callers = self._attribution.callers
        self._path = places.policy_file()
        self._file = ConfigFile(self._path, None, self._changed)
        # Problem of the file, while an older policy is in force.
        self.error: str | None = None
        # Digest of a change that waits for `hearth policy apply`.
        self.waiting: str | None = None
        self.audit: AuditLog | None = None
        self._recorder: AuditRecorder | None = None
        self._hooks: HookService | None = None
        self._trust: TrustStore | None = None
        self.heard = HeardHooks()
        self._tokens: RoleTokens | None = None
        # Ids of the role tokens by which open connections have their roles. Other wires show theirs with each request.
        self._shown: WeakKeyDictionary[Session, str] = WeakKeyDictionary()
        # A link that leads nowhere is a policy, too; and a removal may wait for `hearth policy apply`.
        if os.path.lexists(self._path) or os.path.lexists(places.last_policy):
            self._file.about_to_be_read()
            self._load(is_start=True)

    @property
    def guard(self) -> "Guard | None":
        """Guard of the policy in force; None without a policy."""
        return self._hub.policy.guard

    # --- the file

    def look(self) -> None:
        """Look for a change of the file."""
        self._file.look()
        self._look_at_projects()
        self._look_at_tokens()

    def look_at_once(self) -> None:
        """Look for a change of the file, and do not wait for one that was written a while ago."""
        self._file.look_at_once()
        self._look_at_projects()
        self._look_at_tokens()

    def _changed(self) -> None:
        self._file.about_to_be_read()
        self._load(is_change=True)

    def _load(self, is_start: bool = False, wanted: str | None = None, is_change: bool = False) -> None:
        """Read the file and put it in force; `wanted` is the digest that a person or a lead has approved."""
        from hearth.policy import loader

        try:
            data = read_file(self._path, FILE_LIMIT_BYTES)
            if is_change and not self._file.was_left_alone():
                # A part of a policy may be a valid one that allows more, and a missing one allows everything.
                return
            if data is None and os.path.lexists(self._path):
                raise ConfigError([f"{self._path}: is a link that leads nowhere"])
            policy = None if data is None else loader.parse(self._path, data)
        except ConfigError as exc:
            self._keep_last_good(str(exc), is_start)
            return
        except Exception as exc:
            # Whatever the reader of policies stumbles over, it must not leave everything allowed.
            log.exception("unhandled exception while reading the policy path=%s", self._path)
            self._keep_last_good(f"{self._path}: cannot be read: {exc!r}", is_start)
            return
        guard = self.guard
        digest = policy.digest if policy else "none"
        former = guard.policy if guard else self._last_good() if is_start else None
        if former and former.apply == "manual" and former.digest != digest and wanted != digest:
            self.waiting, self.error = digest, None
            log.warning("policy change waits digest=%s; `hearth policy apply %s` applies it", digest, digest[:12])
            if guard is None:
                self._apply(former)
            return
        self.error = self.waiting = None
        if policy is None or data is None:
            private_files.remove(self._places.last_policy)
            if guard is None:
                return
            guard.approvals.drain("the policy was removed; call again")
            self._hub.policy.apply(None)
            self._hooks = None
            log.warning("policy removed path=%s; every session may do everything", self._path)
        else:
            self._keep(data)
            self._apply(policy)
            log.info("policy in force path=%s digest=%s roles=%s", self._path, digest[:12], ",".join(policy.roles))
        EVENTS.emit(PolicyReloaded(path=self._path))

    def _keep_last_good(self, problem: str, is_start: bool) -> None:
        from hearth.policy import loader

        self.error = problem
        log.error("policy not loaded, the last good one stays reason=%s", problem)
        EVENTS.emit(PolicyReloaded(path=self._path, error=problem[:500]))
        if self.guard is None:
            last = self._last_good() if is_start else None
            self._apply(last or loader.everything_asked(self._path, f"the policy is broken: {problem}"))

    def _last_good(self) -> "Policy | None":
        from hearth.policy import loader

        try:
            data = private_files.read(self._places.last_policy, FILE_LIMIT_BYTES)
            return loader.parse(self._path, data) if data else None
        except (OSError, ConfigError):
            return None

    def _keep(self, data: bytes) -> None:
        try:
            folders.make_private(os.path.dirname(self._places.last_policy))
            private_files.write(self._places.last_policy, data)
        except (OSError, FileAccessError) as exc:
            log.warning("policy cannot be kept for a start with a broken one reason=%s", exc)

    def apply(self, digest: str) -> str:
        """Put a change in force that waits. Raises Refused."""
        if self.waiting is None:
            raise Refused("no change of the policy waits")
        if len(digest) < min(DIGEST_CHARACTERS, len(self.waiting)) or not self.waiting.startswith(digest):
            raise Refused(f"the change that waits has the digest {self.waiting[:12]}, not {digest[:12]!r}")
        self._load(wanted=self.waiting)
        if self.error:
            raise Refused(self.error)
        if self.waiting:
            raise Refused(f"{self._path} was edited again in the meantime; its digest is {self.waiting[:12]} now")
        return f"{self._path} is in force"

    def close(self) -> None:
        """Stop looking at the file, and write what the audit trail still has to write."""
        self._file.close()
        if self.audit:
            self.audit.close()

    # --- the guard

    def _apply(self, policy: "Policy") -> None:
        guard = self.guard
        if guard is None:
            self._hub.policy.apply(self._make_guard(policy))
        else:
            guard.policy = policy
            guard.approvals.policy_changed()
            if self._recorder:
                self._recorder.apply(policy.audit)
            self._hub.policy.changed()

    def _make_guard(self, policy: "Policy") -> "Guard":
        # Loaded with the first policy.
        from hearth.daemon.policy_audit import AuditRecorder
        from hearth.host.notifications import show
        from hearth.hub.authorization.approvals import Approvals
        from hearth.hub.authorization.guard import Guard
        from hearth.hub.authorization.hook_decider import HookDecider
        from hearth.hub.authorization.hooks import HookService
        from hearth.policy.audit import AuditLog
        from hearth.policy.grants import GrantStore, always_file
        from hearth.policy.role_tokens import RoleTokens
        from hearth.policy.trust import TrustStore

        places, seam = self._places, self._hub.policy
        if POLICY_SERVER in self._hub.config.served:
            log.warning("server %r of the config hides Hearth's own; rename it, or leads decide nothing", POLICY_SERVER)
        self.audit = self.audit or AuditLog(places.audit)
        recorder = self._recorder = AuditRecorder(self.audit, policy.audit)
        approvals = Approvals(
            self._hub.pending,
            self._hub.sessions,
            seam.questions,
            GrantStore(places.grants, always_file(self._path)),
            recorder.approval,
            seam.spawn,
            show,
            seam.agents,
            self._attribution.agent_above,
            self._attribution.sessions_above,
        )
        tokens = self._tokens = RoleTokens(places.role_tokens())
        guard = Guard(policy, approvals, recorder, tokens, self.look_at_once, seam.agents)
        self._hooks = HookService(HookDecider(guard, recorder, self._attribution.owner_of, self._hub.has_tool))
        self._trust = TrustStore(places.trusted)
        self._read_projects(guard, self._trust)
        return guard

    def hold(self, session: Session, token: str | None) -> None:
        """Note the token by which a connection has its role: the session ends with the token."""
        if token is not None and self.guard is not None and not token.startswith(TOKEN_PREFIX):
            from hearth.policy.role_tokens import token_id

            self._shown[session] = token_id(token)

    def _look_at_tokens(self) -> None:
        """End the sessions whose tokens were revoked or have expired."""
        if self._tokens is None or not self._shown or self.guard is None:
            return
        ended = self._tokens.ended(set(self._shown.values()))
        for session in [each for each, id in self._shown.items() if id in ended]:
            del self._shown[session]
            # Later: the look may be a part of a call of this very session.
            asyncio.get_running_loop().call_soon(self._end, session)

    def _end(self, session: Session) -> None:
        if not session.left:
            log.info("session ended, its role token is valid no longer", extra={"session": session.id})
            session.sink.close()
            self._hub.close_session(session)

    def _look_at_projects(self) -> None:
        """Look for a change of what is trusted, and apply it."""
        guard = self.guard
        if guard and self._trust and self._trust.changed():
            self._read_projects(guard, self._trust)
            self._hub.policy.changed()

    def _read_projects(self, guard: "Guard", trust: "TrustStore") -> None:
        try:
            guard.projects = trust.policies()
        except FileAccessError as exc:
            log.error("trusted projects cannot be read, the former ones stay reason=%s", exc)

    def hooks(self) -> "HookService | None":
        """Return the service that answers hooks; None without a policy."""
        self.look_at_once()
        return self._hooks

    def describe(self) -> dict[str, Any] | None:
        """Return the policy for the status document; None without one."""
        guard = self.guard
        if guard is None:
            return None
        return {
            "path": self._path,
            "digest": guard.policy.digest,
            "roles": list(guard.policy.roles),
            "defaultRole": guard.policy.default_role,
            "error": self.error,
            "waiting": self.waiting,
            "pending": len(self._hub.pending),
            "hooked": self.heard.describe(),
        }

"""Guard: the policy in force, applied to sessions, lists and requests. Exists only while there is a policy file.

The rules:

1. A session's role is the one of its role token, else a claimed one that the policy marks `claimable`, else the default
   role. Roles are looked up by name in the policy in force, so that a reload reaches every session.
2. Lists contain what the role may see (`Guard.visible`). A request is authorised once its target is known, whatever way
   it was found (`Guard.authorize`): a list that was filtered proves nothing.
3. A decision holds for one policy object. A call that waited is decided again when it is sent.
4. A trusted project's policy narrows the policy of sessions that began in it (`Guard.policy_for`).
5. A call that must be asked waits for `approval_wait`, then is answered with "pending"; the same call again takes the
   grant. The server `policy` is for leads and people, and is always allowed to them.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from hearth.errors import HearthError, Refused
from hearth.hub.agent_directory import AgentDirectory
from hearth.hub.authorization.approvals import Approval, Approvals
from hearth.hub.authorization.decided_call import LATE_DIGEST_BYTES, Permit, Recorder, Standing, ToolName, digest_of
from hearth.hub.authorization.own_tools import HOOK, PERMISSION, OnAsked, OwnTools, denied
from hearth.hub.authorization.pending import HUMAN, Asker, Settlement
from hearth.hub.authorization.permit import CallPermit, Postponed
from hearth.hub.calls import Call
from hearth.hub.catalog import NotForRole, Target
from hearth.hub.sessions import POLICY_SERVER, Proven, Session, agent_principal
from hearth.mcp import versions
from hearth.mcp.catalog import PROMPTS, RESOURCES, TEMPLATES, TOOLS, Item, ListKind, ServerCatalog
from hearth.mcp.search_tools import ToolFailure
from hearth.policy.agent_modes import AGENT_MODE, arguments_of
from hearth.policy.decision import allowed_by_name, decide, sees
from hearth.policy.grants import ONCE, GrantKey
from hearth.policy.guard import mentions
from hearth.policy.model import BUILT_IN, NOT_IN_ROLE, Decision, Kind, Policy, Role
from hearth.upstreams.server import Server
from hearth.wire import json, values

if TYPE_CHECKING:
    from hearth.policy.role_tokens import RoleTokens
    from hearth.policy.trust import ProjectPolicies

log = logging.getLogger(__name__)

# Clients with a progress token hear from a waiting call this often.
PROGRESS_SECONDS = 10.0
# Calls look at the policy file this often at most: a `stat` for each of them would be a tenth of its time.
LOOK_SECONDS = 0.25
_KINDS: dict[ListKind, Kind] = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources", TEMPLATES: "resources"}


class CallDenied(ToolFailure):
    """Denial of a tool call, with the reason."""


class AwaitApproval(Postponed):
    """Order to wait for an approval: the pipeline runs `wait` and repeats the authorization when it is over."""

    rpc_code = versions.INVALID_PARAMS

    def __init__(self, guard: "Guard", permit: "Permit", arguments: bytes) -> None:
        super().__init__("not run: the policy asks about this call now, or its approval was revoked; call again")
        self._guard = guard
        self._permit = permit
        self._arguments = arguments

    async def wait(self, call: Call, again: Callable[[], None]) -> None:
        """Wait for the approval, then go on; answer the call if it is denied or still pending."""
        await self._guard.wait(call, self._permit, self._arguments, again)


class Guard:
    """Policy in force for one daemon. `look` checks whether the policy file has changed."""

    def __init__(
        self,
        policy: Policy,
        approvals: Approvals,
        recorder: Recorder,
        tokens: "RoleTokens",
        look: Callable[[], None] = lambda: None,
        agents: Callable[[], AgentDirectory | None] = lambda: None,
    ) -> None:
        self.policy = policy
        self.approvals = approvals
        approvals.roles = self
        self.recorder = recorder
        self._tokens = tokens
        self._own_tools = OwnTools(self)
        # Returns the directory of agents, if there is one.
        self.agents = agents
        self._look = look
        self._look_at = 0.0
        # Policies of trusted projects, if there are any.
        self.projects: ProjectPolicies | None = None

    def policy_for(self, origin: str | None) -> Policy:
        """Return the policy for sessions that began in a folder, narrowed by that of a trusted project."""
        return self.projects.over(self.policy, origin) if self.projects else self.policy

    # --- roles

    def role_name(self, session: Session) -> str:
        """Return the name of a session's role."""
        if session.token_role is not None:
            return session.token_role
        claimed = self.policy.roles.get(session.role or "")
        return claimed.name if claimed and claimed.claimable else self.policy.default_role

    def role(self, session: Session) -> Role | None:
        """Return a session's role; None if the policy no longer has it: then nothing is allowed."""
        return self.policy_for(session.cwd).roles.get(self.role_name(session))

    def may_start(self, session: Session, role: str) -> bool:
        """Tell whether a session may create agents of a role (`may_start`)."""
        mine = self.role(session)
        return mine is not None and role in mine.may_start

    def admit(self, claimed: str | None, token: str | None, agent: Proven | None = None) -> Proven:
        """Return the role and agent id that a token proves, for a session that begins. Raises Refused.

        `agent` is what an agent's token has proved; then there is no role token.
        """
        known = ", ".join(self.policy.roles)
        if claimed is not None and claimed not in self.policy.roles:
            raise Refused(f"there is no role {claimed!r} in {self.policy.path}; known: {known}")
        if token is not None and agent is None:
            holder = self._tokens.check(token)
            self._check_role(claimed, holder.role, "role token")
            return holder.role, holder.agent_id
        if agent is not None and agent[0] is not None:
            self._check_role(claimed, agent[0], "agent token")
        elif claimed is not None and claimed != self.policy.default_role and not self.policy.roles[claimed].claimable:
            raise Refused(
                f"role {claimed!r} needs a role token: `hearth role token {claimed}` writes one, and"
                " `--token-file PATH` of the bridge uses it"
            )
        return agent or (None, None)

    def _check_role(self, claimed: str | None, role: str, token: str) -> None:
        if claimed is not None and claimed != role:
            raise Refused(f"the {token} is for role {role!r}, not for {claimed!r}")
        if role not in self.policy.roles:
            raise Refused(f"the {token} is for role {role!r}, which {self.policy.path} does not have")

    def asker(self, session: Session) -> Asker:
        """Return a session as the one that makes a call."""
        return Asker(
            session.principal,
            self.role_name(session),
            session.id,
            session.client.get("name", ""),
            session.proven[1] or "",
            session.cwd,
            session.cwd,
        )

    def agent_asker(self, agent: str, client: str = "", workspace: str | None = None) -> Asker:
        """Return an agent as the one that makes a call, without a session of it. Raises Refused for a closed one."""
        agents = self.agents()
        identity = agents.identity(agent) if agents else None
        if identity is None:
            raise Refused(f"agent {agent!r} is closed, and may do nothing any more")
        role, folder = identity.role or self.policy.default_role, identity.cwd
        return Asker(agent_principal(agent), role, "", client or identity.client, agent, workspace or folder, folder)

    # --- lists

    def visible(self, session: Session, server: Server, offered: ServerCatalog) -> ServerCatalog | None:
        """Return the part of a catalog that the session's role may see; None if it may see nothing of it."""
        role = self.role(session)
        if role is None:
            return None
        if server.name == POLICY_SERVER:
            return offered if role.lead or role.human else None

        def is_seen(item: Item) -> bool:
            return sees(role, _KINDS[item.kind], server.name, item.name)

        found = offered.restricted(is_seen)
        return found if any(found.lists.values()) or not any(offered.lists.values()) else None

    def refusal(self, session: Session, exposed: str, server: str, tool: str) -> HearthError:
        """Return the error for a call of a tool that the session's role may not see, and record it."""
        standing = self._standing(session)
        decision = Decision("deny", "", NOT_IN_ROLE, standing.policy.path)
        Permit(standing, (server, tool), b"", decision, monotonic()).end("denied")
        return NotForRole("tool", exposed, standing.role)

    def serves(self, session: Session, server: Server) -> bool:
        """Tell whether a server exists for a session at all: the built-in one does for leads and people only."""
        role = self.role(session) if server.name == POLICY_SERVER else None
        return server.name != POLICY_SERVER or (role is not None and (role.lead or role.human))

    def check_resource(self, session: Session, server: Server, uri: str) -> None:
        """Raise NotForRole if the session may not read a resource of a server."""
        role = self.role(session)
        if role is None or not sees(role, "resources", server.name, uri):
            raise NotForRole("resource", uri, self.role_name(session))

    def may_send(self, session: Session, server: Server, method: str) -> bool:
        """Tell whether a session may send an unknown method to a server."""
        role = self.role(session)
        return role is not None and sees(role, "methods", server.name, method)

    # --- requests

    def authorize(self, call: Call, target: Target | None) -> None:
        """Authorize a request whose target is known. Raises NotForRole, CallDenied, and Postponed for an approval."""
        now = monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look()
        if target is None:
            # Hearth answers it, from lists that are filtered.
            return
        request, server = call.request, target.server
        session = request.session
        if request.method != "tools/call":
            self._authorize_other(call, session, target)
            return
        standing = session.standing
        if standing is None or standing.base is not self.policy or standing.projects is not self.projects:
            standing = self._standing(session)
            session.stand(standing)
        name = target.tool or (server.name, values.text(target.changes.get("name")) or "")
        former = call.permit
        if former is not None and former.fits(standing, name):
            return
        arguments = bytes(request.params.get("arguments", b"{}"))
        kept = arguments if len(arguments) <= LATE_DIGEST_BYTES else digest_of(arguments)
        known = standing.by_name.get(name)
        if known is not None and not (known.is_scanned and mentions(arguments)):
            # The path of most calls; `make bench` measures it.
            call.allow(Permit(standing, name, kept, known.decision, now))
            return
        decision = self._decide(standing, name, arguments, session.cwd)
        permit = Permit(standing, name, kept, decision, now)
        outcome = decision.outcome
        if outcome == "allow":
            call.allow(permit)
        elif outcome == "deny":
            permit.end("denied")
            if decision.reason == NOT_IN_ROLE:
                raise NotForRole("tool", name[1], standing.role)
            raise CallDenied(denied(decision.reason), call.era)
        else:
            self._ask(call, permit, former, server)

    def _standing(self, session: Session) -> Standing:
        return Standing(self, self.policy_for(session.cwd), session, self.role_name(session))

    def _decide(self, standing: Standing, name: ToolName, arguments: bytes, workspace: str | None) -> Decision:
        policy, role = standing.policy, standing.policy.roles.get(standing.role)
        if name[0] == POLICY_SERVER:
            allowed = role is not None and (role.lead or role.human)
            return Decision("allow" if allowed else "deny", "", "" if allowed else NOT_IN_ROLE, BUILT_IN)
        if role is None:
            return Decision("deny", "", NOT_IN_ROLE, policy.path)
        standing.know(name, allowed_by_name(policy, standing.role, *name))
        return decide(policy, standing.role, *name, arguments, workspace)

    def _ask(self, call: Call, permit: Permit, former: CallPermit | None, server: Server) -> None:
        """Use a grant that fits the call. Raises Postponed if there is none."""
        permit.key = self._key(permit, server)
        grants, is_for_person = self.approvals.grants, permit.decision.level == HUMAN
        used = former.grant if isinstance(former, Permit) and former.key == permit.key else None
        if used is not None and used.scope == ONCE and (used.is_persons or not is_for_person):
            # Used up by this very call, which has waited since. Other grants may have been revoked meanwhile.
            permit.grant = used
        else:
            permit.grant = grants.take(permit.key, permit.role, is_for_person)
        if permit.grant is None:
            raise AwaitApproval(self, permit, bytes(call.request.params.get("arguments", b"{}")))
        call.allow(permit)

    def _key(self, permit: Permit, server: Server) -> GrantKey:
        catalog = server.catalogs.any
        item = catalog.lists[TOOLS].get(permit.tool) if catalog else None
        definition = digest_of(json.join(item.definition)) if item else ""
        return GrantKey(permit.asker.principal, permit.server, permit.tool, definition, permit.digest)

    def _authorize_other(self, call: Call, session: Session, target: Target) -> None:
        role, name, server = self.role(session), self.role_name(session), target.server.name
        changes, method = target.changes, call.method
        reference = values.members(changes.get("ref")) if method == "completion/complete" else changes
        uri, prompt = values.text(reference.get("uri")), values.text(reference.get("name"))
        if method in ("resources/read", "completion/complete") and uri is not None:
            self.check_resource(session, target.server, uri)
        elif method in ("prompts/get", "completion/complete") and prompt is not None:
            if role is None or not sees(role, "prompts", server, prompt):
                raise NotForRole("prompt", prompt, name)
        elif role is None or not sees(role, "methods", server, method):
            raise NotForRole("method", method, name)

    # --- waiting

    async def wait(self, call: Call, permit: Permit, arguments: bytes, again: Callable[[], None]) -> None:
        """Wait for the approval of a call, bounded by `approval_wait`, then make the call or answer it."""
        try:
            assert permit.key is not None
            if call.request.resent and self.approvals.grants.was_interrupted(permit.key):
                # The call was waiting for a decision when the former daemon ended: it has not run.
                call.mark_fresh()
            approval = self.approvals.request(permit.asker, permit.key, permit.decision, arguments)
            task = asyncio.get_running_loop().create_task(self._report(call, approval))
            call.attach(task)
            try:
                outcome = await self._settled(call, approval)
            finally:
                task.cancel()
            if not call.is_open:
                return
            if outcome is None:
                raise CallDenied(f"pending approval {approval.id}; call again unchanged", call.era)
            if outcome.verdict == "withdrawn":
                raise CallDenied(f"not run: {outcome.reason}", call.era)
            if outcome.verdict != "approved":
                raise CallDenied(denied(outcome.reason, outcome.decided_by), call.era)
            again()
        except HearthError as problem:
            call.failed(problem)

    async def _settled(self, call: Call, approval: Approval) -> Settlement | None:
        """Return the outcome, or None after `approval_wait`; withdraw the approval if the call is cancelled."""
        waiting = asyncio.get_running_loop().create_task(approval.wait(self.policy.approval_wait))
        # A cancel of the call cancels what is attached to it.
        call.attach(waiting)
        try:
            await asyncio.wait((waiting,))
        finally:
            waiting.cancel()
        if not waiting.cancelled():
            return waiting.result()
        self.leave(approval)
        return None

    def leave(self, approval: Approval) -> None:
        """Withdraw an approval if no other call waits for it."""
        if approval.outcome is None and not approval.is_awaited:
            self.approvals.withdraw(approval)

    async def _report(self, call: Call, approval: Approval) -> None:
        """Send progress, where the client wants it, until the wait is over."""
        count = 0
        while True:
            count += 1
            told = {"progress": count, "message": f"waiting for approval {approval.id}"}
            call.progressed({key: json.Raw(json.dumps(value)) for key, value in told.items()})
            await asyncio.sleep(PROGRESS_SECONDS)

    # --- tools that no call carries

    async def obtain(
        self,
        asker: Asker,
        server: str | None,
        tool: str,
        arguments: bytes,
        seconds: float | None,
        on_asked: OnAsked | None = None,
        way: str = HOOK,
        must_ask: bool = False,
    ) -> tuple[bool, str]:
        """Decide a client's own tool, and wait for an approval; return whether it is allowed, and the reason if not.

        `seconds` None waits until the approval ends. `way` is how the client asks: by its hook, or by a permission
        request. `must_ask`: the tool is not known for certain, so that no name of one allows it.
        """
        # Seldom enough for a look each time: what a person has just trusted or applied counts.
        self._look()
        return await self._own_tools.obtain(asker, server, tool, arguments, seconds, on_asked, way, must_ask)

    async def obtain_mode(
        self, asker: Asker, provider: str, mode: str, seconds: float | None, on_asked: OnAsked | None = None
    ) -> tuple[bool, str]:
        """Decide whether the asker may have an agent of a provider work in a mode in which it never asks.

        Returns whether it may, and the reason if not.
        """
        arguments = arguments_of(provider, mode)
        return await self._own_tools.obtain(asker, None, AGENT_MODE, arguments, seconds, on_asked, PERMISSION)

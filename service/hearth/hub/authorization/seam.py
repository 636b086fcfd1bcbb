"""Places of the hub where a policy applies: lists, the pipeline, subscriptions, unknown notifications, new sessions.

Every place is empty without a policy: nothing is asked, and nothing of `hearth.policy` is loaded. Agents show who they
are with and without one, and what waits for a decision is in one table.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hearth.hub.agent_directory import AgentDirectory, check_claim, check_origin, proven_by
from hearth.hub.authorization.pending import Pending
from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.pipeline import Pipeline
from hearth.hub.router import Router
from hearth.hub.sessions import Proven, Session
from hearth.hub.subscriptions import Subscriptions

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard


class PolicySeam:
    """Guard of one daemon, if it has a policy. `questions` and `spawn` are for approvals, `changed` tells clients.

    `agents` returns the directory of agents, if there is one.
    """

    def __init__(
        self,
        catalog: Catalog,
        pipeline: Pipeline,
        subscriptions: Subscriptions,
        router: Router,
        questions: ClientRequests,
        spawn: Callable[[Coroutine[Any, Any, object]], None],
        changed: Callable[[], None],
        agents: Callable[[], AgentDirectory | None] = lambda: None,
    ) -> None:
        self.guard: Guard | None = None
        # Everything that waits for a lead or a person.
        self.pending = Pending()
        self.agents = agents
        self.questions = questions
        self.spawn = spawn
        self.changed = changed
        self._catalog = catalog
        self._pipeline = pipeline
        self._subscriptions = subscriptions
        self._router = router

    @property
    def is_asking(self) -> bool:
        """Whether a decision is awaited. The caller of a hook has no session that would keep the daemon."""
        return len(self.pending) > 0

    def apply(self, guard: "Guard | None") -> None:
        """Apply a policy, or none, to every session, and tell clients whose lists change."""
        self.guard = self._catalog.filter = guard
        self._pipeline.authorizers = (guard.authorize,) if guard else ()
        self._subscriptions.authorize = guard.check_resource if guard else None
        self._router.may_send = guard.may_send if guard else None
        self.changed()

    def admit(
        self, role: str | None, token: str | None, agent: str | None = None, origin: Proven | None = None
    ) -> Proven:
        """Return the role and agent id that a new session's token proves. Raises Refused.

        `role` and `agent` are what its client claims; `origin` is what its process proves. Without a policy only an
        agent's token or process proves something. A token of anybody else proves nothing below an agent.
        """
        proven = proven_by(self.agents(), token)
        if self.guard:
            proven = self.guard.admit(role, token, proven or (origin if token is None else None))
        check_origin(proven, origin, is_ruled=self.guard is not None)
        role_name, agent_id = proven or origin or (None, None)
        check_claim(agent_id, agent)
        return role_name, agent_id

    def prove(self, session: Session, proven: Proven) -> None:
        """Record in a session that begins what its token proves."""
        agents, agent = self.agents(), proven[1]
        identity = agents.identity(agent) if agents and agent is not None else None
        session.prove(*proven, identity.cwd if identity else None)

    def drain(self) -> None:
        """Answer what waits for a decision, because the daemon shuts down."""
        if self.guard:
            self.guard.approvals.drain()
        self.pending.drain("the daemon shuts down")

    def session_left(self, session: Session) -> None:
        """Put what waits for a lead that left to the person."""
        if self.guard:
            self.guard.approvals.session_left(session)

    def agent_closed(self, agent: str) -> None:
        """Withdraw what an agent asked that was closed for good, and put what waits for its decision to the person."""
        if self.guard:
            self.guard.approvals.agent_closed(agent)
        self.pending.agent_closed(agent)

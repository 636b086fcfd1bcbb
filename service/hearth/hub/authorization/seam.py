"""Places of the hub where a policy applies: lists, the pipeline, subscriptions, unknown notifications, new sessions.

Every place is empty without a policy: nothing is asked, and nothing of `hearth.policy` is loaded.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from hearth.hub.catalog import Catalog
from hearth.hub.client_requests import ClientRequests
from hearth.hub.pipeline import Pipeline
from hearth.hub.router import Router
from hearth.hub.sessions import Session
from hearth.hub.subscriptions import Subscriptions

if TYPE_CHECKING:
    from hearth.hub.authorization.guard import Guard


class PolicySeam:
    """Guard of one daemon, if it has a policy. `questions` and `spawn` are for approvals, `changed` tells clients."""

    def __init__(
        self,
        catalog: Catalog,
        pipeline: Pipeline,
        subscriptions: Subscriptions,
        router: Router,
        questions: ClientRequests,
        spawn: Callable[[Coroutine[Any, Any, object]], None],
        changed: Callable[[], None],
    ) -> None:
        self.guard: Guard | None = None
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
        return self.guard is not None and bool(self.guard.approvals.open())

    def apply(self, guard: "Guard | None") -> None:
        """Apply a policy, or none, to every session, and tell clients whose lists change."""
        self.guard = self._catalog.filter = guard
        self._pipeline.authorizers = (guard.authorize,) if guard else ()
        self._subscriptions.authorize = guard.check_resource if guard else None
        self._router.may_send = guard.may_send if guard else None
        self.changed()

    def admit(self, role: str | None, token: str | None) -> tuple[str | None, str | None]:
        """Return the role and agent id that a new session's token proves; nothing without a policy. Raises Refused."""
        return self.guard.admit(role, token) if self.guard else (None, None)

    def drain(self) -> None:
        """Answer calls that wait for a decision, because the daemon shuts down."""
        if self.guard:
            self.guard.approvals.drain()

    def session_left(self, session: Session) -> None:
        """Put what waits for a lead that left to the person."""
        if self.guard:
            self.guard.approvals.session_left(session)

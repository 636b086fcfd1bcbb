"""Delivery of notices: to whom, and by a prompt where the parent is idle. The rules are those of `outbox`."""

import logging
from typing import TYPE_CHECKING

from hearth.errors import HearthError
from hearth.packs.agents.model import Notice, NoticeKind
from hearth.packs.agents.notices import outbox

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService
    from hearth.packs.agents.turn import Turn

log = logging.getLogger(__name__)


class NoticeDelivery:
    """Delivery of the notices of one daemon's agents."""

    def __init__(self, service: "AgentService") -> None:
        self._service = service
        self.notices = outbox.Notices(service.store, self.tell_soon)
        # Agents that are being told.
        self._telling: set[str] = set()
        # Turns that tell agents of notices, with those.
        self._turns: dict[str, tuple[Turn, list[Notice]]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a notice is on its way."""
        return bool(self._telling)

    def tell_parent(self, agent: "Agent", kind: NoticeKind) -> None:
        """Tell the parent of an agent, if it wants to be told."""
        record = agent.record
        if record.parent_id is not None and record.notify:
            self.post(record.parent_id, agent.id, kind)

    def tell_of_end(self, agent: "Agent", kind: NoticeKind, by: str | None) -> None:
        """Tell the parent that another one is about to cancel a turn, or to kill the agent.

        Before the end: a wait of the parent, which ends with it, uses the notice up.
        """
        is_news = not agent.is_closed if kind == "closed" else agent.turn is not None and agent.turn.aborted is None
        if is_news and by != agent.record.parent_id:
            self.tell_parent(agent, kind)

    def post(self, recipient_id: str, child_id: str, kind: NoticeKind) -> None:
        """Add a notice for an agent; one that is closed gets none."""
        agents = self._service.agents
        recipient, child = agents.get(recipient_id), agents.get(child_id)
        if recipient is not None and child is not None and not recipient.is_closed:
            self.notices.post(recipient_id, child_id, kind, child.record.turn, child.title)

    def tell_all_soon(self) -> None:
        """Deliver what waits, to every parent that is idle."""
        for parent_id in self.notices.parents():
            self.tell_soon(parent_id)

    def tell_soon(self, parent_id: str) -> None:
        """Deliver the notices of an agent by a prompt, if it is idle; its blocking tools deliver them otherwise."""
        parent = self._service.agents.get(parent_id)
        if parent is None or parent.is_closed:
            self.notices.forget_parent(parent_id)
        elif parent_id not in self._telling and not (parent.turn or parent.is_halted or self._service.is_stopping):
            self._telling.add(parent_id)
            task = self._service.spawn(self._tell(parent))
            # For a task that is cancelled before its first step.
            task.add_done_callback(lambda _: self._telling.discard(parent_id))

    def settle_turn(self, agent: "Agent") -> None:
        """Remove the notices of which a turn of an agent has told, once it has ended.

        Called with each change of the record: what says that the turn has ended is written together with the removal.
        """
        turn, batch = self._turns.get(agent.id, (None, []))
        if turn is None or (agent.turn is turn and not agent.is_closed):
            return
        del self._turns[agent.id]
        if turn.is_sent:
            self.notices.delivered(batch)
        else:
            self.notices.untold(batch)

    async def _tell(self, parent: "Agent") -> None:
        batch: list[Notice] = []

        def compose() -> str | None:
            batch[:] = self.notices.of(parent.id)[: outbox.AT_ONCE]
            return outbox.prompt(batch) if batch else None

        try:
            with self._service.turns.hold(parent):
                if (turn := await parent.prompt_if_idle(compose)) is not None:
                    self.notices.told(batch)
                    self._turns[parent.id] = turn, batch
        except HearthError as exc:
            # Tried again with the end of any turn, and by the next daemon.
            log.info("notices wait agent=%s reason=%s", parent.id, exc)
        finally:
            # At once: a turn that ends in this step of the loop tells the parent again.
            self._telling.discard(parent.id)

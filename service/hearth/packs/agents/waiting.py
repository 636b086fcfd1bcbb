"""Wait for an agent: until its turn ends, it asks for a permission, or something else waits for the one that waits.

An agent that waits for one child must hear of the others: the wait ends early with the notices about them. A wait that
times out is a result, and leaves every notice as it is. A turn that is replaced, cancelled or killed ends the waits for
it with an error that says so.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.errors import Refused
from hearth.packs.agents.notices import outbox

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService
    from hearth.packs.agents.turn import Turn

# Clients with a progress token hear from a waiting call this often, well below any client's patience.
PROGRESS_SECONDS = 5.0
# Entries of an activity below a wait that timed out.
RECENT = 5
TIMED_OUT = (
    "Awaiting the agent timed out after {:g}s. This does not mean the agent failed - call wait_for_agent again to"
    " continue waiting.\n\nRecent activity:\n{}"
)

# Takes the seconds of waiting so far.
OnProgress = Callable[[float], None]


class WaitResult(NamedTuple):
    """End of a wait: the agent's state, and what else waits for the one that waited."""

    status: str
    permission: dict[str, Any] | None
    last_message: str | None
    attention: list[dict[str, Any]]
    timed_out: bool = False


def result(agent: "Agent", attention: list[dict[str, Any]] | None = None, timed_out: bool = False) -> WaitResult:
    """Return the present state of an agent."""
    asked, record = agent.asked(), agent.record
    message = record.last_message
    if record.status == "error" or (record.status == "closed" and record.last_error):
        message = record.last_error
    permission = asked[0].describe() if asked else None
    return WaitResult(record.status, permission, message, attention or [], timed_out)


class Wait:
    """Wait for an agent, for `parent_id` if an agent waits."""

    def __init__(self, agent: "Agent", parent_id: str | None, service: "AgentService") -> None:
        self._agent = agent
        self._parent_id = parent_id
        self._service = service
        self._notices = service.delivery.notices

    async def run(self, seconds: float, progress: OnProgress | None = None, turn: "Turn | None" = None) -> WaitResult:
        """Wait at most `seconds`, for that turn or the present one. Raises Refused if it is aborted meanwhile."""
        loop, agent = asyncio.get_running_loop(), self._agent
        turn = turn or agent.turn
        started = loop.time()
        while True:
            if turn is not None and turn.aborted:
                self._notices.seen(self._parent_id, agent.id)
                raise Refused(turn.aborted)
            if turn is not None and turn.outcome is not None:
                self._notices.seen(self._parent_id, agent.id)
                return WaitResult(turn.outcome[0], None, turn.outcome[1], [])
            if agent.asked() or not agent.is_working or (turn is not None and agent.turn is not turn):
                self._notices.seen(self._parent_id, agent.id)
                return result(agent)
            turn = turn or agent.turn
            if others := self._notices.others(self._parent_id, agent.id):
                self._notices.delivered(others)
                return result(agent, outbox.attention(others))
            waited = loop.time() - started
            if waited >= seconds or self._service.is_stopping:
                return result(agent, timed_out=True)
            await self._change(min(PROGRESS_SECONDS, seconds - waited))
            if progress is not None:
                progress(loop.time() - started)

    async def _change(self, seconds: float) -> None:
        """Wait for a change of the agent, or a notice for the one that waits."""
        futures = {self._agent.change()}
        if self._parent_id:
            futures.add(self._notices.change(self._parent_id))
        try:
            await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in futures:
                future.cancel()
            if self._parent_id:
                self._notices.prune_changes(self._parent_id)

"""Wait for an agent: until its turn ends, it asks for a permission, or something else waits for the one that waits.

An agent that waits for one child must hear of the others: the wait ends early with the notices about them. A notice is
used up in the step of the loop in which the wait returns: until then the caller may leave, and the notice stays. A wait
that times out is a result, and leaves every notice as it is. A turn that is replaced, cancelled or killed ends the
waits for it with an error that says so.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.errors import Refused
from hearth.packs.agents.model import Notice
from hearth.packs.agents.notices import outbox
from hearth.packs.agents.timeline_items import render
from hearth.packs.agents.turn import STOPPING

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService
    from hearth.packs.agents.turn import Turn

# Clients with a progress token hear from a waiting call this often, well below any client's patience.
PROGRESS_SECONDS = 5.0
# Entries of an activity below a wait that timed out.
RECENT = 5
TIMED_OUT = (
    "Awaiting the agent {}. This does not mean the agent failed - call wait_for_agent again to"
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
        is_saved = False
        while True:
            is_over = agent.asked() or not agent.is_working or (turn is not None and agent.turn is not turn)
            if turn is not None and (turn.aborted or turn.outcome is not None):
                is_over = True
            turn = turn or agent.turn
            others = [] if is_over else self._notices.others(self._parent_id, agent.id)
            if is_over or others:
                if is_saved:
                    return self._take(turn, others)
                # First the record, for the next daemon; the state may be another one afterwards.
                await self._service.save(agent)
                is_saved = True
                continue
            is_saved = False
            waited = loop.time() - started
            if waited >= seconds or self._service.is_stopping:
                return await self._timed_out(seconds)
            await self._change(min(PROGRESS_SECONDS, seconds - waited))
            if progress is not None:
                progress(loop.time() - started)

    def _take(self, turn: "Turn | None", others: list[Notice]) -> WaitResult:
        """Return the result of a wait that is over, and use its notices up. Raises Refused if the turn was aborted."""
        agent = self._agent
        if others:
            self._notices.delivered(others)
            return result(agent, outbox.attention(others))
        self._notices.seen(self._parent_id, agent.id)
        if turn is not None and turn.aborted:
            raise Refused(turn.aborted)
        if turn is not None and turn.outcome is not None:
            return WaitResult(turn.outcome[0], None, turn.outcome[1], [])
        return result(agent)

    async def _timed_out(self, seconds: float) -> WaitResult:
        why = f"ended, because {STOPPING}" if self._service.is_stopping else f"timed out after {seconds:g}s"
        recent = render(await self._service.newest(self._agent, RECENT))
        found = result(self._agent, timed_out=True)
        return found._replace(last_message=TIMED_OUT.format(why, recent))

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

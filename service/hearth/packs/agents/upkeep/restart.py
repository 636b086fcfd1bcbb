"""Agents of a former daemon: their processes are gone, and so is the turn that ran.

An agent whose session a new process can continue stays, and its next prompt starts that process. Any other is closed.
"""

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hearth.packs.agents.agent import Agent
from hearth.packs.agents.identity.directory import Directory
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.timeline import Timeline

if TYPE_CHECKING:
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)

LOST_TURN = "the daemon ended during the turn, or its pack was switched off: the turn is lost; send the prompt again"
LOST_PROCESS = "its process ended with the daemon, and no other one can continue its session"


async def take_up(service: "AgentService", records: Sequence[AgentRecord]) -> None:
    """Take the agents of a former daemon up, and tell those that must be told."""
    limit = service.settings.timeline_limit
    service.store.set_timeline_limit(limit)
    for record in records:
        last = 0 if record.status == "closed" else await service.store.last_seq(record.id)
        service.agents[record.id] = Agent(record, service, Timeline(limit, last + 1))
    service.hub.agents = Directory(service)
    for record in records:
        agent = service.agents[record.id]
        agent.told_status = record.status
        if record.status != "closed":
            _take_up(service, agent)
    service.delivery.tell_all_soon()
    if records:
        log.info("agents taken up count=%d", len(records))


def _take_up(service: "AgentService", agent: Agent) -> None:
    record = agent.record
    was_running = record.status == "running"
    # The agent's requests ended with its process.
    service.delivery.notices.settled(record.id, "permission")
    if was_running:
        agent.note_error(LOST_TURN)
        record.last_error, record.attention, record.attention_at = LOST_TURN, "error", time.time()
    if not record.is_resumable:
        agent.close_record(LOST_TURN if was_running else LOST_PROCESS)
    elif was_running:
        agent.set_status("error")
    elif record.status == "initializing":
        agent.set_status("idle")
    if was_running:
        service.delivery.tell_parent(agent, "errored")

"""Removal of closed agents from the record, and of worktrees that hold no work."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hearth.errors import HearthError, Refused

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)


async def prune(service: "AgentService", agents: "Sequence[Agent]", force: bool) -> list[dict[str, Any]]:
    """Forget agents; return for each what became of it. An agent whose worktree holds work stays without `force`."""
    return [await _prune(service, agent, force) for agent in agents]


async def _prune(service: "AgentService", agent: "Agent", force: bool) -> dict[str, Any]:
    if not agent.is_closed:
        raise Refused(f"Agent {agent.id} is not closed; kill it first")
    worktree = agent.record.worktree
    found: dict[str, Any] = {"agentId": agent.id, "title": agent.record.title, "pruned": True, "reason": None}
    if worktree is not None:
        from hearth.packs.agents import worktrees

        try:
            await asyncio.to_thread(worktrees.remove, worktree, force)
        except HearthError as exc:
            return {**found, "pruned": False, "reason": str(exc)}
    service.forget(agent)
    return found

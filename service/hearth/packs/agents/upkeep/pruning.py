"""Removal of closed agents from the record, and of worktrees that hold no work."""

import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hearth.errors import HearthError, Refused
from hearth.upstreams import threads

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)


# Closed agents on record; beyond that the oldest are forgotten, except those whose worktrees may hold work, and those
# above an open agent.
CLOSED_LIMIT = 200


def forget_oldest(service: "AgentService") -> None:
    """Forget the oldest closed agents beyond the limit."""
    closed = [agent for agent in service.agents.values() if agent.is_closed]
    needed = _ancestors_of_open(service)
    # One whose process still ends is known by its record only: a command below it must not count as a person's.
    ended = [agent for agent in closed if not agent.sessions]
    removable = [agent for agent in ended if agent.record.worktree is None and agent.id not in needed]
    for agent in sorted(removable, key=lambda each: each.record.updated_at)[: max(0, len(closed) - CLOSED_LIMIT)]:
        service.forget(agent)


def _ancestors_of_open(service: "AgentService") -> set[str]:
    """Return the ids of the agents above those that are open: an agent acts on its descendants through them."""
    return {id for agent in service.agents.values() if not agent.is_closed for id in service.ancestors(agent.id)}


async def prune(service: "AgentService", agents: "Sequence[Agent]", force: bool) -> list[dict[str, Any]]:
    """Forget agents; return for each what became of it.

    An agent whose worktree holds work stays without `force`. One above an open agent stays, and so does one in whose
    worktree an open agent works.
    """
    return [await _prune(service, agent, force) for agent in agents]


def _works_in(agent: "Agent", folder: str) -> bool:
    from hearth.policy.captures import is_inside

    return is_inside(os.path.realpath(agent.record.cwd), os.path.realpath(folder))


async def _prune(service: "AgentService", agent: "Agent", force: bool) -> dict[str, Any]:
    if not agent.is_closed:
        raise Refused(f"Agent {agent.id} is not closed; kill it first")
    worktree = agent.record.worktree
    found: dict[str, Any] = {"agentId": agent.id, "title": agent.record.title, "pruned": True, "reason": None}
    # A process that is being ended may still write into the worktree.
    await agent.wait_for_ends()
    if agent.id in _ancestors_of_open(service):
        return {**found, "pruned": False, "reason": "agents below it are open; kill them first"}
    if worktree is not None:
        from hearth.packs.agents import worktrees

        inside = [each for each in service.agents.values() if each is not agent and _works_in(each, worktree.path)]
        for each in inside:
            if each.is_closed:
                await each.wait_for_ends()
            else:
                return {**found, "pruned": False, "reason": f"agent {each.id} works in its worktree {worktree.path}"}
        try:
            await threads.run(worktrees.remove, worktree, force)
        except HearthError as exc:
            return {**found, "pruned": False, "reason": str(exc)}
    service.forget(agent)
    return found

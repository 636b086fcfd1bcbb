"""Modes in which agents never ask: under a policy, each needs a grant by a person."""

from typing import TYPE_CHECKING

from hearth.errors import Refused
from hearth.packs.agents import providers

if TYPE_CHECKING:
    from hearth.packs.agents.agent import Agent
    from hearth.packs.agents.agent_process import AgentProcess
    from hearth.packs.agents.identity.authority import AgentCaller
    from hearth.packs.agents.providers import Provider
    from hearth.packs.agents.service import AgentService


async def check(service: "AgentService", caller: "AgentCaller", agent: "Agent", mode: str) -> None:
    """Raise Refused for a mode that an agent does not offer, or that the caller may not switch it to."""
    agent.check_open()
    if agent.record.modes:
        agent.check_mode(mode)
    if (provider := service.providers().get(agent.record.provider)) is not None:
        await check_unasked(service, caller, provider, mode)


async def check_unasked(service: "AgentService", caller: "AgentCaller", provider: "Provider", mode: str) -> None:
    """Raise Refused for a mode in which an agent never asks, unless a person has granted it. Needs a policy."""
    guard, session = service.guard, caller.session
    if guard is None or session is None or caller.is_person or not providers.never_asks(provider, mode):
        return
    asker = guard.asker(session)
    allowed, reason = await guard.obtain_mode(asker, provider.name, mode, guard.policy.approval_wait)
    if not allowed:
        shown = f"in mode {mode!r} " if mode else ""
        raise Refused(f"an agent of {provider.name!r} never asks {shown}and needs a grant `agent_mode`: {reason}")


def may_begin_in(service: "AgentService", agent: "AgentProcess", mode: str | None) -> bool:
    """Tell whether an agent may work in a mode: one that asks, or that an authorized caller has set."""
    if service.guard is None or mode == agent.record.chosen_mode:
        return True
    provider = service.providers().get(agent.record.provider)
    return provider is None or not providers.never_asks(provider, mode)

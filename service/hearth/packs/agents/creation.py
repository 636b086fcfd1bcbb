"""Creation of an agent: what was asked for is checked before anything is made, and a failure leaves nothing behind.

A child of an agent begins in its parent's folder, mode and role unless it is told otherwise. A role must be one that
the caller's role may start, and a folder one in which the caller may work itself.
"""

import asyncio
import logging
import os
from typing import TYPE_CHECKING

import msgspec

from hearth.errors import HearthError, Refused
from hearth.packs.agents import providers
from hearth.packs.agents.agent import Agent
from hearth.packs.agents.identity import authority
from hearth.packs.agents.identity.authority import AgentCaller
from hearth.packs.agents.model import TITLE_CHARACTERS, AgentRecord, Worktree, new_agent_id
from hearth.packs.agents.permissions import folders, modes
from hearth.packs.agents.providers import Provider
from hearth.packs.agents.timeline import Timeline
from hearth.packs.agents.tools import payloads
from hearth.packs.agents.turn import Turn, on_one_line
from hearth.paths import home_dir
from hearth.upstreams import threads

if TYPE_CHECKING:
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)

# Labels are shown in lists; more of them, or longer ones, are no labels.
LABELS_LIMIT = 32
LABEL_CHARACTERS = 200


class CreateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Wishes for a new agent; None: the default, or what the parent has.

    `provider` may have a model after a slash.
    """

    cwd: str | None = None
    provider: str | None = None
    title: str | None = None
    prompt: str | None = None
    mode: str | None = None
    role: str | None = None
    worktree_name: str | None = None
    base_branch: str | None = None
    labels: dict[str, str] = {}
    # Whether the parent is told of the end of a turn; only agents are.
    notify: bool = True


async def create(service: "AgentService", caller: AgentCaller, request: CreateRequest) -> tuple[Agent, Turn | None]:
    """Create an agent and start its process; return it, and its first turn if a prompt has begun one.

    Raises HearthError.
    """
    parent = service.agents.get(caller.agent_id) if caller.agent_id else None
    _check_bounds(service, caller, parent)
    provider, model = _provider(service, request, parent)
    if request.prompt is not None:
        service.check_prompt(request.prompt)
    role = _role(service, caller, request, parent)
    folder = await folders.allowed(service, caller, _folder(caller, request, parent), role)
    # A person may have taken a minute to decide.
    _check_bounds(service, caller, parent)
    record = AgentRecord(
        id=new_agent_id(),
        provider=provider.name,
        wanted_model=model,
        cwd=folder,
        role=role,
        parent_id=parent.id if parent else None,
        creator=caller.name,
        workspace=(parent.record.workspace if parent else None) or caller.cwd,
        labels=_labels(request, parent),
        notify=request.notify,
        depth=parent.record.depth + 1 if parent else 0,
    )
    if request.title is not None:
        record.title, record.has_own_title = _title(request.title), True
    mode, is_inherited = _mode(service, provider, request, parent)
    granted = None if is_inherited else mode
    if granted is not None:
        await modes.check_unasked(service, caller, provider, granted)
        # A person may have taken a minute to decide.
        _check_bounds(service, caller, parent)
    agent = Agent(record, service, Timeline(service.settings.timeline_limit))
    agent.is_being_created = True
    # From now on it counts: many calls at once do not exceed the bound together.
    service.agents[record.id] = agent
    service.created(agent)
    try:
        if request.worktree_name is not None:
            record.cwd = (await _make_worktree(service, record, request)).cwd
        await agent.start(None)
        if is_inherited and parent is not None:
            mode = _inherited_mode(service, agent, (parent.record.provider, mode), provider)
        if mode is not None:
            await agent.set_mode(mode)
        begun = record.mode
        if providers.never_asks(provider, begun) and (granted is None or begun != granted):
            # Also for a mode that its parent has: another provider may ask in a mode of that name.
            await modes.check_unasked(service, caller, provider, begun or "")
        record.chosen_mode = begun
        # A person may have taken a minute to decide, and killed it meanwhile.
        agent.check_open()
        await service.store.save_durably(record)
    except BaseException:
        await _discard(service, agent)
        raise
    agent.is_being_created = False
    turn = None
    if request.prompt is not None:
        try:
            turn = await service.begin(agent, request.prompt)
        except HearthError as exc:
            # The agent is there, and its status says what is wrong.
            log.warning("first prompt failed agent=%s reason=%s", agent.id, exc)
    # A message may have come meanwhile.
    service.delivery.tell_all_soon()
    return agent, turn


async def _discard(service: "AgentService", agent: Agent) -> None:
    """Remove everything of an agent that could not be created."""
    await agent.kill("it could not be created")
    service.forget(agent)
    worktree = agent.record.worktree
    if worktree is not None:
        from hearth.packs.agents import worktrees

        try:
            # No work is in it yet.
            await threads.run(worktrees.remove, worktree, True)
        except HearthError as exc:
            log.warning("worktree not removed path=%s reason=%s", worktree.path, exc)


# --- checks


def _provider(service: "AgentService", request: CreateRequest, parent: Agent | None) -> tuple[Provider, str | None]:
    """Return the provider, and the model that is named after a slash, if one is."""
    known = service.providers()
    default = service.settings.default_provider or None
    if request.provider is None and parent is not None and parent.record.provider in known:
        default = parent.record.provider
    name, _, model = (request.provider or "").partition("/")
    return providers.choose(name or None, default, known), model or None


def _check_bounds(service: "AgentService", caller: AgentCaller, parent: Agent | None) -> None:
    if caller.agent_id and (parent is None or parent.is_closed):
        raise Refused(f"agent {caller.agent_id} is closed, and creates no agents")
    settings = service.settings
    living = sum(not each.is_closed for each in service.agents.values())
    if living >= settings.max_agents:
        raise Refused(
            f"there are {living} agents already (agents.max_agents); kill_agent or `hearth agent kill` ends one"
        )
    depth = parent.record.depth + 1 if parent else 0
    if depth > settings.max_depth:
        raise Refused(f"this agent may create no agents: they would be {depth} levels deep (agents.max_depth)")


def _folder(caller: AgentCaller, request: CreateRequest, parent: Agent | None) -> str:
    default = parent.record.cwd if parent else caller.cwd
    given = request.cwd or default
    if not given:
        raise Refused("cwd is required: the folder in which the agent works")
    path = os.path.expanduser(given)
    path = os.path.normpath(os.path.join(default or home_dir(), path))
    if "\0" in path or not os.path.isdir(path):
        raise Refused(f"the folder {path!r} does not exist (cwd); create it, or name another")
    return path


def _role(service: "AgentService", caller: AgentCaller, request: CreateRequest, parent: Agent | None) -> str | None:
    """Return the role of a new agent; None for the default role, or without a policy."""
    guard = service.guard
    if guard is None:
        if request.role is not None:
            raise Refused("there are no roles without a policy; `hearth policy init` writes one")
        return None
    policy = guard.policy
    role = request.role or (parent.record.role if parent else None) or policy.default_role
    if role not in policy.roles:
        raise Refused(f"there is no role {role!r} in {policy.path}; known: {', '.join(policy.roles)}")
    if caller.session is not None and not caller.is_person and not guard.may_start(caller.session, role):
        mine = guard.role_name(caller.session)
        raise Refused(
            f"role {mine!r} may not start agents of role {role!r}; `may_start` of the role in {policy.path} lists those"
        )
    return role


def _labels(request: CreateRequest, parent: Agent | None) -> dict[str, str]:
    labels = dict(request.labels)
    if len(labels) > LABELS_LIMIT or any(len(key) + len(value) > LABEL_CHARACTERS for key, value in labels.items()):
        raise Refused(f"at most {LABELS_LIMIT} labels of {LABEL_CHARACTERS} characters each")
    if parent is not None:
        labels[payloads.PARENT_LABEL] = parent.id
    return labels


def _title(title: str) -> str:
    found = on_one_line(title)
    if not found or len(found) > TITLE_CHARACTERS:
        raise Refused(f"a title has 1 to {TITLE_CHARACTERS} characters")
    return found


def _mode(
    service: "AgentService", provider: Provider, request: CreateRequest, parent: Agent | None
) -> tuple[str | None, bool]:
    """Return the mode to begin in, and whether it is the parent's."""
    if request.mode is not None or parent is None:
        return request.mode, False
    theirs = service.providers().get(parent.record.provider)
    if service.guard is not None and theirs is not None and providers.never_asks(theirs, parent.record.mode):
        # A mode that never asks was granted to the parent only.
        return None, False
    return parent.record.mode, True


def _inherited_mode(
    service: "AgentService", agent: Agent, parent: tuple[str, str | None], provider: Provider
) -> str | None:
    """Return the mode of a child whose process has begun, None for the present one. Raises Refused."""
    record = agent.record
    try:
        return authority.inherited_mode(parent, provider, [each.id for each in record.modes], record.mode)
    except Refused:
        # Under a policy a person decides about a provider that never asks.
        if service.guard is None or not providers.never_asks(provider, record.mode):
            raise
        return None


async def _make_worktree(service: "AgentService", record: AgentRecord, request: CreateRequest) -> Worktree:
    from hearth.packs.agents import worktrees

    name, base = request.worktree_name or "", request.base_branch
    if not base:
        raise Refused("baseBranch is required when creating a worktree")
    agents = service.agents.values()
    in_use = [each.record.worktree.path for each in agents if each.record.worktree]
    in_use += [os.path.realpath(each.record.cwd) for each in agents if not each.is_closed]
    work = threads.run(worktrees.create, service.places.worktrees, record.cwd, name, base, in_use)
    making = asyncio.ensure_future(work)
    try:
        record.worktree = await asyncio.shield(making)
    except asyncio.CancelledError:
        # The thread goes on. `_discard` removes only what is on the record.
        await asyncio.wait({making})
        if not making.cancelled() and making.exception() is None:
            record.worktree = making.result()
        raise
    return record.worktree

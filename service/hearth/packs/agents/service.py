"""All agents of one daemon: created, found, prompted, waited for, ended. Frontends and packs use this object only.

At the start, the records of a former daemon are taken up: a turn that ran is lost, and its agent and parent are told;
an agent whose session no process can continue is closed. Processes are started again by the next prompt.
"""

import asyncio
import contextlib
import functools
import logging
import os
from collections.abc import Awaitable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from hearth.errors import AgentError, FileAccessError, HearthError
from hearth.hub.events import EVENTS, AgentClosed, AgentCreated, AgentPermissionAsked, AgentStatusChanged
from hearth.packs.agents import acp, creation, providers, waiting
from hearth.packs.agents.agent import Agent
from hearth.packs.agents.creation import CreateRequest
from hearth.packs.agents.identity import authority, directory
from hearth.packs.agents.identity.authority import AgentCaller
from hearth.packs.agents.identity.tokens import AgentTokens
from hearth.packs.agents.live_feed import LiveFeed
from hearth.packs.agents.model import STATUS_ORDER, AgentRecord, NoticeKind
from hearth.packs.agents.notices.delivery import NoticeDelivery
from hearth.packs.agents.permissions import modes
from hearth.packs.agents.permissions.requests import OpenPermission, Permissions
from hearth.packs.agents.process import launch
from hearth.packs.agents.process.session import AgentSession, Answer, Launch
from hearth.packs.agents.store import AgentStore
from hearth.packs.agents.timeline_items import TimelineItem, render
from hearth.packs.agents.tools import payloads
from hearth.packs.agents.turn import STOPPING, Turn, TurnRoom, check_prompt
from hearth.packs.agents.upkeep import pruning, restart
from hearth.packs.agents.waiting import OnProgress, WaitResult
from hearth.upstreams import threads
from hearth.upstreams.transports import limits_of

if TYPE_CHECKING:
    from hearth.config.model import AgentSettings
    from hearth.hub.authorization.guard import Guard
    from hearth.hub.sessions import Session
    from hearth.packs import PackServices
    from hearth.packs.agents.agent_process import AgentProcess
    from hearth.packs.agents.providers import Provider

log = logging.getLogger(__name__)

# Characters of an activity that a tool returns; a model's context holds little more.
ACTIVITY_CHARACTERS = 256 * 1024
# Pack whose instruction precedes the first prompt.
SELF_ID = "self-id"


class AgentService:
    """Agents of one daemon, from `start` to `stop`. Implements `AgentHost` for its agents."""

    def __init__(self, services: "PackServices", former: "Awaitable[None] | None" = None) -> None:
        self._services, self._former = services, former
        self.hub = services.hub
        self.places = services.places
        self.agents: dict[str, Agent] = {}
        self.tokens = AgentTokens(self.places)
        self.store = AgentStore(self.places.agents)
        self.delivery: NoticeDelivery
        self._permissions = Permissions(self.hub, self._is_above, self._asked, self._answered)
        self.turns = TurnRoom(lambda: self.settings.max_running)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Future[None] | None = None
        self.is_stopping = False

    # --- life

    async def start(self) -> None:
        """Take up the agents of the former daemon; the first caller does it, the others wait. Raises HearthError."""
        starting = self._starting = self._starting or asyncio.ensure_future(self._start())
        try:
            await asyncio.shield(starting)
        except BaseException:
            # A start that has failed is tried again; one whose caller has gone goes on.
            if starting.done() and self._starting is starting:
                self._starting = None
            raise

    async def _start(self) -> None:
        if self._former:
            await self._former
        self.tokens.remove_former()
        try:
            # A backup that holds the file delays its opening for seconds.
            records = await threads.run(self.store.load)
            self.delivery = NoticeDelivery(self)
            await restart.take_up(self, records)
        except BaseException:
            # The thread of the store may use the file already: the next attempt has one of its own.
            former, self.store = self.store, AgentStore(self.places.agents)
            await former.close()
            raise

    def drain(self) -> None:
        """Let the calls that wait for an agent return: the daemon shuts down."""
        self.is_stopping = True
        for agent in self.agents.values():
            agent.wake()

    async def stop(self) -> None:
        """End every agent's process; the records stay for the next daemon."""
        self.is_stopping = True
        if self._starting is not None:
            # Else it would take up the agents of a service that has ended.
            await asyncio.wait({self._starting})
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*(agent.stop() for agent in self.agents.values()), return_exceptions=True)
        self.hub.agents = None
        await self.store.close()

    def busy(self) -> bool:
        """Tell whether the daemon must stay: for a turn, a notice on its way, or an agent that cannot be resumed."""
        return bool(self.turns) or self.delivery.is_busy or any(agent.is_busy for agent in self.agents.values())

    # --- settings

    @property
    def settings(self) -> "AgentSettings":
        """Settings in force."""
        return self.hub.config.agents

    @property
    def guard(self) -> "Guard | None":
        """Guard of the policy; None without one."""
        return self.hub.policy.guard

    def providers(self) -> "dict[str, Provider]":
        """Return all providers, installed or not."""
        return providers.known(self.settings.providers, os.environ)

    def default_provider(self) -> str | None:
        """Return the name of the provider of an agent that names none; None if none is installed."""
        try:
            return providers.choose(None, self.settings.default_provider or None, self.providers()).name
        except AgentError:
            return None

    # --- callers and agents

    def caller_of(self, session: "Session | None", cwd: str | None = None, is_person: bool = False) -> AgentCaller:
        """Return the caller at a session, or at the command line."""
        return AgentCaller.of(session, cwd, is_person)

    def get(self, caller: AgentCaller, id: str) -> Agent:
        """Return an agent on which the caller may act. Raises Refused."""
        authority.check(caller, self.agents, id)
        return self.agents[id]

    def list(self, caller: AgentCaller, include_closed: bool = False) -> "Sequence[Agent]":
        """Return the agents on which the caller may act: those that work come first, then by their latest change."""
        found = [
            agent
            for agent in self.agents.values()
            if (include_closed or not agent.is_closed) and authority.may_act(caller, self.agents, agent.id)
        ]
        return sorted(found, key=lambda agent: (STATUS_ORDER.index(agent.record.status), -agent.record.updated_at))

    def ancestors(self, id: str) -> "Sequence[str]":
        """Return the ancestors of an agent, nearest first."""
        return authority.ancestors(self.agents, id)

    def _is_above(self, upper: str, lower: str) -> bool:
        return upper in self.ancestors(lower)

    def snapshot(self, agent: Agent) -> dict[str, Any]:
        """Return everything about an agent."""
        return payloads.snapshot(agent)

    def item(self, agent: Agent) -> dict[str, Any]:
        """Return an agent as lists have it."""
        return payloads.item(agent)

    def look(self, agent: Agent) -> WaitResult:
        """Return what a wait that ended now would return."""
        return waiting.result(agent)

    def follow(self, agent: Agent) -> LiveFeed:
        """Return the live changes of an agent from now on."""
        return agent.follow()

    # --- commands

    async def create(self, caller: AgentCaller, request: CreateRequest) -> tuple[Agent, Turn | None]:
        """Create an agent; return it and its first turn. Raises HearthError; nothing is left behind then."""
        await self.start()
        return await creation.create(self, caller, request)

    def check_prompt(self, text: str) -> None:
        """Raise Refused for a prompt that is too long, or empty."""
        check_prompt(text, self.hub.config.message_limit // 2)

    async def prompt(self, caller: AgentCaller, agent: Agent, text: str, mode: str | None = None) -> Turn:
        """Begin a turn and return it; one that runs is replaced. Raises HearthError."""
        self.check_prompt(text)
        agent.check_created()
        if mode is not None and {mode} != {agent.record.mode, agent.record.chosen_mode}:
            await modes.check(self, caller, agent, mode)
        return await self.begin(agent, text, mode)

    async def begin(self, agent: Agent, text: str, mode: str | None = None) -> Turn:
        """Begin a turn, if there is room for it, and return it. Raises HearthError."""
        if self.is_stopping:
            raise AgentError(STOPPING)
        try:
            with self.turns.hold(agent):
                turn = await agent.prompt(text, mode)
        except BaseException:
            self.delivery.tell_all_soon()  # notices may have given way to this prompt
            raise
        await self.save(agent)
        return turn

    async def save(self, agent: Agent) -> None:
        """Have the next daemon know what a caller is told now, however this one ends. A turn goes on meanwhile."""
        # One that was removed would be back with the next daemon.
        if self.agents.get(agent.id) is agent:
            with contextlib.suppress(FileAccessError):
                await self.store.save_durably(agent.record)

    async def wait(
        self, caller: AgentCaller, agent: Agent, seconds: float | None = None, progress: OnProgress | None = None,
        turn: Turn | None = None,
    ) -> WaitResult:  # fmt: skip
        """Wait for an agent, and the end of `turn`. Raises Refused if that is replaced, cancelled or killed."""
        limit = self.settings.wait_timeout if seconds is None else seconds
        return await waiting.Wait(agent, caller.agent_id, self).run(limit, progress, turn)

    async def cancel(self, caller: AgentCaller, agent: Agent) -> bool:
        """Cancel the turn of an agent; return whether one ran."""
        self.delivery.tell_of_end(agent, "cancelled", caller.agent_id)
        return await agent.cancel()

    async def kill(self, caller: AgentCaller, agent: Agent) -> None:
        """Close an agent for good. Returns when its processes are dead."""
        self.delivery.tell_of_end(agent, "closed", caller.agent_id)
        await agent.kill(f"killed by {'a person' if caller.is_person else caller.agent_id or 'a client'}")

    async def set_mode(self, caller: AgentCaller, agent: Agent, mode: str) -> None:
        """Switch the mode of an agent. Raises HearthError."""
        agent.check_created()
        await modes.check(self, caller, agent, mode)
        await agent.set_mode(mode)

    async def activity(self, agent: Agent, limit: int | None = None) -> tuple[int, str]:
        """Return the number of an agent's activities, and the newest of them as text."""
        items = await self.newest(agent)
        return len(items), render(items, limit, ACTIVITY_CHARACTERS)

    async def newest(self, agent: Agent, limit: int | None = None) -> "Sequence[TimelineItem]":
        """Return the newest items of an agent's timeline, oldest first."""
        agent.flush()
        try:
            return await self.store.timeline(agent.id, limit)
        except HearthError:
            # The items of this daemon are better than none.
            return agent.timeline.items()[-(limit or 0) :]

    # --- permissions

    def permissions(self, caller: AgentCaller) -> "Sequence[OpenPermission]":
        """Return the permission requests of the agents on which the caller may act."""
        return [permission for agent in self.list(caller) for permission in agent.asked()]

    async def respond(self, caller: AgentCaller, agent: Agent, request_id: str, response: dict[str, Any]) -> None:
        """Decide a permission request. Raises HearthError."""
        from hearth.packs.agents.permissions import responses

        if await responses.respond(self.hub.pending, caller, agent, request_id, response):
            await self.cancel(caller, agent)

    def permission_asked(self, agent: Agent, request: acp.PermissionRequest, answer: Answer) -> None:
        """Decide a permission request of an agent, or put it to a lead or a person."""
        provider = self.providers().get(agent.record.provider)
        self._permissions.request(agent, provider.tool_client if provider else "", request, answer)

    def _asked(self, agent: Agent, permission: OpenPermission) -> None:
        EVENTS.emit(AgentPermissionAsked(agent=agent.id, request=permission.id))
        agent.publish({"type": "permission", "request": permission.describe()})
        self.delivery.tell_parent(agent, "permission")

    def _answered(self, agent: Agent) -> None:
        if not agent.asked():
            self.delivery.notices.settled(agent.id, "permission")

    async def prune(
        self, caller: AgentCaller, force: bool = False, agent: Agent | None = None
    ) -> "Sequence[dict[str, Any]]":
        """Forget closed agents and remove their worktrees; return what became of each."""
        chosen = [agent] if agent else [each for each in self.list(caller, include_closed=True) if each.is_closed]
        return await pruning.prune(self, chosen, force=force and caller.is_person)

    def forget(self, agent: Agent) -> None:
        """Remove a closed agent from the record."""
        self.agents.pop(agent.id, None)
        self.delivery.notices.settled(agent.id)
        self.store.delete(agent.id)

    # --- events of agents

    async def session_for(self, agent: "AgentProcess") -> AgentSession:
        """Return a new session for the agent's next process. Raises HearthError."""
        if self.is_stopping:
            raise AgentError(STOPPING)
        record = agent.record
        provider = providers.choose(record.provider, None, self.providers())
        if not os.path.isdir(record.cwd):
            raise AgentError(f"the folder {record.cwd!r} of agent {record.id} does not exist any more")
        prepared = await launch.prepare(provider, os.environ, record.cwd)
        bridge = launch.bridge_entry(self.places, record.id, self.tokens.issue(record.id))
        process = Launch(prepared, record.cwd, [bridge], launch.mark_prefix(self.places))
        return AgentSession(provider, agent, process, limits_of(self.hub.config)[:2])

    def process_ended(self, agent: "AgentProcess") -> None:
        """Withdraw the token of a process that has ended."""
        self.tokens.revoke(agent.id)

    def may_begin_in(self, agent: "AgentProcess", mode: str | None) -> bool:
        """Tell whether an agent may work in a mode."""
        return modes.may_begin_in(self, agent, mode)

    def first_instruction(self, agent: Agent) -> str | None:
        """Return the instruction that precedes the first prompt."""
        return launch.instruction(agent.record.worktree is not None) if SELF_ID in self.hub.servers else None

    def keep_items(self, agent_id: str, items: "Sequence[TimelineItem]") -> None:
        """Keep changed items of a timeline."""
        if agent_id in self.agents:
            self.store.append(agent_id, items)

    def created(self, agent: Agent) -> None:
        """Tell of a new agent."""
        id, provider, parent = agent.id, agent.record.provider, agent.record.parent_id
        log.info("agent created agent=%s provider=%s parent=%s", id, provider, parent)
        EVENTS.emit(AgentCreated(agent=id, provider=provider, parent=parent))

    def changed(self, agent_id: str) -> None:
        """Keep the record of an agent, and tell of a new status."""
        if (agent := self.agents.get(agent_id)) is None:
            return
        if not agent.is_being_created:
            with self.store.together():
                self.delivery.settle_turn(agent)
                self.store.save(agent.record)
        status = agent.record.status
        if agent.told_status != status:
            agent.told_status = status
            EVENTS.emit(AgentStatusChanged(agent=agent_id, status=status))
            if agent.is_closed:
                self._closed(agent)

    def record_changed(self, record: AgentRecord) -> None:
        """Keep a record that a pack has changed, such as a title or a branch."""
        if record.id in self.agents:
            self.agents[record.id].note_change()

    def _closed(self, agent: Agent) -> None:
        self.turns.leave(agent.id)
        EVENTS.emit(AgentClosed(agent=agent.id, reason=(agent.record.closed_reason or "")[:500] or None))
        self.delivery.notices.settled(agent.id, "permission")
        self.delivery.notices.forget_parent(agent.id)
        self.hub.policy.agent_closed(agent.id)
        directory.end_sessions(self.hub, agent.id)
        pruning.forget_oldest(self)
        self.delivery.tell_all_soon()

    def turn_ended(self, agent: Agent, failed: bool, is_aborted: bool) -> None:
        """Tell the parent of the end of a turn; tell agents that waited for a free turn."""
        self.turns.leave(agent.id)
        self.delivery.notices.settled(agent.id, "permission")
        if not is_aborted:
            self.delivery.tell_parent(agent, "errored" if failed else "finished")
        self.delivery.tell_all_soon()

    async def notify(self, recipient_id: str, child_id: str, kind: NoticeKind) -> None:
        """Tell an agent that something of another one waits for it."""
        self.delivery.post(recipient_id, child_id, kind)

    def take_message_notices(self, recipient_id: str) -> "Sequence[str]":
        """Take back the notices of messages that wait for an agent; return the senders."""
        return self.delivery.notices.take_messages(recipient_id)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run work that the service ends with itself."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(_report, self._tasks))
        return task


def _report(tasks: "set[asyncio.Task[Any]]", task: "asyncio.Task[Any]") -> None:
    tasks.discard(task)
    if not task.cancelled() and (problem := task.exception()) is not None:
        log.error("unhandled exception in a task of the agents", exc_info=problem)

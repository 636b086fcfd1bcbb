"""One process of an agent with one session of the Agent Client Protocol: opened, loaded or resumed, prompted, closed.

A new process is initialized, authenticated if it refuses a session without that, and given a new session, or the one of
a former process: by `session/resume`, which repeats nothing, else by `session/load`, which repeats the conversation as
updates; they are not passed on. Knows nothing of agents' records, parents or policies.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from hearth.errors import AgentError, HearthError
from hearth.hub.agent_directory import MARK
from hearth.packs.agents import acp, acp_updates
from hearth.packs.agents.acp_connection import AcpConnection
from hearth.packs.agents.process.launch import Prepared
from hearth.packs.agents.providers import Provider
from hearth.upstreams import threads

log = logging.getLogger(__name__)

# From the start of the process to its session. The built-in agents take 1 to 10 s; one that is fetched by npx first
# takes longer.
OPEN_SECONDS = 90.0
# A cancelled turn ends within this time, or is given up.
CANCEL_SECONDS = 2.0
# For `session/close`: the end of the process follows in any case.
CLOSE_SECONDS = 1.0

# A history that comes after the answer to `session/load` is over when nothing has come for so long. `OPEN_SECONDS`
# bounds an agent that never stops.
HISTORY_QUIET_SECONDS = 0.3
# Part of the last message of Codex that says why it failed.
REASON_CHARACTERS = 1000
# Models in an error; opencode offers hundreds.
MODELS_SHOWN = 20
# Each process of an agent has a value of MARK of its own: its successor may start meanwhile.
_MARK_BYTES = 8
# Processes that were killed are gone within milliseconds, unless the kernel waits for a device.
SWEEP_SECONDS = 5.0

Answer = Callable[[str | None], None]


class SessionEvents(Protocol):
    """Protocol for the owner of a session."""

    def updated(self, update: dict[str, Any]) -> None:
        """Take one `session/update`."""

    def permission_asked(self, request: acp.PermissionRequest, answer: Answer) -> None:
        """Take a permission request; `answer` gets the id of an option, or None for cancelled, once."""

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        """Note that a request needs no answer any more."""

    def ended(self, why: str) -> None:
        """Note that the process has ended; `why` is a sentence."""


class Launch(NamedTuple):
    """Start of a process: its command and environment, its folder, and the MCP servers of its session."""

    prepared: Prepared
    cwd: str
    mcp_servers: list[dict[str, Any]]
    # Beginning of the mark in its environment.
    mark_prefix: str = ""


class FormerSession(NamedTuple):
    """Session of a former process, and the ways to continue it."""

    session_id: str
    can_resume: bool
    can_load: bool


class AgentSession:
    """Session with one agent process, from `open` to `close`. `limits`: bytes of a message, bytes queued for stdin."""

    def __init__(self, provider: Provider, events: SessionEvents, launch: Launch, limits: tuple[int, int]) -> None:
        self._provider = provider
        self._events = events
        self._launch = launch
        self.mark = f"{launch.mark_prefix}{os.getpid()}.{os.urandom(_MARK_BYTES).hex()}"
        process = (launch.prepared.argv, {**launch.prepared.environment, MARK: self.mark}, launch.cwd)
        self._connection = AcpConnection(provider.name, self, process, limits)
        self._connection.mask = launch.prepared.mask
        self.capabilities: acp.AgentCapabilities | None = None
        # Known once the session is open: the updates of a session that is being loaded are repetitions.
        self.info: acp.SessionInfo | None = None
        self.has_ended = False
        # Set by a turn that fails and is ended like any other: Codex tells of a failure by an update only.
        self._has_failed = False
        self._last_text = ""
        self._heard_at = 0.0
        self._sweeping: asyncio.Future[None] | None = None
        # A turn was given up although the agent had not ended it.
        self.is_stuck = False

    @property
    def may_rest(self) -> bool:
        """Whether an idle agent may give this process back."""
        return self._provider.rests

    @property
    def pid(self) -> int:
        """Pid of the process; 0 before its start."""
        return self._connection.pid

    # --- opening

    async def open(self, former: FormerSession | None = None) -> acp.SessionInfo:
        """Start the process and open a session. Raises AgentError; nothing is left then."""
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                self.info = await self._open(former)
        except TimeoutError:
            await self._stop()
            raise AgentError(
                f"agent {self._provider.name!r} opened no session within {OPEN_SECONDS:g} s{self._last_words()};"
                " try its command in a terminal"
            ) from None
        except HearthError as exc:
            await self._stop()
            if isinstance(exc, AgentError):
                raise
            raise AgentError(f"agent {self._provider.name!r} could not be started: {exc}") from exc
        except BaseException:
            await self._stop()
            raise
        return self.info

    async def _open(self, former: FormerSession | None) -> acp.SessionInfo:
        connection = self._connection
        await connection.open()
        self.capabilities = await connection.initialize()
        try:
            return await self._session(former)
        except AgentError as exc:
            method = self._provider.auth_method
            if exc.code != acp.AUTH_REQUIRED:
                raise
            if method is None:
                hint = f"; {self._provider.login_hint}" if self._provider.login_hint else ""
                raise AgentError(f"{exc}{hint}", exc.code) from exc
            await connection.authenticate(method)
            return await self._session(former)

    async def _session(self, former: FormerSession | None) -> acp.SessionInfo:
        connection, capabilities = self._connection, self.capabilities
        cwd, servers = self._launch.cwd, self._launch.mcp_servers
        if former is None:
            return await connection.new_session(cwd, servers)
        if former.can_resume and capabilities is not None and capabilities.resume:
            return await connection.resume_session(former.session_id, cwd, servers)
        info = await connection.load_session(former.session_id, cwd, servers)
        # Gemini CLI, and in part Codex, sends the history after its answer. No update is taken before `info` is set.
        self._heard_at = asyncio.get_running_loop().time()
        while (quiet := asyncio.get_running_loop().time() - self._heard_at) < HISTORY_QUIET_SECONDS:
            await asyncio.sleep(HISTORY_QUIET_SECONDS - quiet)
        return info

    def _last_words(self) -> str:
        words = self._connection.last_words
        return f" (its last words: {' / '.join(words[-3:])})" if words else ""

    # --- a turn

    async def prompt(self, *texts: str) -> acp.TurnEnd:
        """Run one turn until its end. Raises AgentError."""
        self._has_failed, self._last_text = False, ""
        end = await self._connection.prompt(self._opened.session_id, *texts)
        if self._has_failed:
            raise AgentError(f"Codex could not go on: {self._last_text or 'it does not say why'}")
        return end

    def cancel(self) -> None:
        """Ask the agent to end its turn; the answer to the prompt follows. Its permission requests are withdrawn."""
        if self.info is not None and not self.has_ended:
            self._connection.cancel_turn(self.info.session_id)

    # --- settings

    async def set_mode(self, mode: str) -> None:
        """Switch the session to another mode. Raises AgentError."""
        before = self._opened
        after = await self._connection.set_mode(before, mode)
        if after.config_options is before.config_options:
            # The result has only said yes: what updates said meanwhile, such as another model, is newer than `before`.
            after = self._opened._replace(current_mode=mode)
        self.info = after

    async def set_model(self, model: str) -> None:
        """Switch the session to another model. Raises AgentError, also for a model that is not offered."""
        before = self._opened
        if model not in before.models:
            shown = ", ".join(before.models[:MODELS_SHOWN])
            more = f" and {len(before.models) - MODELS_SHOWN} more" if len(before.models) > MODELS_SHOWN else ""
            known = f"its models: {shown}{more}" if shown else "it offers no choice of models; leave the model out"
            raise AgentError(f"agent {self._provider.name!r} has no model {model!r}; {known}")
        after = await self._connection.set_model(before, model)
        if after.config_options is before.config_options:
            # As with the mode.
            after = self._opened._replace(model=model)
        self.info = after

    @property
    def _opened(self) -> acp.SessionInfo:
        assert self.info is not None
        return self.info

    # --- the end

    async def close(self) -> None:
        """Close the session and stop the process with all of its descendants. Raises nothing."""
        if self.info and not self.has_ended and not self.is_stuck and self.capabilities and self.capabilities.close:
            with contextlib.suppress(HearthError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._connection.close_session(self.info.session_id)
        await self._stop()

    async def _stop(self) -> None:
        await self._connection.stop()
        if self._connection.pid:
            await asyncio.shield(self._sweep())

    def _sweep(self) -> asyncio.Future[None]:
        """Kill descendants that have left the process group, once."""
        if self._sweeping is None:
            self._sweeping = asyncio.ensure_future(self._kill_marked())
        return self._sweeping

    async def _kill_marked(self) -> None:
        from hearth.host.marked_processes import kill_marked

        left = await threads.run(kill_marked, MARK, self.mark, SWEEP_SECONDS)
        if left:
            log.warning("processes of an agent cannot be killed agent=%s pids=%s", self._provider.name, left)

    # --- events of the connection

    def updated(self, session_id: str, update: dict[str, Any]) -> None:
        """Pass an update of this session on."""
        self._heard_at = asyncio.get_running_loop().time()
        if self._provider.tool_client == "codex":
            self._has_failed = self._has_failed or acp_updates.is_system_error(update)
            if update["sessionUpdate"] == "agent_message_chunk":
                self._last_text = acp_updates.block_text(update.get("content"))[:REASON_CHARACTERS].strip()
        if self.info is not None and session_id == self.info.session_id:
            self.info = acp.after_update(self.info, update)
            self._events.updated(update)

    def permission_asked(self, request: acp.PermissionRequest, answer: Answer) -> None:
        """Pass a permission request of this session on; refuse any other."""
        if self.info is not None and request.session_id == self.info.session_id:
            self._events.permission_asked(request, answer)
        else:
            answer(None)

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        """Pass on that a request needs no answer any more."""
        self._events.permission_withdrawn(request)

    def ended(self, why: str) -> None:
        """Pass the end of the process on."""
        self.has_ended = True
        self._sweep()
        self._events.ended(why)


class SessionEnds:
    """Sessions of one agent whose processes are being ended. An end goes on whatever becomes of its caller."""

    def __init__(self) -> None:
        self._ends: dict[AgentSession, asyncio.Task[None]] = {}

    def __iter__(self) -> Iterator[AgentSession]:
        return iter(list(self._ends))

    def begin(self, session: AgentSession) -> asyncio.Task[None]:
        """End a session with its process, once; return the task of it."""
        task = self._ends.get(session)
        if task is None:
            task = self._ends[session] = asyncio.get_running_loop().create_task(session.close())
            task.add_done_callback(lambda _: self._ends.pop(session, None))
        return task

    async def finish(self) -> None:
        """Return when the processes of all of them are gone."""
        while self._ends:
            await asyncio.wait(list(self._ends.values()))

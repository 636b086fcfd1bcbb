"""Process of one agent: opened for a new or a former session, put into the mode that the agent had, and ended.

Knows nothing of turns. A session that was let go of counts as this agent's until its processes are gone.
"""

import asyncio
from typing import TYPE_CHECKING

from hearth.errors import AgentError, HearthError
from hearth.packs.agents import acp
from hearth.packs.agents.agent_state import AgentHost, AgentState
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.process.session import AgentSession, FormerSession, SessionEnds, SessionEvents
from hearth.packs.agents.turn import STOPPING, TERMINATED

if TYPE_CHECKING:
    from hearth.packs.agents.timeline import Timeline


class AgentProcess(AgentState, SessionEvents):
    """Agent with the session of its process, when there is one."""

    def __init__(self, record: AgentRecord, host: AgentHost, timeline: "Timeline") -> None:
        super().__init__(record, host, timeline)
        self.session: AgentSession | None = None
        self._ends = SessionEnds()
        self._opening: asyncio.Task[acp.SessionInfo] | None = None
        self._is_stopping = False
        # Chosen mode that a switch under way leaves. The agent may still say that it is in it.
        self._former_mode: str | None = None

    @property
    def sessions(self) -> list[AgentSession]:
        """Sessions whose processes run: the current one, and those that are being ended."""
        return [session for session in (self.session, *self._ends) if session is not None and session.pid]

    @property
    def may_work(self) -> bool:
        """Whether the agent may work in its present mode, which it may have switched to by itself."""
        return self._host.may_begin_in(self, self.record.mode)

    @property
    def has_strayed(self) -> bool:
        """Whether the agent has switched itself to a mode that was not granted."""
        mode = self.record.mode
        return not self.may_work and (mode is None or mode != self._former_mode)

    async def wait_for_ends(self) -> None:
        """Return when the processes of sessions that were let go of are gone."""
        await self._ends.finish()

    # --- opening

    async def open(self) -> None:
        """Start a process, for the session of a former one if there is one. Raises HearthError."""
        record = self.record
        former = None
        if record.is_resumable and record.turn > 0 and record.session_id:
            # A session without a prompt need not be continued, and some agents keep none of those.
            former = FormerSession(record.session_id, record.can_resume, record.can_load)
        session = self.session = await self._host.session_for(self)
        self._check_wanted(session)
        self._opening = asyncio.get_running_loop().create_task(session.open(former))
        try:
            info = await self._opening
        except BaseException as exc:
            self._opening.cancel()
            self._end_session(session)
            own = asyncio.current_task()
            if isinstance(exc, asyncio.CancelledError) and own is not None and not own.cancelling():
                # `kill` or `stop` has cancelled the task, not this call.
                raise AgentError(TERMINATED if self.is_closed else STOPPING) from exc
            raise
        finally:
            self._opening = None
        # A kill may have come since the task has ended.
        self._check_wanted(session)
        assert session.capabilities is not None
        record.session_id = info.session_id
        record.can_load, record.can_resume = session.capabilities.load, session.capabilities.resume
        # A mode that the agent has switched to by itself, without a grant, is not restored.
        wanted = record.mode if self.may_work else record.chosen_mode
        self.take_session_info(info)
        if record.wanted_model and record.wanted_model != record.model:
            await self._set_model(session, record.wanted_model)
        if wanted and wanted != record.mode:
            await self._restore_mode(session, wanted)

    async def _set_model(self, session: AgentSession, wanted: str) -> None:
        """Have a new process use the model that the agent was created with. Raises HearthError as it is created."""
        try:
            await session.set_model(wanted)
        except HearthError as exc:
            if self.is_being_created:
                raise
            self.note_error(f"the model is {self.record.model!r}, and no longer {wanted!r}: {exc}")
        if session.info is not None:
            self.take_session_info(session.info)

    async def _restore_mode(self, session: AgentSession, wanted: str) -> None:
        """Put a new process into the mode that the agent had. Raises AgentError if it must not work in another one."""
        try:
            await self._switch_mode(wanted)
        except BaseException as exc:
            # Restored by the next process, at the latest.
            found, self.record.mode = self.record.mode, wanted
            if not isinstance(exc, HearthError):
                self._end_session(session)
                raise
            if self.session is not session or not self._host.may_begin_in(self, found):
                self._end_session(session)
                raise AgentError(f"agent {self.id} cannot go on in its mode {wanted!r}: {exc}") from exc
            self.record.mode = found
            self.note_error(f"the mode is {found!r}, and no longer {wanted!r}: {exc}")

    def _check_wanted(self, session: AgentSession) -> None:
        """Raise AgentError if the agent was killed, or the daemon stops, while its process was made."""
        if self.is_closed or self._is_stopping:
            self._end_session(session)
            raise AgentError(TERMINATED if self.is_closed else STOPPING)

    def _end_session(self, session: AgentSession) -> asyncio.Task[None]:
        """Let go of a session and end its process; until that is done, the process counts as this agent's."""
        if self.session is session:
            self.session = None
            self._host.process_ended(self)
        return self._ends.begin(session)

    async def _switch_mode(self, mode: str) -> None:
        """Switch to a mode that the agent may work in. Raises HearthError."""
        if (session := self.session) is None:
            return
        former, self.record.chosen_mode = self.record.chosen_mode, mode
        if mode == self.record.mode:
            return
        self._former_mode = former
        try:
            self.check_mode(mode)
            await session.set_mode(mode)
        except BaseException:
            self.record.chosen_mode = former
            raise
        finally:
            self._former_mode = None
        if session.info is not None:
            self.take_session_info(session.info)
        self.note_change()

    async def _end_process(self) -> None:
        if self.session is not None:
            # Shielded: a process whose end was left half way would run on, known to nothing.
            await asyncio.shield(self._end_session(self.session))

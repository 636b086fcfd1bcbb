"""One agent: its record, its process when there is one, and the turn that runs.

    prompt   a turn begins; a turn that runs is replaced (cancelled first)
    cancel   the turn ends, within CANCEL_SECONDS or by force; the agent stays
    kill     the process group is dead, and the agent is closed for good

Only one of prompt, mode change and idle close happens at a time (`_lock`); cancel and kill wait for none of them. A
process that ends takes its turn with it: the agent is then in error, or closed where no process can continue it.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hearth.errors import AgentError, HearthError, Refused
from hearth.packs.agents import acp
from hearth.packs.agents.agent_process import AgentProcess
from hearth.packs.agents.agent_state import ERROR_CHARACTERS, AgentHost
from hearth.packs.agents.model import AgentRecord
from hearth.packs.agents.process.session import CANCEL_SECONDS, AgentSession, Answer
from hearth.packs.agents.turn import CANCELLED, REPLACED, TERMINATED, IdleTimer, Turn, title_of

if TYPE_CHECKING:
    from hearth.packs.agents.timeline import Timeline

log = logging.getLogger(__name__)

# Characters of the last message in results and in the record; the whole is in the timeline.
MESSAGE_CHARACTERS = 64 * 1024
# A follower that is slow sees the newest state only: further turns may have begun and ended since its own.
ENDED_TURNS = 8


class Agent(AgentProcess):
    """Agent on record, with or without a process."""

    def __init__(self, record: AgentRecord, host: AgentHost, timeline: "Timeline") -> None:
        super().__init__(record, host, timeline)
        self.turn: Turn | None = None
        # Ends of the last turns, as followers get them.
        self.ended_turns: deque[dict[str, Any]] = deque(maxlen=ENDED_TURNS)
        self._lock = asyncio.Lock()
        self._idle_timer = IdleTimer(self._idle)
        self._closing: asyncio.Task[None] | None = None
        # Prompts that wait for the lock or the process, and whether a turn of notices does.
        self._prompts = 0
        self._is_told = False
        # Number of cancels: a turn that was wished for before one of them does not begin.
        self._cancels = 0
        # Whether the last turn was cancelled: no turn of notices begins before the next prompt.
        self.is_halted = False
        self._leaving: asyncio.Task[bool] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether the daemon must stay for this agent: it works, or would be lost with its process."""
        if self.is_working or self._lock.locked():
            return True
        is_lost_with_process = self.session is not None and not self.record.is_resumable
        return is_lost_with_process and not self._idle_timer.is_over

    # --- prompts

    async def prompt(self, text: str, mode: str | None = None) -> Turn:
        """Begin a turn and return it; replace the one that runs. Raises HearthError."""
        cancels = self._cancels
        self._prompts += 1
        try:
            async with self._lock:
                self.check_open()
                if mode not in (None, self.record.mode) and self.session is not None:
                    # A wrong mode must not cost the turn that runs.
                    self.check_mode(mode)
                await self.abort(REPLACED)
                await self._ensure_session()
                try:
                    if mode is not None:
                        await self._switch_mode(mode)
                    await self._leave_ungranted_mode()
                    if self._cancels != cancels:
                        raise Refused(CANCELLED)
                    self.is_halted = False
                    return self._begin(text)
                finally:
                    self._rest()
        finally:
            self._prompts -= 1

    async def prompt_if_idle(self, compose: Callable[[], str | None]) -> Turn | None:
        """Begin a turn with what `compose` returns and return it, unless one runs, or a prompt waits.

        None if no turn has begun. Raises HearthError.
        """
        cancels = self._cancels
        self._is_told = True
        try:
            async with self._lock:
                if self.is_closed or self.is_being_created or self.turn or self._prompts or self.is_halted:
                    return None
                await self._ensure_session()
                try:
                    await self._leave_ungranted_mode()
                    # A prompt that came meanwhile would replace this turn at once.
                    is_wanted = not self._prompts and self._cancels == cancels
                    text = compose() if is_wanted else None
                    return None if text is None else self._begin(text)
                finally:
                    self._rest()
        finally:
            self._is_told = False

    async def start(self, mode: str | None) -> None:
        """Start the first process, in a mode that the agent must offer. Raises HearthError."""
        async with self._lock:
            await self.open()
            if mode is not None:
                await self._switch_mode(mode)
            self.set_status("idle")
            self._start_idle_timer()

    def _rest(self) -> None:
        """Be idle again, without a turn, once the process is there."""
        if self.record.status == "initializing":
            self.set_status("idle")
            self._start_idle_timer()

    async def _ensure_session(self) -> None:
        if self.session is None:
            # A former process may still write into the session.
            await self.wait_for_ends()
        # A kill may have come while the former turn or process ended.
        self.check_open()
        if self.session is not None:
            return
        self.set_status("initializing")
        try:
            await self.open()
        except HearthError as exc:
            if not self.is_closed:
                self.fail(str(exc))
                self.set_status("error")
            raise
        except BaseException:
            if not self.is_closed:
                self.set_status("idle")
            raise

    def _begin(self, text: str) -> Turn:
        record, session = self.record, self.session
        self.check_open()
        if session is None:
            raise AgentError(record.last_error or f"agent {self.id} ended before its turn began")
        if not self.may_work:
            raise AgentError(self._ungranted())
        self._idle_timer.stop()
        instruction = self._host.first_instruction(self) if record.turn == 0 else None
        record.turn += 1
        record.last_user_message_at = time.time()
        record.last_error = record.attention = record.attention_at = None
        if record.title is None:
            record.title = title_of(text)
        texts = (instruction, text) if instruction else (text,)
        # The request is sent before any other task may cancel it.
        request = asyncio.get_running_loop().create_task(self._ask(session, texts))
        turn = self.turn = Turn(record.turn, request)
        self.timeline.user(text)
        self.flush()
        self.set_status("running")
        turn.runner = asyncio.get_running_loop().create_task(self._run(turn, session))
        return turn

    async def _run(self, turn: Turn, session: AgentSession) -> None:
        request, limit = turn.request, self._host.settings.turn_timeout
        await asyncio.wait({request}, timeout=limit)
        error = None
        if not request.done():
            error = f"the turn took longer than {limit:g} s (agents.turn_timeout) and was cancelled"
            await self._give_up(turn, session)
        try:
            end = await request
            self.note_usage(end.usage)
            error = error or end.problem
        except asyncio.CancelledError:
            # Given up: by `_cancel_turn`, the only place that cancels it.
            pass
        except HearthError as exc:
            error = error or str(exc)
        except Exception as exc:
            log.exception("unhandled exception in a turn agent=%s", self.id)
            error = error or f"the turn failed ({type(exc).__name__}); `hearth logs` has the reason"
        self._end_turn(turn, session, None if turn.aborted else error)

    async def _ask(self, session: AgentSession, texts: tuple[str, ...]) -> acp.TurnEnd:
        if self.turn is None or self.turn.aborted:
            # Aborted before it was sent: the agent would not know which turn the cancel was for, and do all of it.
            return acp.TurnEnd(acp.CANCELLED, {})
        self.turn.is_sent = True
        return await session.prompt(*texts)

    async def _give_up(self, turn: Turn, session: AgentSession) -> None:
        """Cancel a turn, once; a caller that has gone does not stop that half way."""
        if turn.giving_up is None:
            turn.giving_up = asyncio.get_running_loop().create_task(self._cancel_turn(turn, session))
        await asyncio.shield(turn.giving_up)

    async def _cancel_turn(self, turn: Turn, session: AgentSession) -> None:
        """Cancel a turn; drop it if the agent does not end it in time, and end the process where another can go on."""
        # Told of the refused permission first, an agent asks its model once more.
        session.cancel()
        self.settle_permissions("the turn was cancelled")
        request = turn.request
        await asyncio.wait({request}, timeout=CANCEL_SECONDS)
        if not request.done():
            log.warning("turn not ended by the agent after a cancel agent=%s", self.id)
            session.is_stuck = True
            request.cancel()
            if self.record.is_resumable:
                # Else it would go on with the work, and write into a session that the next turn needs.
                self._end_session(session)

    def _end_turn(self, turn: Turn, session: AgentSession, error: str | None) -> None:
        if self.turn is not turn or self._is_stopping:
            return
        self.turn = None
        record = self.record
        self.settle_permissions("the turn has ended")
        self.timeline.end_turn()
        record.last_message = (self.timeline.last_message or "")[-MESSAGE_CHARACTERS:] or None
        if error is not None:
            self.fail(error)
        self.flush()
        if self.is_closed:
            return
        if session.has_ended and not record.is_resumable:
            self.close_record(error or "its process has ended")
        else:
            record.attention = "error" if error else "finished"
            record.attention_at = time.time()
            status = turn.end(record, failed=error is not None)
            self.ended_turns.append(turn.describe_end())
            self.set_status(status)
            self._start_idle_timer()
        self._host.turn_ended(self, failed=error is not None, is_aborted=turn.aborted is not None)

    # --- cancel, modes

    async def cancel(self) -> bool:
        """End the turn that runs, and keep those from beginning that wait; return whether there was one."""
        was_expected = self._prompts > 0 or self._is_told
        self._cancels += 1
        # Before its end: notices that wait would begin another one.
        self.is_halted = self.is_halted or was_expected or self.turn is not None
        return await self.abort(CANCELLED) or was_expected

    async def abort(self, reason: str) -> bool:
        """End the turn that runs, telling those that wait for it why; return whether one ran."""
        turn, session = self.turn, self.session
        if turn is None or turn.runner is None:
            return False
        turn.aborted = turn.aborted or reason
        if session is not None:
            await self._give_up(turn, session)
        await asyncio.wait({turn.runner})
        return True

    async def set_mode(self, mode: str) -> None:
        """Switch to a mode that the agent offers. Raises HearthError."""
        async with self._lock:
            self.check_open()
            await self._ensure_session()
            try:
                await self._switch_mode(mode)
            finally:
                self._rest()

    async def _leave_ungranted_mode(self) -> None:
        """Go back to the mode that the agent was put into, if it has left it for one that needs a grant.

        Raises HearthError.
        """
        if not self.may_work and self.record.chosen_mode is not None:
            await self._switch_mode(self.record.chosen_mode)

    def _ungranted(self) -> str:
        mode = self.record.mode
        return (
            f"agent {self.id} has switched itself to mode {mode!r}, in which it never asks and which was not granted"
            "; `hearth agent mode` puts it into that mode or into another one"
        )

    # --- events of the session

    def updated(self, update: dict[str, Any]) -> None:
        """Take an update of the session."""
        self.take_update(update)
        info = self.session.info if self.session is not None else None
        if update["sessionUpdate"] in ("current_mode_update", "config_option_update") and info is not None:
            self.take_session_info(info)
            self.note_change()
            if self.turn is not None and self.turn.aborted is None and self.has_strayed:
                self.note_error(self._ungranted())
                self._leaving = asyncio.get_running_loop().create_task(self.abort(self._ungranted()))

    def permission_asked(self, request: acp.PermissionRequest, answer: Answer) -> None:
        """Have a permission request decided; one outside of a turn is cancelled."""
        if self.turn is None or self.turn.aborted:
            answer(None)
        else:
            self._host.permission_asked(self, request, answer)

    def permission_withdrawn(self, request: acp.PermissionRequest) -> None:
        """Take note that a request needs no answer any more."""
        for each in list(self.permissions.values()):
            if each.request is request:
                each.withdraw("the agent withdrew the request")

    def ended(self, why: str) -> None:
        """Take the end of the process: a turn that runs fails by itself, from the same cause."""
        session = self.session
        if session is None or not session.has_ended:
            return
        # Descendants that left its group are still being killed: none of them may count as a person's meanwhile.
        self._end_session(session)
        self.settle_permissions("the agent's process has ended")
        if self.turn is None and self._opening is None and not self.is_closed and not self.record.is_resumable:
            self.fail(why)
            self.close_record(why)

    # --- the end of the process

    def _start_idle_timer(self) -> None:
        self._idle_timer.start(self._host.settings.idle_close)

    def _idle(self) -> None:
        if self.record.is_resumable and self.session is not None and self.session.may_rest:
            self._closing = asyncio.get_running_loop().create_task(self._close_idle())

    async def _close_idle(self) -> None:
        """Give the process back; the next prompt resumes the session."""
        async with self._lock:
            if self.turn is None and self.session is not None and not self.is_closed:
                log.info("idle agent gives its process back agent=%s", self.id)
                await self._end_process()
                self.release()
                self.note_change()

    async def _end_turn_and_process(self) -> None:
        turn = self.turn
        if self._opening is not None:
            self._opening.cancel()
        if self.session is not None:
            self._end_session(self.session)
        # Also of former processes, and where another caller has begun it.
        await self.wait_for_ends()
        if turn is not None and turn.runner is not None:
            await asyncio.wait({turn.runner})

    def close_record(self, reason: str) -> None:
        """Close the agent for good, without a look at its process."""
        self._idle_timer.stop()
        self.record.closed_reason = reason[:ERROR_CHARACTERS]
        self.release()
        self.set_status("closed")

    async def kill(self, reason: str, told: str = TERMINATED) -> None:
        """Close the agent for good. Returns when the kernel knows no process of its group. Raises nothing."""
        if self.turn is not None:
            self.turn.aborted = self.turn.aborted or told
        self.settle_permissions(told)
        if not self.is_closed:
            self.close_record(reason)
        await self._end_turn_and_process()

    async def stop(self) -> None:
        """End the process because the daemon stops. The record keeps its status, which the next daemon looks at."""
        self._is_stopping = True
        self._idle_timer.stop()
        await self._end_turn_and_process()
        self.flush()
        for feed in list(self._feeds):
            feed.close()

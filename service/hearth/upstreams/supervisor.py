"""The keeper of one instance's supervision: its state, its timer, and those who wait for it.

What is decided, `supervision` decides; what is to be done, whoever is supervised does.
"""

import asyncio
import os
import time
from typing import Protocol

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.mcp import isolation, versions
from hearth.upstreams import supervision
from hearth.upstreams.connection import Connection
from hearth.upstreams.handshake import own_params
from hearth.upstreams.resource_subscriptions import IgnoreReply
from hearth.upstreams.supervision import (
    GIVEN_UP,
    PAUSED,
    RETIRED,
    SERVE,
    Event,
    Load,
    Look,
    Need,
    State,
    Terms,
    Wanted,
)
from hearth.wire import json

# Of `upstream_idle`, where it is not set. Half an hour: who comes back from lunch has the servers back with the first
# call, and meanwhile they hold no memory.
UPSTREAM_IDLE_SECONDS = 1800.0


class Supervised(Protocol):
    """Who has a server, and does with it what was decided."""

    def need(self) -> Need:
        """Who needs it."""

    def load(self) -> Load:
        """What it has done since this was last asked, and has to do."""

    def perform(self, instruction: str) -> None:
        """Do that, or begin to: it may not wait."""


class Supervisor:
    """Takes events, arms the timer, and has instructions performed."""

    def __init__(self, terms: Terms, subject: Supervised) -> None:
        self.state = State(terms)
        self._waiting = 0
        self._subject = subject
        self._outcome: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    @property
    def pause(self) -> float:
        """Seconds until it may be started again."""
        is_paused = self.state.phase in (PAUSED, GIVEN_UP)
        return max(0.0, self.state.until - time.monotonic()) if is_paused else 0.0

    def reconfigure(self, terms: Terms) -> None:
        """Go by other terms from now on."""
        self.state = self.state._replace(terms=terms)
        self._arm()

    def tell(self, event: Event) -> None:
        """Something has happened."""
        self.state, instructions = supervision.step(self.state, event, time.monotonic())
        self._arm()
        for instruction in instructions:
            if instruction == SERVE:
                self._settle(None)
            else:
                self._subject.perform(instruction)

    def _arm(self) -> None:
        due = supervision.due(self.state)
        if self._timer:
            if due == self._timer_due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer_due = due
            seconds = max(0.0, due - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        self.tell(Look(self._subject.need(), self._subject.load()))

    def check(self, connection: Connection, era: str) -> None:
        """Ask for something that costs a server nothing. Standing: it is no call."""
        method = b'"ping"' if era == versions.LEGACY else b'"server/discover"'
        try:
            connection.request_stream(method, own_params(era), _CheckReply(self, self.state.checks))
        except UpstreamError:
            # It does not read its input: that is silence, too.
            pass

    # --- those who wait

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits who has not been told anything yet."""
        return self._waiting > 0 and self._outcome is not None

    async def wait(self) -> None:
        """Return when it is ready. Raises what `fail` was told; unbounded."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            # Whoever waited may be gone by the time it fails.
            self._outcome.add_done_callback(lambda late: late.cancelled() or late.exception())
        outcome = self._outcome
        self._waiting += 1
        try:
            self.tell(Wanted())
            # Shielded: one caller's cancellation must not take it from the others.
            await asyncio.shield(outcome)
        finally:
            self._waiting -= 1

    def fail(self, problem: HearthError) -> None:
        """Whoever waits, waits in vain."""
        self._settle(problem)

    def _settle(self, problem: HearthError | None) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is None or outcome.done():
            return
        if problem is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(problem)


def chance() -> float:
    """From 0 to 1. The `random` module loads more than this is worth."""
    return os.urandom(1)[0] / 255


class _CheckReply(IgnoreReply):
    """Waits for the answer to a check; a refusal is one, too."""

    def __init__(self, supervisor: Supervisor, check: int) -> None:
        super().__init__("")
        self._supervisor = supervisor
        self._check = check

    def answered(self, message: json.Message) -> None:
        self._supervisor.tell(supervision.Answered(self._check))


def terms_of(spec: ServerSpec, mode: str) -> Terms:
    """How a server that is configured like this is supervised."""
    idle = spec.upstream_idle
    if idle is None:
        # What a process for one client keeps in memory belongs to a conversation that may go on tomorrow.
        idle = 0.0 if mode == isolation.SESSION else UPSTREAM_IDLE_SECONDS
    # What is behind a url is not ours to end, and asking it costs somebody: the next call finds out how it is.
    return Terms(idle=idle) if spec.command is not None else Terms(None, idle, checked=False)


def refusal(name: str, state: State, pause: float, error: str | None) -> UpstreamError:
    """What those are told who wait for it in vain."""
    if state.phase == RETIRED:
        return UpstreamError(f"server {name!r} was stopped while it was being started")
    if state.phase == GIVEN_UP:
        return UpstreamError(
            f"server {name!r} was given up after {state.failures} failures in a row, and is not tried again for"
            f" {max(1.0, pause):.0f} s: {error}. When it is mended, `hearth reload` has it tried at once"
        )
    return UpstreamError(error or f"server {name!r} could not be started")

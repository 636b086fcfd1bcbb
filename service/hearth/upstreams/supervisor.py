"""Supervisor of one instance: its state, its timer, its waiters, its load and the end of its connections.

`supervision` decides; the supervised instance acts. `Terminations` sees connections to their end, `IdleReaper` ends
unused instances.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.mcp import isolation, versions
from hearth.upstreams import supervision
from hearth.upstreams.change_notices import IgnoreReply
from hearth.upstreams.connection import Connection
from hearth.upstreams.handshake import own_params
from hearth.upstreams.supervision import (
    GIVEN_UP,
    PAUSED,
    READY,
    RETIRED,
    SERVE,
    STARTING,
    Event,
    Look,
    State,
    Terms,
    Wanted,
)
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.upstreams.instance import Instance

log = logging.getLogger(__name__)

# Default of `upstream_idle`. Half an hour: after lunch the first call restarts the servers, and meanwhile they use no
# memory.
UPSTREAM_IDLE_SECONDS = 1800.0
# Pause before another look at an instance that cannot be stopped yet.
_LOOK_AGAIN_SECONDS = 0.1


class Supervisor:
    """Shell of the state machine: takes events, arms the timer, and issues instructions."""

    def __init__(self, terms: Terms, subject: "Instance") -> None:
        self.state = State(terms)
        self._waiting = 0
        self._subject = subject
        self._outcome: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    @property
    def pause(self) -> float:
        """Seconds until the instance may be started again."""
        is_paused = self.state.phase in (PAUSED, GIVEN_UP)
        return max(0.0, self.state.until - time.monotonic()) if is_paused else 0.0

    def reconfigure(self, terms: Terms) -> None:
        """Apply other terms from now on."""
        self.state = self.state._replace(terms=terms)
        self._arm()

    def tell(self, event: Event) -> None:
        """Take an event."""
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
        """Send a request that costs the server nothing. As a stream: a check is no call in flight."""
        method = b'"ping"' if era == versions.LEGACY else b'"server/discover"'
        try:
            connection.request_stream(method, own_params(era), _CheckReply(self, self.state.checks))
        except UpstreamError:
            # A server that does not read its input is silent, too.
            pass

    # --- waiters

    @property
    def is_awaited(self) -> bool:
        """True if a waiter has no outcome yet."""
        return self._waiting > 0 and self._outcome is not None

    async def wait(self) -> None:
        """Wait until the instance is ready. Raises the problem given to `fail`; unbounded."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            # The waiter may be gone by the time it fails.
            self._outcome.add_done_callback(lambda late: late.cancelled() or late.exception())
        outcome = self._outcome
        self._waiting += 1
        try:
            self.tell(Wanted())
            # Shielded: one caller's cancellation must not affect the others.
            await asyncio.shield(outcome)
        finally:
            self._waiting -= 1

    def fail(self, problem: HearthError) -> None:
        """Raise this problem in every waiter."""
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
    """Return a number from 0 to 1. The `random` module loads more than this is worth."""
    return os.urandom(1)[0] / 255


class _CheckReply(IgnoreReply):
    """Waiter for the answer to a check; a refusal counts as an answer, too."""

    def __init__(self, supervisor: Supervisor, check: int) -> None:
        super().__init__("")
        self._supervisor = supervisor
        self._check = check

    def answered(self, message: json.Message) -> None:
        self._supervisor.tell(supervision.Answered(self._check))


def terms_of(spec: ServerSpec, mode: str) -> Terms:
    """Return the terms for a server with this entry."""
    idle = spec.upstream_idle
    if idle is None:
        # The memory of a process for one client belongs to a conversation that may continue tomorrow.
        idle = 0.0 if mode == isolation.SESSION else UPSTREAM_IDLE_SECONDS
    # A server behind a url is not ours to stop, and checks would cost its operator: the next call shows its state.
    return Terms(idle=idle) if spec.command is not None else Terms(None, idle, checked=False)


def refusal(name: str, state: State, pause: float, error: str | None) -> UpstreamError:
    """Return the error for the waiters of a server that does not start."""
    if state.phase == RETIRED:
        return UpstreamError(f"server {name!r} was stopped while it was being started")
    if state.phase == GIVEN_UP:
        return UpstreamError(
            f"server {name!r} was given up after {state.failures} failures in a row, and is not tried again for"
            f" {max(1.0, pause):.0f} s: {error}. When it is mended, `hearth reload` has it tried at once"
        )
    return UpstreamError(error or f"server {name!r} could not be started")


class Terminations:
    """Terminations of one instance's connections: one must be gone before the next connection may begin.

    A lost connection may live for a while, and report its end even later. Its exit delays the next start; its report
    delays nothing. `gone` is called when nothing is left of the connection that was detached last.
    """

    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone
        # The connection that has to be gone before another may be started.
        self.current: Connection | None = None
        # Connections whose `closed` has not come yet; True: ended by itself.
        self._silent: dict[Connection, bool] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def detach(self, connection: Connection, by_itself: bool) -> None:
        """Take over a connection that the instance no longer uses."""
        self.current = connection
        self._silent[connection] = by_itself

    def expedite(self, connection: Connection) -> None:
        """Stop a connection, by the bounded sequence."""
        task = asyncio.create_task(self._stop(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _stop(self, connection: Connection) -> None:
        try:
            await connection.stop()
        except Exception:
            # Callers that wait for the next connection must not wait forever.
            log.exception("unhandled exception while stopping a connection", extra={"upstream": connection.name})
        self.left(connection)

    def closed(self, connection: Connection) -> bool | None:
        """Note that a connection is closed.

        Return whether it ended by itself; None if it was not detached, or was closed before.
        """
        return self._silent.pop(connection, None)

    def left(self, connection: Connection) -> None:
        """Note that nothing is left of a connection."""
        if connection is self.current:
            self.current = None
            self._gone()


class IdleReaper:
    """Timers of one server's idle instances; `end` stops one permanently."""

    def __init__(self, end: "Callable[[Instance], None]") -> None:
        self._end = end
        self._timers: dict[Instance, asyncio.TimerHandle] = {}

    def wait(self, instance: "Instance", seconds: float, at_least: float = 0.0) -> None:
        """Stop an instance after so many seconds, if it is still idle then."""
        if not instance.holders and not instance.obsolete and not instance.is_eager:
            self.forget(instance)
            loop = asyncio.get_running_loop()
            self._timers[instance] = loop.call_later(max(seconds, at_least), self._look, instance, seconds)

    def forget(self, instance: "Instance") -> None:
        """Cancel the timer of an instance that is in use, or ends anyway."""
        timer = self._timers.pop(instance, None)
        if timer:
            timer.cancel()

    def _look(self, instance: "Instance", seconds: float) -> None:
        self._timers.pop(instance, None)
        if instance.holders or instance.obsolete:
            return
        is_working = instance.connection is not None and instance.connection.busy
        if is_working or instance.in_flight or instance.queue or instance.is_awaited or instance.state == STARTING:
            self.wait(instance, seconds, _LOOK_AGAIN_SECONDS)
        elif instance.pause:
            # A new instance in its place would know nothing of the failures, and start without a pause.
            self.wait(instance, seconds, instance.pause)
        else:
            self._end(instance)


async def drain(instance: "Instance", seconds: float) -> None:
    """Stop an instance when its calls are done, or after `seconds`."""
    instance.mark_stale()
    deadline = time.monotonic() + seconds
    # An instance that is still starting has no calls: its successor serves the waiters.
    while instance.state == READY and (instance.in_flight or instance.queue or instance.pins):
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(0.05)
    if instance.connection and instance.in_flight:
        instance.connection.fail_all(
            UpstreamError(
                f"server {instance.name!r} is ended, for another config or because somebody restarts it, and has not"
                f" finished within {seconds:g} s (drain_timeout); the call may or may not have run"
            )
        )
    await instance.retire()

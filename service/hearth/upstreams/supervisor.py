"""Supervisor of one instance: its state, its timer, its waiters, its load and the end of its connections.

`supervision` decides; the supervised instance acts. `Terminations` sees connections to their end. `InstanceTable` has
the instances of one server and their status for `hearth status --json`; `IdleReaper` ends unused ones.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.mcp import isolation, versions
from hearth.upstreams import supervision, workload
from hearth.upstreams.change_notices import IgnoreReply
from hearth.upstreams.connection import Connection
from hearth.upstreams.handshake import own_params
from hearth.upstreams.supervision import FAILED, FAILING, GIVEN_UP, IDLE, PAUSED, READY, STARTING, STOPPED, STOPPING
from hearth.upstreams.workload import CallStats
from hearth.wire import json

if TYPE_CHECKING:
    from hearth.upstreams.instance import Instance

log = logging.getLogger(__name__)

# Default of `upstream_idle`. Half an hour: after lunch the first call restarts the servers, and meanwhile they use no
# memory.
UPSTREAM_IDLE_SECONDS = 1800.0
# Pause before another look at an instance that cannot be stopped yet.
_LOOK_AGAIN_SECONDS = 0.1
# State of a server with several instances: the first of these that one of them has.
_BEST_FIRST = (READY, STARTING, STOPPING, IDLE, FAILED)
# Length of the cause of a failure, which is one line: a server's last words may be long.
CAUSE_CHARACTERS = 500


class Supervisor:
    """Shell of the state machine: takes events, arms the timer, and issues instructions."""

    def __init__(self, terms: supervision.Terms, subject: "Instance") -> None:
        self.state = supervision.State(terms)
        self._waiting = 0
        self._subject = subject
        self._outcome: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0

    @property
    def pause(self) -> float:
        """Seconds until the instance may be started again."""
        return max(0.0, self.state.until - time.monotonic()) if self.state.phase in (PAUSED, GIVEN_UP) else 0.0

    def reconfigure(self, terms: supervision.Terms) -> None:
        """Apply other terms from now on."""
        self.state = self.state._replace(terms=terms)
        self._arm()

    def tell(self, event: supervision.Event) -> None:
        """Take an event."""
        self.state, instructions = supervision.step(self.state, event, time.monotonic())
        self._arm()
        for instruction in instructions:
            if instruction == supervision.SERVE:
                self.settle()
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
            self._timer = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._look)

    def _look(self) -> None:
        self._timer = None
        self.tell(supervision.Look(self._subject.need(), self._subject.load()))

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
        """Wait until the instance is ready. Raises the problem given to `settle`; unbounded."""
        if self._outcome is None:
            self._outcome = asyncio.get_running_loop().create_future()
            # The waiter may be gone by the time it fails.
            self._outcome.add_done_callback(lambda late: late.cancelled() or late.exception())
        outcome = self._outcome
        self._waiting += 1
        try:
            self.tell(supervision.Wanted())
            # Shielded: one caller's cancellation must not affect the others.
            await asyncio.shield(outcome)
        finally:
            self._waiting -= 1

    def settle(self, problem: HearthError | None = None) -> None:
        """Tell every waiter that the instance is ready, or raise this problem in it."""
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


def terms_of(spec: ServerSpec, mode: str) -> supervision.Terms:
    """Return the terms for a server with this entry."""
    idle = spec.upstream_idle
    if idle is None:
        # The memory of a process for one client belongs to a conversation that may continue tomorrow.
        idle = 0.0 if mode == isolation.SESSION else UPSTREAM_IDLE_SECONDS
    # A server behind a url is not ours to stop, and checks would cost its operator: the next call shows its state.
    return supervision.Terms(idle=idle) if spec.command is not None else supervision.Terms(None, idle, checked=False)


def refusal(name: str, state: supervision.State, pause: float, error: str | None) -> UpstreamError:
    """Return the error for the waiters of a server that does not start."""
    if state.phase == supervision.RETIRED:
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


class InstanceKey(NamedTuple):
    """Key of an instance: equal for clients that share it. The era is the server's choice, not the client's."""

    era: str
    mode: str
    place: str


class InstanceTable(dict[InstanceKey, "Instance"]):
    """Instances of one server in use, and the counts of those that are no longer in use."""

    def __init__(self) -> None:
        super().__init__()
        self._former = CallStats()
        self._former_restarts = 0

    def key_of(self, instance: "Instance") -> InstanceKey | None:
        """Return the key under which an instance is filed."""
        return next((key for key, known in self.items() if known is instance), None)

    def take_out(self, key: InstanceKey, instance: "Instance") -> None:
        """Remove an instance that is no longer used, and keep its counts."""
        if self.get(key) is instance:
            del self[key]
        self._former.absorb(instance.stats)
        self._former_restarts += instance.restarts
        # Calls that are still in flight are counted there, too.
        instance.stats = self._former

    @property
    def is_busy(self) -> bool:
        """True if one works although no call waits for it."""
        return any(instance.connection is not None and instance.connection.busy for instance in self.values())

    @property
    def needs_login(self) -> bool:
        """True if one runs and refuses every request until a user has logged in."""
        connections = (instance.connection for instance in self.values())
        return any(found and found.needs_login for found in connections)

    @property
    def state(self) -> str:
        """Best state among the instances."""
        states = {state_of(instance) for instance in self.values()}
        return next((state for state in _BEST_FIRST if state in states), STOPPED)

    @property
    def error(self) -> str | None:
        """Last failure of one of them."""
        return next((instance.error for instance in self.values() if instance.error), None)

    @property
    def pids(self) -> list[int]:
        """Pids of all processes."""
        return [pid for instance in self.values() for pid in instance.pids]

    def call_stats(self) -> CallStats:
        """Return the counts of all instances, former ones included."""
        found = CallStats()
        for part in (self._former, *(instance.stats for instance in self.values())):
            found.absorb(part)
        return found

    def describe(self, pins: dict[str, object]) -> dict[str, object]:
        """Describe the instances in `hearth status --json`; `pins` describe the server's pinned tools."""
        found = self.values()
        return {
            "givenUp": any(instance.state == GIVEN_UP for instance in found),
            "strayOutput": next(filter(None, map(stray_output, found)), None),
            **pins,
            "restarts": self._former_restarts + sum(instance.restarts for instance in found),
            **workload.total([self._former, *(instance.stats for instance in found)]),
            "instances": [of_instance(each, key.place) for key, each in self.items()],
        }


def state_of(instance: "Instance") -> str:
    """Return the state to show: `failed` for every way of not working, a process that died included."""
    has_died = instance.state == STOPPED and instance.error is not None
    return FAILED if has_died or instance.state in FAILING else instance.state


def cause(name: str, error: str | None) -> str | None:
    """Return an error as one line, without the server's name, which is shown beside it."""
    if error is None:
        return None
    text = " ".join(error.split())
    prefixes = (f"server {name!r} could not be started: ", f"server {name!r}: ", f"server {name!r} ")
    while prefix := next((each for each in prefixes if text.startswith(each)), ""):
        text = text.removeprefix(prefix)
    return text if len(text) <= CAUSE_CHARACTERS else f"{text[: CAUSE_CHARACTERS - 1]}…"


def stray_output(instance: "Instance") -> dict[str, object] | None:
    """Describe the lines on an instance's stdout that were not MCP."""
    connection = instance.connection
    return {"lines": connection.stray_lines, "first": connection.stray} if connection and connection.stray else None


def of_instance(instance: "Instance", place: str) -> dict[str, object]:
    """Describe one instance; `place` is the workspace or session that its clients share."""
    return {
        "era": instance.era,
        "place": place or None,
        "state": state_of(instance),
        "error": cause(instance.name, instance.error),
        "givenUp": instance.state == GIVEN_UP,
        "retrySeconds": round(instance.supervisor.pause, 1) or None,
        "pids": instance.pids,
        "sessions": len(instance.holders),
        "inFlight": instance.in_flight,
        "restarts": instance.restarts,
        "strayOutput": stray_output(instance),
        "startedAt": instance.started_at if instance.state == READY else None,
        **instance.stats.describe(),
    }


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
        is_working = instance.in_flight or instance.queue or (instance.connection and instance.connection.busy)
        if is_working or instance.supervisor.is_awaited or instance.state == STARTING:
            self.wait(instance, seconds, _LOOK_AGAIN_SECONDS)
        elif instance.supervisor.pause:
            # A new instance in its place would know nothing of the failures, and start without a pause.
            self.wait(instance, seconds, instance.supervisor.pause)
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

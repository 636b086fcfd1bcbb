"""Dispatch step of the pipeline: translates a resolved call for its server's era, queues it if needed, and sends it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from time import monotonic
from typing import Any, NamedTuple

from msgspec import Raw

from hearth.errors import HearthError, InstallationChanged, UpstreamError
from hearth.hub.bindings import DEFAULT_LOG_LEVEL, LogLevels
from hearth.hub.calls import Call
from hearth.hub.catalog import Target, View
from hearth.hub.client_requests import Logins
from hearth.mcp import translate, versions
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json

log = logging.getLogger(__name__)

# Interval of the checks while a call is in flight; every limit is longer than a fraction of a second.
INTERVAL_SECONDS = 0.5


class Deadlines:
    """Timer that ends calls which take too long; idle while none is in flight.

    Progress gives a call more time, up to a ceiling; questions to its client cost it none. `leaving`: instances that
    take no new calls. `looked` is called after each check, the last of which follows the last call.
    """

    def __init__(
        self,
        servers: Callable[[], Iterable[Server]],
        leaving: Callable[[], Iterable[Instance]] = tuple,
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        self.armed = False
        self._servers = servers
        self._leaving = leaving
        self._looked = looked

    def arm(self) -> None:
        """Start the timer: a call was sent."""
        self.armed = True
        asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._look)

    def _look(self) -> None:
        self.armed = False
        now = monotonic()
        instances = [instance for server in self._servers() for instance in server.instances.values()]
        instances += self._leaving()
        for instance in instances:
            for waiter in instance.connection.waiters() if instance.connection else ():
                self._check(waiter, now, instance)
            self._check_queue(now, instance)
        if not self.armed and any(instance.in_flight or instance.queue for instance in instances):
            self.arm()
        self._looked()

    def _check_queue(self, now: float, instance: Instance) -> None:
        limit = instance.spec.call_timeout
        for queued in instance.queue.waiting():
            if limit and now - queued.since > limit:
                # The queue keeps the entry, but does not send it when its turn comes.
                sentence = f"server {instance.name!r} was busy with other calls for {limit:g} s (key call_timeout)"
                queued.failed(UpstreamError(sentence))

    def _check(self, waiter: object, now: float, instance: Instance) -> None:
        call = waiter if isinstance(waiter, Call) else getattr(waiter, "call", None)
        if not isinstance(call, Call) or call.attempt is None or call.waits_for_client:
            return
        spec = instance.spec
        if spec.call_ceiling and now - call.attempt.started > spec.call_ceiling:
            sentence = f"server {spec.name!r} did not finish within {spec.call_ceiling:g} s (key call_ceiling)"
        elif spec.call_timeout and now - call.touched > spec.call_timeout:
            sentence = f"server {spec.name!r} gave no answer within {spec.call_timeout:g} s (key call_timeout)"
        else:
            return
        call.give_up(b'"it took too long"')
        call.failed(UpstreamError(sentence))


class Dispatcher:
    """Sender of calls: translates them for their server's era and queues those above its limit. Retries nothing."""

    def __init__(
        self,
        levels: LogLevels,
        deadlines: Deadlines,
        find: Callable[[str], Server | None] = lambda name: None,
        server_info: bytes = b"{}",
    ) -> None:
        self._levels = levels
        self._deadlines = deadlines
        self._raw_methods: dict[str, bytes] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.logins = Logins(find, self, server_info)

    def dispatch(self, call: Call, view: View, target: Target, instance: Instance) -> None:
        """Send a call to a ready instance, or to its successor if it has just ended. Raises UpstreamError."""
        if target.unrepeatable is not None and (call.request.resent or call.request.replayed):
            raise unrepeatable(target.unrepeatable)
        if instance.limited and instance.queue.full:
            instance.queue.add(QueuedCall(self, call, view, target, instance, monotonic()))
            if not self._deadlines.armed:
                self._deadlines.arm()
        else:
            self.deliver(call, view, target, instance)

    def deliver(self, call: Call, view: View, target: Target, instance: Instance) -> None:
        """Send a call now, regardless of how many are in flight. Raises UpstreamError."""
        try:
            self._send(call, view, target, instance)
        except UpstreamError:
            if instance.open or instance.obsolete:
                raise
            call.handler.redispatch(call, target)

    def _send(self, call: Call, view: View, target: Target, instance: Instance) -> None:
        request = call.request
        method, meta = request.method, request.meta
        connection, era = instance.connection, instance.era
        if connection is None:
            raise UpstreamError(f"server {instance.name!r} has just ended; call again")
        # A copy: the request stays as received, for another attempt and for comparison with a retry.
        params = {**request.params, **target.changes}
        if request.era == versions.MODERN != era:
            if "requestState" in params:
                from hearth.mcp.request_state import EXPIRED, StateRefused

                # Not Hearth's own state, or a former daemon's; and a legacy server issues none.
                raise StateRefused(EXPIRED)
            params.pop("inputResponses", None)
        if meta or era == versions.MODERN or request.era == versions.MODERN:
            self._write_meta(call, params, meta, instance, connection)
        raw_method = self._raw_methods.get(method)
        if raw_method is None:
            raw_method = self._raw_method(method)
        call.send(target.server, instance, connection, raw_method, json.join(params), view)
        if not self._deadlines.armed:
            self._deadlines.arm()

    def _raw_method(self, method: str) -> bytes:
        raw = json.dumps(method)
        # Names of extension methods are the client's choice: without a bound they could fill memory.
        if len(self._raw_methods) < 100:
            self._raw_methods[method] = raw
        return raw

    def _write_meta(
        self, call: Call, params: json.Fields, meta: json.Fields, instance: Instance, connection: Connection
    ) -> None:
        level = None
        if call.era == versions.LEGACY:
            wanted = call.session.log_level or DEFAULT_LOG_LEVEL
            if not meta and instance.era == versions.MODERN:
                params["_meta"] = call.session.caller.envelope(wanted)
                return
            level = json.dumps(wanted)
        else:
            wished = call.log_level if instance.era == versions.LEGACY else None
            if wished:
                self._levels.sync(instance, wished)
        # Only now: setting the level may have sent a request, which took an id.
        token = b"%d" % connection.reserve() if "progressToken" in meta else None
        sent = translate.request_meta(meta, instance.era, call.session.caller, token, level)
        params.pop("_meta", None)
        if sent:
            params["_meta"] = Raw(json.join(sent))

    def spawn(self, work: Coroutine[Any, Any, object], call: Call | None = None) -> None:
        """Run work in the background; an unhandled exception fails `call`."""
        task = asyncio.create_task(guarded(work, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class QueuedCall(NamedTuple):
    """Call that waits until its server has fewer calls in flight."""

    dispatcher: Dispatcher
    call: Call
    view: View
    target: Target
    instance: Instance
    # Start of the wait.
    since: float

    def send(self) -> None:
        """Send the call, if its client still waits and may still make it."""
        call = self.call
        if not call.is_open or call.session.left:
            return
        try:
            call.handler.authorize_now(call, self.target)
            self.dispatcher.deliver(call, self.view, self.target, self.instance)
        except HearthError as problem:
            call.failed(problem)

    def failed(self, problem: HearthError) -> None:
        """Fail the call."""
        self.call.failed(problem)


async def guarded(work: Coroutine[Any, Any, object], call: Call | None = None) -> None:
    """Run background work for a call; an unhandled exception fails the call."""
    try:
        await work
    except Exception as exc:
        log.exception("unhandled exception in background work")
        if call:
            call.failed(broken(exc))


def broken(cause: Exception) -> HearthError:
    """Return the error for a failure of Hearth itself."""
    if isinstance(cause, ImportError):
        return InstallationChanged(cause)
    return UpstreamError("Hearth failed at this request; `hearth logs` has the reason")


def unrepeatable(name: str) -> UpstreamError:
    """Return the error for a call that was sent to a daemon which died, if its tool is not safe to run twice."""
    return UpstreamError(
        f"the daemon was lost while tool {name!r} was being called; it may or may not have run, and it was not "
        "called again because it is neither annotated as read-only nor as idempotent"
    )

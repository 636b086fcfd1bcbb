"""Calls: a client's request (`ClientRequest`), what was sent to a server for it (`UpstreamAttempt`), and its life."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from hearth.errors import HearthError, LoginRequired
from hearth.faults import SEAMS
from hearth.hub.authorization.permit import CallPermit
from hearth.hub.events import EVENTS
from hearth.hub.sessions import Session
from hearth.hub.sinks import ReplySink
from hearth.mcp import downgrade, messages, translate, versions
from hearth.upstreams.connection import Connection
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.catalog import View
    from hearth.hub.pipeline import Pipeline
    from hearth.hub.suspended_call import SuspendedCall


# Marker of a tool's failure, searched for before anything is parsed. Only the end of a long answer is searched: an
# error is a sentence or two, and images are not scanned on every call.
_IS_ERROR = b'"isError"'
_VALUE_AT = len(_IS_ERROR) + 1
_ERROR_BYTES = 4096
_F = ord("f")


ResultStep = Callable[["Call", RawBytes], RawBytes]


class ClientRequest(NamedTuple):
    """Request of a client, as received."""

    session: Session
    # Handle that the wire gave the line; only the wire knows its meaning.
    tag: int
    id: bytes
    # Key of the request among the open ones of its session.
    key: object
    method: str
    era: str
    params: json.Fields
    meta: json.Fields
    # A former daemon may have run it.
    resent: bool = False
    # A former daemon has answered it, and the client has that answer.
    replayed: bool = False
    # Sink of the answer in the place of the session's, when the request came in a batch.
    batch: ReplySink | None = None
    # False for a method that Hearth only passes on.
    known: bool = True


class UpstreamAttempt(NamedTuple):
    """Request as it was sent to a server. A retry is another attempt."""

    server: Server
    instance: Instance
    connection: Connection
    # Id of the request on that connection.
    id: int
    # Start of the call's clock. A retry keeps it; time spent on questions to the client moves it forward.
    started: float
    params: bytes
    view: "View"
    # Whether the result goes to the client unchanged.
    plain: bool


class Call:
    """Request of a client from its arrival to its one answer. Waiter of the upstream connection.

    `request` is what the client sent, `attempt` what was last sent to a server for it. `handler` takes results on their
    way to the client, and answers of servers that do not end the call.
    """

    __slots__ = (
        "attempt", "handler", "login", "paused", "permit", "request", "rounds", "suspended", "tasks", "touched",
        "uncertain",
    )  # fmt: skip

    def __init__(self, handler: "Pipeline", request: ClientRequest) -> None:
        self.handler = handler
        self.request = request
        self.attempt: UpstreamAttempt | None = None
        # Set while the call is suspended: the suspended call waits for the server then, not this one.
        self.suspended: SuspendedCall | None = None
        # Open questions to the client; the call's clock does not run meanwhile.
        self.tasks: set[asyncio.Task[Any]] | None = None
        # Questions among them that may belong to another call of the session.
        self.uncertain: set[asyncio.Task[Any]] | None = None
        # Number of times that the server has required input.
        self.rounds = 0
        # The user's answer to the request to log in.
        self.login: str | None = None
        # The policy's decision, if there is a policy and the call is one of a tool.
        self.permit: CallPermit | None = None

    # --- the request

    @property
    def session(self) -> Session:
        """Session of the client."""
        return self.request.session

    @property
    def id(self) -> bytes:
        """Id that the client gave."""
        return self.request.id

    @property
    def tag(self) -> int:
        """Handle of the wire."""
        return self.request.tag

    @property
    def era(self) -> str:
        """Era of the request."""
        return self.request.era

    @property
    def method(self) -> str:
        """Method of the request."""
        return self.request.method

    @property
    def declared(self) -> RawBytes:
        """Capabilities that a modern request declares."""
        return self.request.meta.get(versions.CLIENT_CAPABILITIES_KEY, b"{}")

    @property
    def log_level(self) -> str | None:
        """Lowest level of log messages that a modern request wants."""
        return values.text(self.request.meta.get(versions.LOG_LEVEL_KEY))

    @property
    def is_open(self) -> bool:
        """Whether the client still waits: not answered, not cancelled, not gone."""
        return self.request.session.open.get(self.request.key) is self

    @property
    def version(self) -> str:
        """Revision in which the answer is written."""
        if self.request.era == versions.MODERN:
            return versions.NEWEST_MODERN
        return self.request.session.version or versions.NEWEST_LEGACY

    def replace_params(self, params: json.Fields) -> None:
        """Continue with other params, where a part of them was meant for Hearth itself."""
        self.request = self.request._replace(params=params)

    def allow(self, permit: CallPermit) -> None:
        """Record the policy's decision, which hears of the call's end."""
        self.permit = permit

    def mark_fresh(self) -> None:
        """Treat a repeated request as a new one: it is known that no former daemon has run it."""
        self.request = self.request._replace(resent=False)

    def answer_login(self, answer: str) -> None:
        """Record the user's answer to the request to log in."""
        self.login = answer

    # --- to the server

    def send(
        self, server: Server, instance: Instance, connection: Connection, raw_method: bytes, params: bytes, view: "View"
    ) -> None:
        """Send the request to a server. Raises UpstreamError, in which case the call is still open."""
        request = self.request
        era = request.era
        plain = (
            era == instance.era
            and not view.looks_at_links
            and (era == versions.MODERN or (request.session.version or "") >= downgrade.RESULTS_ALIKE_SINCE)
        )
        number = connection.request(raw_method, params, self)
        self.touched = now = monotonic()
        self.attempt = UpstreamAttempt(server, instance, connection, number, now, params, view, plain)
        if EVENTS.is_followed:
            EVENTS.call_started(request, self.attempt)

    def send_again(self, params: bytes) -> None:
        """Send the same request once more, with other params, as a new attempt. Raises UpstreamError."""
        attempt = self.attempt
        assert attempt is not None
        number = attempt.connection.request(json.dumps(self.request.method), params, self)
        self.attempt = attempt._replace(id=number)

    def next_round(self) -> int:
        """Count one more demand for input; return how many there were."""
        self.rounds += 1
        return self.rounds

    def move(self, instance: Instance, connection: Connection) -> None:
        """Continue with another process of the same server."""
        assert self.attempt is not None
        self.attempt = self.attempt._replace(instance=instance, connection=connection)

    def detach(self) -> None:
        """Detach the call from its process: the request is made again from the start, or has failed without one."""
        self.attempt = self.suspended = None

    def suspend(self, suspended: "SuspendedCall | None") -> None:
        """Let a suspended call wait for the server in place of this one; with None, wait again."""
        self.suspended = suspended

    def resume(self, suspended: "SuspendedCall", attempt: UpstreamAttempt) -> None:
        """Take the place of the request for which a suspended call was made."""
        self.suspended = suspended
        self.attempt = attempt
        self.touched = monotonic()

    # --- from the server

    def answered(self, message: json.Message) -> None:
        """Take the server's answer."""
        if SEAMS:
            SEAMS.hit("before-answer")
        result: RawBytes | None = message.fields.get("result")
        if result is None:
            self._take_error(message)
            return
        attempt = self.attempt
        assert attempt is not None
        received = result
        if not attempt.plain:
            if self.request.era == versions.LEGACY and translate.result_type(result) == translate.INPUT_REQUIRED:
                self.handler.input_required(self, result)
                return
            try:
                result = self._translated(attempt, result)
            except HearthError as problem:
                self.failed(problem)
                return
        limit = attempt.server.spec.result_limit
        if (limit and len(result) > limit) or self.handler.result_steps:
            result = self.handler.result(self, result)
        payload = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self.request.id, result)
        if self.close(payload):
            at = payload.rfind(_IS_ERROR, -_ERROR_BYTES)
            # Most servers say `false` every time: nothing is parsed for it.
            may_err = at >= 0 and payload[at + _VALUE_AT] != _F
            erred = may_err and values.is_true(values.members(received).get("isError"))
            attempt.instance.stats.add(monotonic() - attempt.started, erred)

    def _take_error(self, message: json.Message) -> None:
        attempt = self.attempt
        assert attempt is not None
        request, era = self.request, attempt.instance.era
        if era == versions.LEGACY and self.handler.urls_demanded(self, message):
            return
        if era != request.era and self.handler.era_refused(self, message):
            return
        # The URI as the client wrote it, not as the server knows it.
        uri = request.params.get("uri") if request.method == "resources/read" else None
        error = message.fields["error"]
        body = translate.error_object(error, request.era, era, uri, request.method, request.known, self.version)
        if self.close(messages.raw_error(request.id, body)):
            self._count_failure()

    def _count_failure(self) -> None:
        if self.attempt is not None:
            self.attempt.instance.stats.add(monotonic() - self.attempt.started, True)

    def _translated(self, attempt: UpstreamAttempt, result: RawBytes) -> RawBytes:
        request = self.request
        result = translate.result(request.method, result, request.era, attempt.instance.era, self.version)
        return (
            attempt.view.with_links(request.session, attempt.server, result) if attempt.view.looks_at_links else result
        )

    def failed(self, problem: HearthError) -> None:
        """Answer with the reason why no answer comes from the server, or ask the client for what is missing."""
        if isinstance(problem, LoginRequired) and self.attempt and self.handler.login_required(self, problem):
            return
        if self.close(messages.failure(self.request.id, problem)):
            self._count_failure()

    def progressed(self, params: json.Fields) -> None:
        """Forward progress to the one session whose call it is, under the token that its client chose."""
        self.touched = monotonic()
        request = self.request
        token = request.meta.get("progressToken")
        if token is None or not self.is_open:
            return
        body = translate.notification_params(params, progress_token=token)
        request.session.sink.notify(messages.notification("notifications/progress", body), about=request.tag)

    # --- to the client

    def close(self, payload: bytes, keep: str | None = None, drop: str | None = None) -> bool:
        """Send the one answer; anything later is dropped. Return whether this was the one."""
        request = self.request
        session, key = request.session, request.key
        if session.open.get(key) is self:
            del session.open[key]
            if self.tasks:
                self._bequeath_questions()
                self._withdraw_questions()
            (request.batch or session.sink).answer(request.tag, payload, keep, drop)
            if self.permit is not None:
                self.permit.finished(payload, request.id)
            if EVENTS.is_followed:
                EVENTS.call_finished(request, self.attempt, payload)
            return True
        return False

    def cancel(self, reason: RawBytes | None = None) -> None:
        """Cancel the call for its client: no answer is sent, and the server is told."""
        if not self.is_open:
            return
        request = self.request
        del request.session.open[request.key]
        self._withdraw_questions()
        self.give_up(reason)
        (request.batch or request.session.sink).finish(request.tag)
        if self.permit is not None:
            self.permit.cancelled()
        if EVENTS.is_followed:
            EVENTS.call_finished(request, self.attempt, None)

    def give_up(self, reason: RawBytes | None = None) -> None:
        """Tell the server that it need not continue."""
        attempt, whose = self.attempt, self.request.session.id
        if self.suspended:
            self.suspended.cancelled()
        elif attempt and attempt.instance.era == versions.LEGACY:
            attempt.connection.cancel(attempt.id, reason, whose)
        elif attempt:
            # A modern server sends no requests, and log messages only for requests that named a level.
            is_silent = self.request.era == versions.MODERN and self.log_level is None
            attempt.connection.cancel(attempt.id, reason, None if is_silent else whose, will_stop=True)

    # --- questions to the client during the call

    @property
    def waits_for_client(self) -> bool:
        """Whether a question to the client is open, so that the call's own clock does not run."""
        return bool(self.tasks)

    def attach(self, task: "asyncio.Task[Any]", is_certain: bool = True) -> None:
        """Attach a question, which ends with the call; one that may be another call's ends with the session's last."""
        if not self.tasks:
            self.tasks = set()
            self.paused = monotonic()
        self.tasks.add(task)
        if not is_certain:
            self.uncertain = self.uncertain or set()
            self.uncertain.add(task)
        task.add_done_callback(self._detach)

    def _detach(self, task: "asyncio.Task[Any]") -> None:
        self.touched = monotonic()
        if self.uncertain:
            self.uncertain.discard(task)
        if self.tasks:
            self.tasks.discard(task)
            if not self.tasks and self.attempt:
                self.attempt = self.attempt._replace(started=self.attempt.started + self.touched - self.paused)

    def _bequeath_questions(self) -> None:
        """Hand questions that may have been for another call of the session to that call, if there is one."""
        if not self.uncertain or not self.tasks or not self.attempt:
            return
        for heir in self.attempt.connection.waiters():
            if isinstance(heir, Call) and heir.session is self.session:
                self.tasks -= self.uncertain
                for task in self.uncertain:
                    heir.attach(task, is_certain=False)
                return

    def _withdraw_questions(self) -> None:
        tasks, self.tasks = self.tasks, None
        current = asyncio.current_task()
        for task in tasks or ():
            if task is not current:
                task.cancel()

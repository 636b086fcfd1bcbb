"""What a client waits for: one request, from its arrival to its one answer."""

import asyncio
import logging
from collections.abc import Coroutine
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from hearth.errors import HearthError, InstallationChanged, LoginRequired, UpstreamError
from hearth.faults import SEAMS
from hearth.hub.sessions import ReplySink, Session
from hearth.mcp import downgrade, messages, translate, versions
from hearth.upstreams.connection import Connection, Waiter
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from hearth.wire import json, values
from hearth.wire.values import RawBytes

if TYPE_CHECKING:
    from hearth.hub.catalog import View
    from hearth.hub.suspended_call import SuspendedCall


log = logging.getLogger(__name__)

# How a tool says that it failed, looked for before anything is parsed; only near the end of an answer that is long:
# an error is a sentence or two, and an image is not searched on every call.
_IS_ERROR = b'"isError"'
_VALUE_AT = len(_IS_ERROR) + 1
_ERROR_BYTES = 4096
_F = ord("f")


class CallHandler(Protocol):
    """Who takes an answer that is not the end of it."""

    def input_required(self, call: "Call", result: RawBytes) -> None:
        """A modern server asks a legacy client something before it goes on."""

    def urls_demanded(self, call: "Call", message: json.Message) -> bool:
        """A legacy server's error may demand that its client visits URLs first; True when it is taken care of."""

    def era_refused(self, call: "Call", message: json.Message) -> bool:
        """Take an error by which a process of the other era refuses the call; True when it is made elsewhere."""

    def call_again(self, call: "Call") -> None:
        """What was demanded is done, and the call is to be made afresh."""

    def login_required(self, call: "Call", problem: LoginRequired) -> bool:
        """A server refused the call for want of a login; True when that is taken care of."""

    def limit_result(self, call: "Call", result: RawBytes) -> RawBytes:
        """Return a result that is longer than its server's `result_limit` as the client gets it."""


class Call:
    """One request of one client. It is the upstream connection's waiter."""

    __slots__ = (
        "asked", "batch", "connection", "declared", "desk", "era", "id", "instance", "key", "known", "log_level",
        "login", "method", "number", "params", "parked", "paused", "plain", "progress_token", "replayed", "resent",
        "rounds", "server", "session", "started", "tag", "tasks", "touched", "uncertain", "uri", "view",
    )  # fmt: skip

    def __init__(
        self,
        desk: CallHandler,
        session: Session,
        tag: int,
        id: bytes,
        key: object,
        resent: bool = False,
        replayed: bool = False,
        batch: ReplySink | None = None,
    ) -> None:
        self.desk = desk
        self.session = session
        self.tag = tag
        self.id = id
        self.key = key
        self.era = versions.LEGACY
        # Another daemon may have run it.
        self.resent = resent
        # Another daemon has answered it, and the client has that answer.
        self.replayed = replayed
        # Takes its answer in the session's stead, when it came among others.
        self.batch = batch
        self.progress_token: RawBytes | None = None
        self.connection: Connection | None = None
        # Set where it is parked: then that waits for the server, not this.
        self.parked: SuspendedCall | None = None
        # Questions that it waits for; its time does not run meanwhile.
        self.tasks: set[asyncio.Task[None]] | None = None
        # Those among them that may belong to another call of the session.
        self.uncertain: set[asyncio.Task[None]] | None = None
        # False for what Hearth only passes on.
        self.known = True
        # How often its server has required input.
        self.rounds = 0
        self.log_level: str | None = None
        # What its person said when asked to log in.
        self.login: str | None = None
        self.uri: RawBytes | None = None
        # What a modern request declared that its client can be asked.
        self.declared: RawBytes = b"{}"
        # Its params as they came, where they may be compared with those of a retry.
        self.asked: json.Fields | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits: not answered, not cancelled, not gone."""
        return self.session.open.get(self.key) is self

    @property
    def version(self) -> str:
        """The revision that its answer is written in."""
        return versions.NEWEST_MODERN if self.era == versions.MODERN else self.session.version or versions.NEWEST_LEGACY

    # --- to the server

    def send(
        self,
        server: Server,
        instance: Instance,
        connection: Connection,
        method: str,
        raw_method: bytes,
        params: bytes,
        view: "View",
    ) -> None:
        """Hand the request to a server. Raises UpstreamError, and the call is still open then."""
        self.server = server
        self.instance = instance
        self.method = method
        self.params = params
        self.view = view
        self.plain = (
            self.era == instance.era
            and not view.looks_at_links
            and (self.era == versions.MODERN or (self.session.version or "") >= downgrade.RESULTS_ALIKE_SINCE)
        )
        self.number = connection.request(raw_method, params, self)
        self.connection = connection
        self.started = self.touched = monotonic()

    def send_again(self, params: bytes, waiter: Waiter | None = None) -> None:
        """The same request once more, with other params. Raises UpstreamError."""
        connection = self.connection
        assert connection is not None
        self.number = connection.request(json.dumps(self.method), params, waiter or self)

    # --- from the server

    def answered(self, message: json.Message) -> None:
        """The upstream answered."""
        if SEAMS:
            SEAMS.hit("before-answer")
        result: RawBytes | None = message.fields.get("result")
        if result is None:
            self._take_error(message)
            return
        received = result
        if not self.plain:
            if self.era == versions.LEGACY and translate.result_type(result) == translate.INPUT_REQUIRED:
                self.desk.input_required(self, result)
                return
            try:
                result = self._translated(result)
            except HearthError as problem:
                self.failed(problem)
                return
        limit = self.server.spec.result_limit
        if limit and len(result) > limit and self.method == "tools/call":
            result = self.desk.limit_result(self, result)
        payload = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (self.id, result)
        if self.close(payload):
            at = payload.rfind(_IS_ERROR, -_ERROR_BYTES)
            # Most servers say `false` each time: nothing is parsed for it.
            erred = at >= 0 and payload[at + _VALUE_AT] != _F and _tells_error(received)
            self.instance.stats.add(monotonic() - self.started, erred)

    def _take_error(self, message: json.Message) -> None:
        error = message.fields["error"]
        if self.instance.era == versions.LEGACY and self.desk.urls_demanded(self, message):
            return
        if self.instance.era != self.era and self.desk.era_refused(self, message):
            return
        body = translate.error_object(
            error, self.era, self.instance.era, self.uri, self.method, self.known, self.version
        )
        if self.close(messages.raw_error(self.id, body)):
            self.instance.stats.add(monotonic() - self.started, True)

    def _translated(self, result: RawBytes) -> RawBytes:
        result = translate.result(self.method, result, self.era, self.instance.era, self.version)
        return self.view.with_links(self.session, self.server, result) if self.view.looks_at_links else result

    def failed(self, problem: HearthError) -> None:
        """No answer will come from the upstream; the client gets the reason, or is asked to see to it."""
        if isinstance(problem, LoginRequired) and self.connection and self.desk.login_required(self, problem):
            return
        if self.close(messages.failure(self.id, problem)) and self.connection is not None:
            self.instance.stats.add(monotonic() - self.started, True)

    def progressed(self, params: json.Fields) -> None:
        """Progress goes to the one session whose call it is, under the token that its client chose."""
        self.touched = monotonic()
        if self.progress_token is None or not self.is_open:
            return
        body = translate.notification_params(params, progress_token=self.progress_token)
        self.session.sink.notify(messages.notification("notifications/progress", body), about=self.tag)

    # --- to the client

    def close(self, payload: bytes, keep: str | None = None, drop: str | None = None) -> bool:
        """Give the one answer; anything later is dropped. Whether this was the one."""
        session = self.session
        if session.open.get(self.key) is self:
            del session.open[self.key]
            if self.tasks:
                self._bequeath_questions()
                self._withdraw_questions()
            (self.batch or session.sink).answer(self.tag, payload, keep, drop)
            return True
        return False

    def cancel(self, reason: RawBytes | None = None) -> None:
        """The client withdrew it: there is no answer, and the upstream is told."""
        if self.session.open.get(self.key) is not self:
            return
        del self.session.open[self.key]
        self._withdraw_questions()
        self.give_up(reason)
        (self.batch or self.session.sink).finish(self.tag)

    def give_up(self, reason: RawBytes | None = None) -> None:
        """The server need not go on."""
        if self.parked:
            self.parked.cancelled()
        elif self.connection and self.instance.era == versions.LEGACY:
            self.connection.cancel(self.number, reason, self.session.id)
        elif self.connection:
            # A modern server asks nobody, and sends messages for requests that named a level only.
            is_silent = self.era == versions.MODERN and self.log_level is None
            self.connection.cancel(self.number, reason, None if is_silent else self.session.id, will_stop=True)

    # --- what it waits for besides

    @property
    def waits_for_client(self) -> bool:
        """Whether its client was asked something, so that its own time does not run."""
        return bool(self.tasks)

    def attach(self, task: "asyncio.Task[None]", is_certain: bool = True) -> None:
        """A question that ends with the call, or, where it may be another's of the session, with the last of them."""
        if not self.tasks:
            self.tasks = set()
            self.paused = monotonic()
        self.tasks.add(task)
        if not is_certain:
            self.uncertain = self.uncertain or set()
            self.uncertain.add(task)
        task.add_done_callback(self._detach)

    def _detach(self, task: "asyncio.Task[None]") -> None:
        self.touched = monotonic()
        if self.uncertain:
            self.uncertain.discard(task)
        if self.tasks:
            self.tasks.discard(task)
            if not self.tasks:
                self.started += self.touched - self.paused

    def _bequeath_questions(self) -> None:
        """It is answered, and what was asked meanwhile was for another call of the session, if there is one."""
        if not self.uncertain or not self.tasks or not self.connection:
            return
        for heir in self.connection.waiters():
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


def _tells_error(result: RawBytes) -> bool:
    return values.is_true(values.members(result).get("isError"))


async def guarded(work: Coroutine[Any, Any, None], call: Call | None = None) -> None:
    """The outermost of what is done for a call while nobody waits: whatever happens, the call is answered."""
    try:
        await work
    except Exception as exc:
        log.exception("something was not foreseen")
        if call:
            call.failed(broken(exc))


def broken(cause: Exception) -> HearthError:
    """The answer where Hearth itself is at fault."""
    if isinstance(cause, ImportError):
        return InstallationChanged(cause)
    return UpstreamError("Hearth failed at this request; `hearth logs` has the reason")


def unrepeatable(name: str) -> UpstreamError:
    """The answer to a call that had been sent to a daemon which died, when its tool is not safe to run twice."""
    return UpstreamError(
        f"the daemon was lost while tool {name!r} was being called; it may or may not have run, and it was not "
        "called again because it is neither annotated as read-only nor as idempotent"
    )

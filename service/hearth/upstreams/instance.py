"""Instance of a server: one conversation, shared by the clients that may share it.

An instance is started when needed, restarted when it died, and stopped when no client is left. `supervision` decides
when; this module carries it out. An obsolete instance (a config without it, or another isolation) takes no new calls
and ends with its last call.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from hearth.config import ServerSpec
from hearth.errors import HearthError, LoginRequired, UpstreamError
from hearth.masking import NOTHING
from hearth.mcp import isolation, versions
from hearth.mcp.catalog import CHANGES, ServerCatalog
from hearth.upstreams import era_choice, supervision
from hearth.upstreams.change_notices import ListRefresher, ResourceSubscriptions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, InstanceListener, Owner
from hearth.upstreams.handshake import ConversationOpener, Opening
from hearth.upstreams.supervision import IDLE, READY, RETIRED, STARTING, Load, Need
from hearth.upstreams.supervisor import Supervisor, Terminations, chance, refusal, terms_of
from hearth.upstreams.workload import CallQueue, CallStats, Workload
from hearth.wire import json, values

log = logging.getLogger(__name__)

# Seconds that a call waits for pauses and failed starts, besides the one start that it always waits for.
RESTART_WAIT_SECONDS = 30.0


class Instance:
    """Instance of one server.

    `connect` and `recall` are for its opener. `capabilities` are the client capabilities for a legacy server.
    """

    def __init__(
        self,
        spec: ServerSpec,
        mode: str,
        context: ClientContext,
        wanted: str,
        connect: Callable[[Owner, ClientContext], Awaitable[Connection]],
        capabilities: bytes,
        listener: InstanceListener,
        recall: Callable[[bytes, str], ServerCatalog | None] = lambda capabilities, era: None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.mode = mode
        # The client that the instance was made for. For a shared instance only its era matters.
        self.client_context = context
        self.wanted = wanted
        self.capabilities = capabilities
        self._mask = NOTHING
        self._error: str | None = None
        self.restarts = 0
        self.stats = CallStats()
        # Start of the current conversation, in seconds since 1970.
        self.started_at: float | None = None
        self.catalog: ServerCatalog | None = None
        self.connection: Connection | None = None
        self.era = wanted
        # Whether the server is known to speak that era; `asked_era` is the era that it was asked for first.
        self.is_known = False
        # Whether the server has given its catalog before.
        self.has_offered = False
        self.asked_era = wanted
        # Whether a call may be sent right now.
        self.open = False
        self.obsolete = False
        # The only user that the instance will ever have, if it has one.
        self.owner: object = None
        # Current users, and the ids of all users since the start.
        self.holders: set[object] = set()
        self.ever: set[str] = set()
        # Users that will come back to this very process, without a call in flight until then.
        self.pins: set[object] = set()
        self.subscriptions = ResourceSubscriptions(spec.name)
        self.log_level: str | None = None
        # Whether calls may have to wait for their turn, and the calls that wait.
        self.limited = spec.max_concurrency is not None
        self.queue = CallQueue(spec.name, spec.max_concurrency, lambda: self.in_flight)
        self._listener = listener
        self._starting: asyncio.Task[None] | None = None
        self._terminations = Terminations(lambda: self.supervisor.tell(supervision.Gone(self.need())))
        # A connection that could not be opened, as long as something is left of it.
        self._discarded: Connection | None = None
        self._refresher = ListRefresher(
            spec.name, spec.start_timeout, lambda noticed: listener.catalog_changed(self, noticed), self._break
        )
        self._opener = ConversationOpener(self, connect, recall, self._refresher)
        self._stderr: tuple[str, ...] = ()
        # Set if the last start failed only for want of a login.
        self._login: LoginRequired | None = None
        self._workload = Workload()
        self.supervisor = Supervisor(terms_of(spec, mode), self)

    @property
    def state(self) -> str:
        """State of the instance, in the words of `hearth status`."""
        return self.supervisor.state.phase

    @property
    def is_eager(self) -> bool:
        """True if the instance runs even while unused."""
        return self.spec.start == "eager" and self.mode == isolation.SHARED

    @property
    def error(self) -> str | None:
        """Last failure, without the secrets that the server may have repeated."""
        return self._error

    @error.setter
    def error(self, text: str | None) -> None:
        self._error = text and self._mask(text)

    @property
    def pids(self) -> list[int]:
        """The pid of the running process, if any."""
        return [self.connection.pid] if self.connection and self.connection.pid else []

    @property
    def in_flight(self) -> int:
        """Number of unanswered requests."""
        return self.connection.in_flight if self.connection else 0

    def reconfigure(self, spec: ServerSpec) -> None:
        """Apply a changed entry that the running process also fits."""
        self.spec = spec
        self.limited = spec.max_concurrency is not None
        self.queue.limit = spec.max_concurrency
        self._refresher.patience = spec.start_timeout
        self.supervisor.reconfigure(terms_of(spec, self.mode))
        if self.connection and self.limited:
            self.connection.on_free = self.queue.advance
        self.queue.advance()

    # --- starting

    async def ensure(self) -> None:
        """Wait until the server is ready. Raises UpstreamError, the same for all waiters."""
        if self.state == READY:
            return
        if self.state == RETIRED:
            raise UpstreamError(f"server {self.name!r} is no longer in the config")
        patience = self.spec.start_timeout + RESTART_WAIT_SECONDS
        try:
            async with asyncio.timeout(patience):
                await self.supervisor.wait()
        except TimeoutError:
            why = f": {self.error}" if self.error else ""
            raise UpstreamError(f"server {self.name!r} was not ready within {patience:g} s{why}") from None

    def reset_failures(self) -> None:
        """Forget former failures: the server may have been repaired."""
        if self.state != READY:
            self.error = None
        self.supervisor.tell(supervision.Forgiven(self.need()))

    async def _start(self) -> None:
        begun = time.monotonic()
        self._login = None
        try:
            # Once the server's era is known, no other is asked for.
            only = self.catalog is not None or not era_choice.is_found_out(self.spec)
            era = self.era if only else self.wanted
            self.catalog = await self._opener.open(Opening(era, only), self.is_known, self.spec.start_timeout)
            self._ready(begun)
        except Exception as exc:
            self._fail(exc)

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        """Report the end of a start as an event, even if it was cancelled or its own failure handling failed."""
        unforeseen = None if task.cancelled() else task.exception()
        if task is self._starting and self.state == STARTING:
            self._fail(unforeseen or UpstreamError(f"the start of server {self.name!r} was interrupted"))

    def _fail(self, exc: BaseException) -> None:
        """Report that a task of this instance failed, as an event of the supervision table."""
        if self.state == READY:
            self._break(exc)
            return
        self.error = f"{exc}{self._last_words()}"
        # First, because another start may begin as soon as supervision is told.
        self._starting = None
        self._listener.failed(self, exc)
        if isinstance(exc, LoginRequired):
            log.info("%s", exc, extra={"upstream": self.name})
            self._login = exc
            # Not a failure of the server: every caller triggers another try, since the login may have come.
            self.supervisor.tell(supervision.Failed(chance(), self.need(), counts=False))
            return
        # The log gets no last lines of stderr, which may contain anything.
        unforeseen = None if isinstance(exc, HearthError) else exc
        log.warning("could not be started: %s", exc, exc_info=unforeseen, extra={"upstream": self.name})
        self.supervisor.tell(supervision.Failed(chance(), self.need()))

    def _break(self, exc: BaseException) -> None:
        """Stop the process of a ready instance after an internal error: its state cannot be trusted."""
        log.error("unhandled exception in a task of this server: %s", exc, exc_info=exc, extra={"upstream": self.name})
        connection = self.connection
        if connection and self._lost(connection, f"internal error: {exc}", by_itself=False):
            self._terminations.expedite(connection)

    def _ready(self, begun: float) -> None:
        assert self.connection is not None and self.catalog is not None
        self._starting = None
        self.supervisor.tell(supervision.Started())
        self.open = not self.obsolete
        self.error = None
        if self.limited:
            self.connection.on_free = self.queue.advance
        self._workload.begun(self.stats)
        self.started_at = time.time()
        elapsed = (time.monotonic() - begun) * 1000
        log.info("ready after %.0f ms", elapsed, extra={"upstream": self.name, "era": self.era})
        self.subscriptions.connected(self.connection, self.era)
        self._listener.started(self)
        self._listener.catalog_changed(self)
        self._refresher.ready(self.connection, self.catalog)
        # Calls whose turn had not come when the former process ended.
        self.queue.advance()

    # --- interface for the opener

    def use(self, connection: Connection | None) -> None:
        """Take the connection of a new process; None if that could not be opened."""
        self.connection = connection
        if connection:
            self._mask = connection.mask
            self.log_level = None
            self._refresher.begin()

    def greeted(self, asked: str, era: str) -> None:
        """Note the era that the server answered in, and the one that it was asked for first."""
        self.asked_era, self.era = asked, era

    async def discard(self) -> None:
        """Give up the current connection; return when nothing is left of it."""
        connection, self.connection = self.connection, None
        self.open = False
        self._lose_touch()
        if connection:
            self._discarded = connection
            await connection.stop()
            self._discarded = None
            self._stderr = connection.last_words

    def _last_words(self) -> str:
        return f"; its last words: {' | '.join(self._stderr[-3:])}" if self._stderr else ""

    def _lose_touch(self) -> None:
        self.subscriptions.disconnected()
        self._refresher.end()

    # --- interface for supervision

    def need(self) -> Need:
        """Return the current need for the instance."""
        if self.obsolete:
            return Need()
        return Need(
            waiting=self.supervisor.is_awaited or bool(self.queue), watched=bool(self.subscriptions) or self.is_eager
        )

    def load(self) -> Load:
        """Return the load since the last look, and the pending work."""
        connection = self.connection
        if connection is None:
            return Load()
        busy = bool(self.in_flight or self.queue or self.pins or connection.busy) or self._listener.owes(connection)
        return self._workload.look(connection, self.stats, busy)

    def perform(self, instruction: str) -> None:
        """Perform an instruction of supervision."""
        if instruction == supervision.START:
            if self.error:
                log.info("starting again after a failure restarts=%d", self.restarts, extra={"upstream": self.name})
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._start_ended)
        elif instruction == supervision.STOP:
            self._stop()
        elif instruction == supervision.CHECK:
            assert self.connection is not None
            self.supervisor.check(self.connection, self.era)
        else:
            problem = self._login or refusal(self.name, self.supervisor.state, self.supervisor.pause, self.error)
            self.supervisor.settle(problem)
            self.queue.fail(problem)

    def _stop(self) -> None:
        connection = self.connection
        assert connection is not None
        if self.supervisor.state.after == IDLE:
            log.info("ended until it is called again: nobody has called it for a while", extra={"upstream": self.name})
        else:
            self.error = f"it left {supervision.CHECKS_MISSED} checks unanswered and was ended"
            self.restarts += 1
            log.warning("%s", self.error, extra={"upstream": self.name})
        self._detach(connection, by_itself=False)
        self._terminations.expedite(connection)

    # --- the end of a process

    def _detach(self, connection: Connection, by_itself: bool) -> None:
        """Give up a connection: new calls wait for the next one."""
        self.connection = None
        self._terminations.detach(connection, by_itself)
        self.open = False
        self._lose_touch()

    # --- events of the connection

    def lost(self, connection: Connection) -> None:
        """Note that nothing can be sent to the server, or received from it, any more."""
        if self._lost(connection, "it closed its input or output"):
            self._terminations.expedite(connection)
        elif connection is self.connection:
            self._opener.lost(connection)

    def _lost(self, connection: Connection, why: str, by_itself: bool = True) -> bool:
        if connection is not self.connection or self.state != READY:
            return False
        self._detach(connection, by_itself)
        self.restarts += 1
        self.error = why
        self.supervisor.tell(supervision.Lost(chance(), self._workload.has_served(self.stats)))
        if self.obsolete:
            self._fail_queue()
        return True

    def _fail_queue(self) -> None:
        self.queue.fail(UpstreamError(f"server {self.name!r} ended before it took the call"))

    def closed(self, connection: Connection, why: str) -> None:
        """Note that the conversation is over."""
        self._lost(connection, why)
        by_itself = self._terminations.closed(connection)
        if by_itself is not None:
            self._stderr = connection.last_words
            if by_itself:
                self.error = f"{why}{self._last_words()}" if self.state != READY else self.error
                log.warning("%s", why, extra={"upstream": self.name})
            self._listener.ended(self, connection)
            self._terminations.left(connection)
        elif connection is self.connection:
            # Closed during the start. Any other connection was given up, and its last lines of stderr come after its
            # successor's first ones.
            self.connection = None
            self._stderr = connection.last_words

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Handle a notification of the server."""
        kinds = CHANGES.get(message.method or "")
        if kinds:
            self._refresher.notice(kinds)
        elif message.method == "notifications/subscriptions/acknowledged":
            meta = values.members(values.members(message.fields.get("params")).get("_meta"))
            self.subscriptions.acknowledged(values.integer(meta.get(versions.SUBSCRIPTION_ID_KEY)))
        else:
            self._listener.noticed(self, connection, message, cause)

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """Pass on a request of the server."""
        self._listener.asked(self, connection, message, cause)

    # --- ending

    def mark_stale(self) -> None:
        """Take no new calls: another instance takes them."""
        self.obsolete = True
        self.open = False

    async def retire(self) -> None:
        """Stop the instance permanently, by the bounded sequence."""
        self.mark_stale()
        self._fail_queue()
        self.supervisor.tell(supervision.Retired())
        if self._starting:
            self._starting.cancel()
        for ending in (self._terminations.current, self._discarded):
            if ending:
                await ending.stop()
        await self.discard()

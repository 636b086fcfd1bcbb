"""One conversation with a configured server, for those who may share it: started when it is needed, started again when
it died, stopped when nobody is left.

When that is, `supervision` decides; what it decides is done here. An instance that is obsolete (a config without it, or
another way of sharing) takes no new calls and ends with its last.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection

from hearth.config import ServerSpec
from hearth.errors import HearthError, InstallationChanged, LoginRequired, UpstreamError
from hearth.masking import NOTHING
from hearth.mcp import isolation, versions
from hearth.mcp.catalog import CHANGES, KINDS, ListKind, ServerCatalog
from hearth.upstreams import era_choice, handshake, supervision
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.connection import Connection, InstanceListener, Owner
from hearth.upstreams.handshake import CAREFUL, Opening
from hearth.upstreams.queue import CallQueue
from hearth.upstreams.refresh import ListRefresher
from hearth.upstreams.resource_subscriptions import ResourceSubscriptions
from hearth.upstreams.stats import CallStats
from hearth.upstreams.supervision import IDLE, READY, RETIRED, STARTING, Load, Need
from hearth.upstreams.supervisor import Supervisor, Terminations, Workload, chance, refusal, terms_of
from hearth.wire import json, values

log = logging.getLogger(__name__)

# How long a call waits for pauses and for starts that fail, besides the one start that it always waits for.
RESTART_WAIT_SECONDS = 30.0


class Instance:
    """`connect` makes a connection that is not open yet; `capabilities` is what a legacy server is told of clients.

    `recall` tells what a conversation of that era offered to such clients before.
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
        # For whom it was made. Of a shared one only the era matters.
        self.client_context = context
        self.wanted = wanted
        self.capabilities = capabilities
        self._mask = NOTHING
        self._error: str | None = None
        self.restarts = 0
        self.stats = CallStats()
        # Seconds since 1970, when the conversation that runs now began.
        self.started_at: float | None = None
        self.catalog: ServerCatalog | None = None
        self.connection: Connection | None = None
        self.era = wanted
        # Whether the server is known to speak that era, and the era that it was asked for first when it answered.
        self.is_known = False
        # Whether it has said before what it offers.
        self.has_offered = False
        self.asked_era = wanted
        # Whether a call may be sent right now.
        self.open = False
        self.obsolete = False
        # Who alone will ever use it, if that is so.
        self.owner: object = None
        # Who uses it now, and everybody who ever did since it was started, by id.
        self.holders: set[object] = set()
        self.ever: set[str] = set()
        # Who will come back to this very process, without a call in flight until then.
        self.pins: set[object] = set()
        self.subscriptions = ResourceSubscriptions(spec.name)
        self.log_level: str | None = None
        # Whether calls may have to wait for their turn, and those that do.
        self.limited = spec.max_concurrency is not None
        self.queue = CallQueue(spec.name, spec.max_concurrency, lambda: self.in_flight)
        self._connect = connect
        self._listener = listener
        # What such a one offered to such clients before; what is known need not be waited for.
        self._recall = recall
        self._starting: asyncio.Task[None] | None = None
        self._terminations = Terminations(lambda: self._supervisor.tell(supervision.Gone(self.need())))
        # One that could not be started, as long as something is left of it.
        self._discarded: Connection | None = None
        self._refresher = ListRefresher(spec.name, spec.start_timeout, self._offered, self._break)
        # Of the start that goes on: the connection that ended before it was ready, and the era that was found.
        self._lost_early: Connection | None = None
        self._greeted_in: str | None = None
        self._stderr: tuple[str, ...] = ()
        # Set where the last start only wanted a person.
        self._login: LoginRequired | None = None
        self._workload = Workload()
        self._supervisor = Supervisor(terms_of(spec, mode), self)

    @property
    def state(self) -> str:
        """What it is up to, in the words of `hearth status`."""
        return self._supervisor.state.phase

    @property
    def pause(self) -> float:
        """Seconds until it may be started again."""
        return self._supervisor.pause

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it to be ready."""
        return self._supervisor.is_awaited

    @property
    def is_eager(self) -> bool:
        """Whether it runs although nobody uses it."""
        return self.spec.start == "eager" and self.mode == isolation.SHARED

    @property
    def error(self) -> str | None:
        """What went wrong last, without the secrets that the server may have repeated."""
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
        """How many requests it has not answered."""
        return self.connection.in_flight if self.connection else 0

    def reconfigure(self, spec: ServerSpec) -> None:
        """Go on under an entry that the running process is right for, too."""
        self.spec = spec
        self.limited = spec.max_concurrency is not None
        self.queue.limit = spec.max_concurrency
        self._refresher.patience = spec.start_timeout
        self._supervisor.reconfigure(terms_of(spec, self.mode))
        if self.connection and self.limited:
            self.connection.on_free = self.queue.advance
        self.queue.advance()

    # --- starting

    async def ensure(self) -> None:
        """Return when the server is ready. Raises UpstreamError; everybody who waits gets the same."""
        if self.state == READY:
            return
        if self.state == RETIRED:
            raise UpstreamError(f"server {self.name!r} is no longer in the config")
        patience = self.spec.start_timeout + RESTART_WAIT_SECONDS
        try:
            async with asyncio.timeout(patience):
                await self._supervisor.wait()
        except TimeoutError:
            why = f": {self.error}" if self.error else ""
            raise UpstreamError(f"server {self.name!r} was not ready within {patience:g} s{why}") from None

    def reset_failures(self) -> None:
        """What it did wrong is forgotten: it may have been mended."""
        if self.state != READY:
            self.error = None
        self._supervisor.tell(supervision.Forgiven(self.need()))

    async def _start(self) -> None:
        begun = time.monotonic()
        self._login = None
        try:
            await self._open_bounded()
            self._ready(begun)
        except Exception as exc:
            self._fail(exc)

    def _start_ended(self, task: asyncio.Task[None]) -> None:
        """End a start in an event also where it was cancelled, or its own handling of failures failed."""
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
            # No failure of its own: it is tried whenever somebody wants it, for the login may have come.
            self._supervisor.tell(supervision.Failed(chance(), self.need(), counts=False))
            return
        # Without its last words, which may carry anything.
        unforeseen = None if isinstance(exc, HearthError) else exc
        log.warning("could not be started: %s", exc, exc_info=unforeseen, extra={"upstream": self.name})
        self._supervisor.tell(supervision.Failed(chance(), self.need()))

    def _break(self, exc: BaseException) -> None:
        """Stop the process of a ready instance whose own code failed: its state is not to be trusted."""
        log.error("unhandled exception in a task of this server: %s", exc, exc_info=exc, extra={"upstream": self.name})
        connection = self.connection
        if connection and self._lost(connection, f"internal error: {exc}", by_itself=False):
            self._terminations.expedite(connection)

    def _ready(self, begun: float) -> None:
        assert self.connection is not None and self.catalog is not None
        self._starting = None
        self._supervisor.tell(supervision.Started())
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
        # Those whose turn had not come when the former one ended.
        self.queue.advance()

    async def _open_bounded(self) -> None:
        try:
            async with asyncio.timeout(self.spec.start_timeout):
                await self._open()
        except (Exception, asyncio.CancelledError) as exc:
            # Whatever it was: another may be started as soon as it is told.
            await self._discard()
            if isinstance(exc, TimeoutError):
                raise UpstreamError(
                    f"server {self.name!r} did not answer within {self.spec.start_timeout:g} s (key start_timeout)"
                ) from None
            if isinstance(exc, ImportError):
                raise InstallationChanged(exc) from exc
            if isinstance(exc, HearthError) and not isinstance(exc, LoginRequired):
                raise UpstreamError(f"server {self.name!r} could not be started: {exc}") from exc
            # A person is needed, and is told just that; or nobody has foreseen it.
            raise

    async def _open(self) -> None:
        # Once it has said which era it speaks, it is asked for nothing else.
        only = self.catalog is not None or not era_choice.is_found_out(self.spec)
        try:
            await self._converse(Opening(self.era if only else self.wanted, only))
        except UpstreamError as exc:
            if only or not self._has_exited or isinstance(exc, LoginRequired):
                raise
            # An old server may exit when it is asked for something unknown: it is asked for one thing at a time.
            era = self._greeted_in or (self.wanted if self.is_known else None)
            again = Opening(era, True) if era else CAREFUL
            await self._discard()
            await self._converse(again)

    async def _converse(self, opening: Opening) -> None:
        self._lost_early = self._greeted_in = None
        self.asked_era = opening.era
        connection = self.connection = await self._connect(self, self.client_context)
        self._mask = connection.mask
        try:
            await connection.open()
        except UpstreamError:
            self.connection = None
            raise
        self._refresher.begin()
        self.log_level = None
        found = await handshake.greet(connection, opening, self.capabilities)
        self.era = self._greeted_in = found.era
        before = self._recall(self.capabilities, found.era)
        if before:
            # Good enough to begin with: its lists are read while it works.
            found.adopt(before)
            self._refresher.refresh(KINDS)
        else:
            await handshake.read_lists(connection, found)
        if self._has_exited:
            # Between its last answer and this line: nothing else would tell that it is gone.
            raise await connection.why_lost()
        handshake.tell_headers(connection, found)
        if found.era == versions.MODERN:
            self._refresher.listen(connection, found)
        self.catalog = found

    @property
    def _has_exited(self) -> bool:
        """Whether the server that is being started is gone, or can no longer be talked to."""
        return self.connection is None or self.connection is self._lost_early

    def _last_words(self) -> str:
        return f"; its last words: {' | '.join(self._stderr[-3:])}" if self._stderr else ""

    async def _discard(self) -> None:
        connection, self.connection = self.connection, None
        self.open = False
        self._lose_touch()
        if connection:
            self._discarded = connection
            await connection.stop()
            self._discarded = None
            self._stderr = connection.last_words

    def _lose_touch(self) -> None:
        self.subscriptions.disconnected()
        self._refresher.end()

    # --- what supervision wants to know, and has done

    def need(self) -> Need:
        """Who needs it."""
        if self.obsolete:
            return Need()
        return Need(
            waiting=self._supervisor.is_awaited or bool(self.queue), watched=bool(self.subscriptions) or self.is_eager
        )

    def load(self) -> Load:
        """What it has done since it was last looked at, and has to do."""
        connection = self.connection
        if connection is None:
            return Load()
        busy = bool(self.in_flight or self.queue or self.pins) or self._listener.owes(connection)
        return self._workload.look(connection, self.stats, busy)

    def perform(self, instruction: str) -> None:
        """Do what was decided."""
        if instruction == supervision.START:
            if self.error:
                log.info("starting again after a failure restarts=%d", self.restarts, extra={"upstream": self.name})
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._start_ended)
        elif instruction == supervision.STOP:
            self._stop()
        elif instruction == supervision.CHECK:
            assert self.connection is not None
            self._supervisor.check(self.connection, self.era)
        else:
            problem = self._login or refusal(self.name, self._supervisor.state, self.pause, self.error)
            self._supervisor.fail(problem)
            self.queue.fail(problem)

    def _stop(self) -> None:
        connection = self.connection
        assert connection is not None
        if self._supervisor.state.after == IDLE:
            log.info("ended until it is called again: nobody has called it for a while", extra={"upstream": self.name})
        else:
            self.error = f"it left {supervision.CHECKS_MISSED} checks unanswered and was ended"
            self.restarts += 1
            log.warning("%s", self.error, extra={"upstream": self.name})
        self._detach(connection, by_itself=False)
        self._terminations.expedite(connection)

    # --- the end of a process

    def _detach(self, connection: Connection, by_itself: bool) -> None:
        """Whoever calls now waits for the next one."""
        self.connection = None
        self._terminations.detach(connection, by_itself)
        self.open = False
        self._lose_touch()

    # --- what the connection tells its owner

    def lost(self, connection: Connection) -> None:
        """Nothing can be said to the server, or heard from it, any more."""
        if self._lost(connection, "it closed its input or output"):
            self._terminations.expedite(connection)
        elif connection is self.connection:
            self._lost_early = connection

    def _lost(self, connection: Connection, why: str, by_itself: bool = True) -> bool:
        if connection is not self.connection or self.state != READY:
            return False
        self._detach(connection, by_itself)
        self.restarts += 1
        self.error = why
        self._supervisor.tell(supervision.Lost(chance(), self._workload.has_served(self.stats)))
        if self.obsolete:
            self._fail_queue()
        return True

    def _fail_queue(self) -> None:
        self.queue.fail(UpstreamError(f"server {self.name!r} ended before it took the call"))

    def closed(self, connection: Connection, why: str) -> None:
        """The conversation is over."""
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
            # While it was being started; any other was given up, and its last words come after its successor's first.
            self.connection = None
            self._stderr = connection.last_words

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A notification."""
        kinds = CHANGES.get(message.method or "")
        if kinds:
            self._refresher.notice(kinds)
        elif message.method == "notifications/subscriptions/acknowledged":
            meta = values.members(values.members(message.fields.get("params")).get("_meta"))
            self.subscriptions.acknowledged(values.integer(meta.get(versions.SUBSCRIPTION_ID_KEY)))
        else:
            self._listener.noticed(self, connection, message, cause)

    def _offered(self, noticed: Collection[ListKind]) -> None:
        self._listener.catalog_changed(self, noticed)

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A request of the server's."""
        self._listener.asked(self, connection, message, cause)

    # --- ending

    def mark_stale(self) -> None:
        """No new calls: another instance takes them."""
        self.obsolete = True
        self.open = False

    async def retire(self) -> None:
        """End it, by the bounded sequence, for good."""
        self.mark_stale()
        self._fail_queue()
        self._supervisor.tell(supervision.Retired())
        if self._starting:
            self._starting.cancel()
        for ending in (self._terminations.current, self._discarded):
            if ending:
                await ending.stop()
        await self._discard()

    async def finish(self, seconds: float) -> None:
        """End it when its calls are done, bounded."""
        self.mark_stale()
        deadline = time.monotonic() + seconds
        # One that is still being started has no calls: who waits for it is served by its successor.
        while self.state == READY and (self.in_flight or self.queue or self.pins) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        if self.connection and self.in_flight:
            self.connection.fail_all(
                UpstreamError(
                    f"server {self.name!r} is ended, for another config or because somebody restarts it, and has not"
                    f" finished within {seconds:g} s (drain_timeout); the call may or may not have run"
                )
            )
        await self.retire()

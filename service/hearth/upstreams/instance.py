"""One conversation with a configured server, for those who may share it: started when it is needed, started again when
it died, stopped when nobody is left.

stopped ──ensure()──▶ starting ──handshake──▶ ready ──end──▶ stopped
                          └──────failure────▶ failed ──ensure() after the pause──▶ starting

An instance that is obsolete (a config without it, or another way of sharing) takes no new calls and ends with its last.
"""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamBusy, UpstreamError
from hearth.mcp import eras
from hearth.mcp.offering import CHANGES, KINDS, Kind, Offering
from hearth.upstreams import handshake
from hearth.upstreams.backoff import Backoff
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.tenancy import Tenant
from hearth.upstreams.watching import RELISTEN_SECONDS, Quiet, Watch
from hearth.wire import json, values

log = logging.getLogger(__name__)

# Between two readings of lists that change all the time.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 60.0
# Calls that wait for their turn; whoever comes then is told that the server is busy.
QUEUE_LIMIT = 1000

STOPPED, STARTING, READY, FAILED = "stopped", "starting", "ready", "failed"


class Audience(Protocol):
    """Whoever is told what an instance says of its own accord."""

    def offered(self, instance: "Instance") -> None:
        """What it offers is known, or has changed."""

    def noticed(self, instance: "Instance", connection: Connection, message: json.Message, cause: int | None) -> None:
        """A notification that is not about lists or progress."""

    def asked(self, instance: "Instance", connection: Connection, message: json.Message, cause: int | None) -> None:
        """A question to a client."""

    def ended(self, instance: "Instance", connection: Connection) -> None:
        """That conversation is over; who needs another starts it again."""


class Queued(Protocol):
    """A call that waits for its turn."""

    @property
    def since(self) -> float:
        """Since when, by the monotonic clock."""

    def send(self) -> None:
        """It is its turn."""

    def failed(self, problem: HearthError) -> None:
        """Its turn will not come."""


class Instance:
    """`connect` makes a connection that is not open yet; `capabilities` is what a legacy server is told of clients."""

    def __init__(
        self,
        spec: ServerSpec,
        mode: str,
        tenant: Tenant,
        wanted: str,
        connect: Callable[[Owner, Tenant], Connection],
        capabilities: bytes,
        audience: Audience,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.mode = mode
        # For whom it was made. Of a shared one only the era matters.
        self.tenant = tenant
        self.wanted = wanted
        self.capabilities = capabilities
        self.state = STOPPED
        self.error: str | None = None
        self.restarts = 0
        self.offering: Offering | None = None
        self.connection: Connection | None = None
        self.era = wanted
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
        self.watch = Watch(spec.name)
        self.log_level: str | None = None
        # Calls above max_concurrency.
        self.limited = spec.max_concurrency is not None
        self._queue: deque[Queued] = deque()
        self._connect = connect
        self._audience = audience
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._dying: Connection | None = None
        self._stale: dict[Kind, None] = {}
        self._stderr: tuple[str, ...] = ()
        self._backoff = Backoff()
        self._ready_at = 0.0
        self._retired = False
        # Seconds before a stream of notices that the server ended is asked for again.
        self._relisten = RELISTEN_SECONDS

    @property
    def pids(self) -> list[int]:
        """The pid of the running process, if any."""
        return [self.connection.pid] if self.connection and self.connection.pid else []

    @property
    def in_flight(self) -> int:
        """How many requests it has not answered."""
        return self.connection.in_flight if self.connection else 0

    @property
    def names_folders(self) -> bool:
        """Whether its config says which folders it may use."""
        return any(os.path.isdir(os.path.expanduser(word)) for word in self.spec.args if word.startswith(("/", "~")))

    # --- turns

    @property
    def full(self) -> bool:
        """Whether a call has to wait for its turn."""
        limit = self.spec.max_concurrency
        return limit is not None and (bool(self._queue) or self.in_flight >= limit)

    def queue(self, call: Queued) -> None:
        """Send it when it is its turn. Raises UpstreamBusy when too many wait already."""
        if len(self._queue) >= QUEUE_LIMIT:
            raise UpstreamBusy(f"server {self.name!r} is busy: {QUEUE_LIMIT} calls wait for their turn")
        self._queue.append(call)

    def queued(self) -> list["Queued"]:
        """Who waits, the longest waiting first."""
        return list(self._queue)

    def _next(self) -> None:
        limit = self.spec.max_concurrency or 0
        while self._queue and self.in_flight < limit:
            self._queue.popleft().send()

    def _fail_queue(self) -> None:
        queue, self._queue = self._queue, deque()
        for call in queue:
            call.failed(UpstreamError(f"server {self.name!r} ended before it took the call"))

    # --- starting

    async def ensure(self) -> None:
        """Return when the server is ready. Raises UpstreamError; everybody who waits gets the same."""
        if self.state == READY:
            return
        if self._retired:
            raise UpstreamError(f"server {self.name!r} is no longer in the config")
        if self._starting is None:
            self._check_pause()
            # From now on, and not only when the task has its turn: others may decide by it.
            self.state = STARTING
            self._starting = asyncio.create_task(self._start())
            # Whoever waited may be gone by the time it fails.
            self._starting.add_done_callback(lambda late: late.cancelled() or late.exception())
        starting = self._starting
        try:
            # Shielded: one caller's cancellation must not take the start from the others.
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            if starting.cancelled():
                # Retired before it had begun.
                raise self._stopped() from None
            raise

    @property
    def pause(self) -> float:
        """Seconds until it may be started again."""
        return self._backoff.remaining(time.monotonic())

    def _check_pause(self) -> None:
        pause = self.pause
        if pause > 0:
            raise UpstreamError(f"server {self.name!r} keeps failing and is tried again in {pause:.0f} s: {self.error}")

    async def _start(self) -> None:
        begun = time.monotonic()
        try:
            if self._dying:
                # One process at a time, whatever state the former one is in.
                await self._dying.stop()
            await self._open_bounded()
        except asyncio.CancelledError:
            raise self._stopped() from None
        except Exception as exc:
            self.error = f"{exc}{self._last_words()}"
            self.state = FAILED
            self._backoff.failed(time.monotonic(), 0.0)
            # Without its last words, which may carry anything.
            unforeseen = None if isinstance(exc, HearthError) else exc
            log.warning("could not be started: %s", exc, exc_info=unforeseen, extra={"upstream": self.name})
            raise UpstreamError(self.error) from exc
        else:
            self._ready(begun)
        finally:
            self._starting = None

    def _stopped(self) -> UpstreamError:
        return UpstreamError(f"server {self.name!r} was stopped while it was being started")

    def _ready(self, begun: float) -> None:
        assert self.connection is not None
        self.state = READY
        self.open = not self.obsolete
        self.error = None
        if self.spec.max_concurrency:
            self.connection.on_free = self._next
        self._ready_at = time.monotonic()
        elapsed = (self._ready_at - begun) * 1000
        log.info("ready after %.0f ms", elapsed, extra={"upstream": self.name, "era": self.era})
        self.watch.connected(self.connection, self.era)
        self._audience.offered(self)
        if self._stale:
            # It changed its mind while it was being asked.
            self.refresh(())

    async def _open_bounded(self) -> None:
        try:
            async with asyncio.timeout(self.spec.start_timeout):
                await self._open()
        except TimeoutError:
            await self._discard()
            raise UpstreamError(
                f"server {self.name!r} did not answer within {self.spec.start_timeout:g} s (key start_timeout)"
            ) from None
        except HearthError as exc:
            await self._discard()
            raise UpstreamError(f"server {self.name!r} could not be started: {exc}") from exc

    async def _open(self) -> None:
        # Once it has said which era it speaks, it is asked for nothing else.
        only = self.offering is not None or self.spec.era != "auto"
        wanted = self.era if only else self.wanted
        try:
            await self._converse(wanted, only)
        except UpstreamError:
            exited = self.connection is None and not only
            if not exited:
                raise
            # It exited when it was asked for something unknown: an old server, to be asked in the old way only.
            await self._converse(eras.LEGACY, True)

    async def _converse(self, wanted: str, only: bool) -> None:
        connection = self.connection = self._connect(self, self.tenant)
        try:
            await connection.open()
        except UpstreamError:
            self.connection = None
            raise
        self._stale.clear()
        self._relisten = RELISTEN_SECONDS
        self.log_level = None
        found = await handshake.greet(connection, wanted, only, self.capabilities)
        self.era = found.era
        await handshake.read_lists(connection, found)
        handshake.tell_headers(connection, found)
        if found.era == eras.MODERN:
            self._listen(connection, found)
        self.offering = found

    def _listen(self, connection: Connection, found: Offering) -> None:
        """Ask a modern server for its change notices; it answers only when it is done with them."""
        wanted = {kind.listen: True for kind in KINDS if found.has(kind.capability) and found.announces(kind)}
        if wanted:
            params = handshake.own_params(eras.MODERN, notifications=json.dumps(wanted))
            connection.stand(b'"subscriptions/listen"', params, Quiet(self.name, lambda: self._unheard(connection)))

    def _unheard(self, connection: Connection) -> None:
        """The server has ended the stream of its notices: it is asked again, also for what it has told meanwhile."""
        if connection is self.connection and self.state == READY:
            # One that ends every stream is asked ever more seldom.
            asyncio.get_running_loop().call_later(self._relisten, self._listen_again, connection)
            self._relisten = min(self._relisten * 2, LONGEST_PAUSE_SECONDS)

    def _listen_again(self, connection: Connection) -> None:
        if connection is not self.connection or self.state != READY or self.offering is None:
            return
        try:
            self._listen(connection, self.offering)
        except UpstreamError:
            return
        self.refresh(KINDS)

    def _last_words(self) -> str:
        return f"; its last words: {' | '.join(self._stderr[-3:])}" if self._stderr else ""

    async def _discard(self) -> None:
        connection, self.connection = self.connection, None
        self.open = False
        self.watch.disconnected()
        if connection:
            await connection.stop()
            self._stderr = connection.last_words

    # --- what the connection tells its owner

    def lost(self, connection: Connection) -> None:
        """Nothing can be said to the server, or heard from it, any more: whoever calls now waits for the next one."""
        if connection is not self.connection or self.state != READY:
            return
        self.connection, self._dying = None, connection
        self.open = False
        self.state = STOPPED
        self.restarts += 1
        self.error = "it closed its input or output"
        self.watch.disconnected()
        self._backoff.failed(time.monotonic(), time.monotonic() - self._ready_at)
        # Now, and not when it is closed: by then others may wait for its successor.
        self._fail_queue()

    def closed(self, connection: Connection, why: str) -> None:
        """The conversation is over."""
        self.lost(connection)
        if connection is self._dying:
            self._dying = None
            self._stderr = connection.last_words
            if self.state == STOPPED:
                self.error = f"{why}{self._last_words()}"
            log.warning("%s", why, extra={"upstream": self.name})
            self._audience.ended(self, connection)
        elif connection is self.connection:
            # While it was being started; any other was given up, and its last words come after its successor's first.
            self.connection = None
            self._stderr = connection.last_words

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A notification."""
        kinds = CHANGES.get(message.method or "")
        if kinds:
            self.refresh(kinds)
        elif message.method == "notifications/subscriptions/acknowledged":
            meta = values.members(values.members(message.fields.get("params")).get("_meta"))
            self.watch.acknowledged(values.integer(meta.get(eras.SUBSCRIPTION_ID_KEY)))
        else:
            self._audience.noticed(self, connection, message, cause)

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A request of the server's."""
        self._audience.asked(self, connection, message, cause)

    # --- lists that change

    def refresh(self, kinds: Iterable[Kind]) -> None:
        """Fetch lists anew, then tell; bursts of notices become one fetch more."""
        self._stale.update(dict.fromkeys(kinds))
        if self._refreshing is None and self.state == READY:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        pause = 0.0
        try:
            while self._stale and self.connection and self.offering:
                kinds = list(self._stale)
                self._stale.clear()
                async with asyncio.timeout(self.spec.start_timeout):
                    await handshake.read_lists(self.connection, self.offering, kinds)
                    handshake.tell_headers(self.connection, self.offering)
                if self._stale and not pause:
                    # A burst: only the last is worth telling of.
                    pause = FIRST_PAUSE_SECONDS
                    continue
                self._audience.offered(self)
                if self._stale:
                    # One whose lists change whenever they are read is read ever more seldom.
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        except (UpstreamError, TimeoutError) as exc:
            log.warning("its lists could not be read again: %s", exc, extra={"upstream": self.name})
        finally:
            self._refreshing = None
            if self._stale and self.state == READY:
                # It changed again while an answer was waited for that never came.
                asyncio.get_running_loop().call_later(RELISTEN_SECONDS, self.refresh, ())

    # --- ending

    def outdate(self) -> None:
        """No new calls: another instance takes them."""
        self.obsolete = True
        self.open = False

    async def retire(self) -> None:
        """End it, by the bounded sequence, for good."""
        self._retired = True
        self.outdate()
        if self._starting:
            self._starting.cancel()
        self.state = STOPPED
        self._fail_queue()
        if self._dying:
            await self._dying.stop()
        await self._discard()

    async def finish(self, seconds: float) -> None:
        """End it when its calls are done, bounded."""
        self.outdate()
        deadline = time.monotonic() + seconds
        # One that is still being started has no calls: who waits for it is served by its successor.
        while self.state == READY and (self.in_flight or self._queue or self.pins) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await self.retire()

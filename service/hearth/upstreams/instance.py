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
from collections.abc import Awaitable, Callable
from typing import Protocol

from hearth.config import ServerSpec
from hearth.errors import HearthError, LoginRequired, UpstreamError
from hearth.masking import NOTHING
from hearth.mcp import eras
from hearth.mcp.offering import CHANGES, KINDS, Offering
from hearth.upstreams import handshake
from hearth.upstreams.backoff import Backoff
from hearth.upstreams.call_queue import CallQueue
from hearth.upstreams.connection import Connection, Owner
from hearth.upstreams.figures import Figures
from hearth.upstreams.freshness import Freshness
from hearth.upstreams.tenancy import Tenant
from hearth.upstreams.watching import Watch
from hearth.wire import json, values

log = logging.getLogger(__name__)

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


class Instance:
    """`connect` makes a connection that is not open yet; `capabilities` is what a legacy server is told of clients.

    `recall` tells what a conversation of that era offered to such clients before.
    """

    def __init__(
        self,
        spec: ServerSpec,
        mode: str,
        tenant: Tenant,
        wanted: str,
        connect: Callable[[Owner, Tenant], Awaitable[Connection]],
        capabilities: bytes,
        audience: Audience,
        recall: Callable[[bytes, str], Offering | None] = lambda capabilities, era: None,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.mode = mode
        # For whom it was made. Of a shared one only the era matters.
        self.tenant = tenant
        self.wanted = wanted
        self.capabilities = capabilities
        self.state = STOPPED
        self._mask = NOTHING
        self._error: str | None = None
        self.restarts = 0
        self.figures = Figures()
        # Seconds since 1970, when the conversation that runs now began.
        self.started_at: float | None = None
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
        # Whether calls may have to wait for their turn, and those that do.
        self.limited = spec.max_concurrency is not None
        self.queue = CallQueue(spec.name, spec.max_concurrency, lambda: self.in_flight)
        self._connect = connect
        self._audience = audience
        # What such a one offered to such clients before; what is known need not be waited for.
        self._recall = recall
        self._starting: asyncio.Task[None] | None = None
        self._dying: Connection | None = None
        self._freshness = Freshness(spec.name, spec.start_timeout, lambda: audience.offered(self))
        self._stderr: tuple[str, ...] = ()
        self._backoff = Backoff()
        self._ready_at = 0.0
        self._retired = False

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

    @property
    def names_folders(self) -> bool:
        """Whether its config says which folders it may use."""
        return any(os.path.isdir(os.path.expanduser(word)) for word in self.spec.args if word.startswith(("/", "~")))

    def adapt(self, spec: ServerSpec) -> None:
        """Go on under an entry that the running process is right for, too."""
        self.spec = spec
        self.limited = spec.max_concurrency is not None
        self.queue.limit = spec.max_concurrency
        self._freshness.patience = spec.start_timeout
        if self.connection and self.limited:
            self.connection.on_free = self.queue.advance
        self.queue.advance()

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
            if isinstance(exc, LoginRequired):
                log.info("%s", exc, extra={"upstream": self.name})
                # No failure of its own: it is tried whenever somebody wants it, for the login may have come.
                raise
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
        assert self.connection is not None and self.offering is not None
        self.state = READY
        self.open = not self.obsolete
        self.error = None
        if self.limited:
            self.connection.on_free = self.queue.advance
        self._ready_at = time.monotonic()
        self.started_at = time.time()
        elapsed = (self._ready_at - begun) * 1000
        log.info("ready after %.0f ms", elapsed, extra={"upstream": self.name, "era": self.era})
        self.watch.connected(self.connection, self.era)
        self._audience.offered(self)
        self._freshness.ready(self.connection, self.offering)

    async def _open_bounded(self) -> None:
        try:
            async with asyncio.timeout(self.spec.start_timeout):
                await self._open()
        except TimeoutError:
            await self._discard()
            raise UpstreamError(
                f"server {self.name!r} did not answer within {self.spec.start_timeout:g} s (key start_timeout)"
            ) from None
        except LoginRequired:
            # A person is needed, and is told just that.
            await self._discard()
            raise
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
        connection = self.connection = await self._connect(self, self.tenant)
        self._mask = connection.mask
        try:
            await connection.open()
        except UpstreamError:
            self.connection = None
            raise
        self._freshness.begin()
        self.log_level = None
        found = await handshake.greet(connection, wanted, only, self.capabilities)
        self.era = found.era
        before = self._recall(self.capabilities, found.era)
        if before:
            # Good enough to begin with: its lists are read while it works.
            found.adopt(before)
            self._freshness.refresh(KINDS)
        else:
            await handshake.read_lists(connection, found)
        handshake.tell_headers(connection, found)
        if found.era == eras.MODERN:
            self._freshness.listen(connection, found)
        self.offering = found

    def _last_words(self) -> str:
        return f"; its last words: {' | '.join(self._stderr[-3:])}" if self._stderr else ""

    async def _discard(self) -> None:
        connection, self.connection = self.connection, None
        self.open = False
        self._lose_touch()
        if connection:
            await connection.stop()
            self._stderr = connection.last_words

    def _lose_touch(self) -> None:
        self.watch.disconnected()
        self._freshness.end()

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
        self._lose_touch()
        self._backoff.failed(time.monotonic(), time.monotonic() - self._ready_at)
        # Now, and not when it is closed: by then others may wait for its successor.
        self.queue.fail()

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
            self._freshness.refresh(kinds)
        elif message.method == "notifications/subscriptions/acknowledged":
            meta = values.members(values.members(message.fields.get("params")).get("_meta"))
            self.watch.acknowledged(values.integer(meta.get(eras.SUBSCRIPTION_ID_KEY)))
        else:
            self._audience.noticed(self, connection, message, cause)

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A request of the server's."""
        self._audience.asked(self, connection, message, cause)

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
        self.queue.fail()
        if self._dying:
            await self._dying.stop()
        await self._discard()

    async def finish(self, seconds: float) -> None:
        """End it when its calls are done, bounded."""
        self.outdate()
        deadline = time.monotonic() + seconds
        # One that is still being started has no calls: who waits for it is served by its successor.
        while self.state == READY and (self.in_flight or self.queue or self.pins) and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        if self.connection and self.in_flight:
            self.connection.fail_all(
                UpstreamError(
                    f"server {self.name!r} was taken out of the config, or changed there, and has not finished within"
                    f" {seconds:g} s (drain_timeout); the call may or may not have run"
                )
            )
        await self.retire()

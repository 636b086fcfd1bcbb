"""One configured MCP server: started when it is needed, shared by everybody, started again when it died.

stopped ──ensure()──▶ starting ──handshake──▶ ready ──exit──▶ stopped
                          └──────failure────▶ failed ──ensure() after the pause──▶ starting
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping

from hearth import references
from hearth.config import Config, ServerSpec
from hearth.errors import ConfigError, HearthError, UpstreamError
from hearth.mcp import eras
from hearth.mcp.tools import Tool
from hearth.paths import home_dir
from hearth.upstreams import handshake
from hearth.upstreams.backoff import Backoff
from hearth.upstreams.connection import Connection, refusal
from hearth.upstreams.stdio import StdioConnection
from hearth.wire import json

log = logging.getLogger(__name__)

STOPPED, STARTING, READY, FAILED = "stopped", "starting", "ready", "failed"


class Upstream:
    """A server by its config. `on_tools` is called when what it offers has changed."""

    def __init__(self, spec: ServerSpec, config: Config, on_tools: Callable[[], None]) -> None:
        self.spec = spec
        self.name = spec.name
        self.state = STOPPED
        self.error: str | None = None
        self.restarts = 0
        self.tools: list[Tool] | None = None
        self.greeting: handshake.Greeting | None = None
        # The era that the probe found; None before the first start.
        self.era: str | None = None
        self.connection: Connection | None = None
        self._limits = (config.message_limit, config.upstream_queue_limit)
        self._on_tools = on_tools
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._dying: Connection | None = None
        self._stale = False
        self._stderr: tuple[str, ...] = ()
        self._backoff = Backoff()
        self._ready_at = 0.0
        self._retired = False

    @property
    def pids(self) -> list[int]:
        """The pid of the running process, if any."""
        return [self.connection.pid] if self.connection and self.connection.pid else []

    async def ensure(self) -> None:
        """Return when the server is ready. Raises UpstreamError; everybody who waits gets the same."""
        if self.state == READY:
            return
        if self._retired:
            raise UpstreamError(f"server {self.name!r} is no longer in the config")
        if self._starting is None:
            self._check_pause()
            self._starting = asyncio.create_task(self._start())
            # Whoever waited may be gone by the time it fails.
            self._starting.add_done_callback(lambda late: late.cancelled() or late.exception())
        # Shielded: one caller's cancellation must not take the start from the others.
        await asyncio.shield(self._starting)

    def _check_pause(self) -> None:
        pause = self._backoff.remaining(time.monotonic())
        if pause > 0:
            raise UpstreamError(f"server {self.name!r} keeps failing and is tried again in {pause:.0f} s: {self.error}")

    async def _start(self) -> None:
        self.state = STARTING
        begun = time.monotonic()
        try:
            if self._dying:
                # One process at a time, whatever state the former one is in.
                await self._dying.stop()
            await self._open_bounded()
        except HearthError as exc:
            self.error = f"{exc}{self._last_words()}"
            self.state = FAILED
            self._backoff.failed(time.monotonic(), 0.0)
            # Without its last words, which may carry anything.
            log.warning("could not be started: %s", exc, extra={"upstream": self.name})
            raise UpstreamError(self.error) from exc
        except asyncio.CancelledError:
            raise UpstreamError(f"server {self.name!r} was stopped while it was being started") from None
        else:
            self.state = READY
            self.error = None
            self._ready_at = time.monotonic()
            log.info(
                "ready after %.0f ms",
                (self._ready_at - begun) * 1000,
                extra={"upstream": self.name, "era": self.era},
            )
            self._on_tools()
            if self._stale:
                # It changed its mind while it was being asked.
                self.refresh()
        finally:
            self._starting = None

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
        era = self.greeting.era if self.greeting else self.spec.era
        try:
            await self._converse(era)
        except UpstreamError:
            exited = self.connection is None and era == "auto"
            if not exited:
                raise
            # It exited when it was asked for something unknown: an old server, to be asked in the old way only.
            await self._converse(eras.LEGACY)

    async def _converse(self, era: str) -> None:
        launch = _launch(self.spec, os.environ)
        connection = self.connection = StdioConnection(self.name, self, launch, self._limits)
        try:
            await connection.open()
        except UpstreamError:
            self.connection = None
            raise
        self._stale = False
        self.greeting = await handshake.greet(connection, era)
        self.era = self.greeting.era
        if self.greeting.has_tools:
            self.tools = await handshake.list_tools(connection, self.greeting.era)
            if self.greeting.era == eras.MODERN and self.greeting.announces_tools:
                handshake.listen(connection)
        else:
            self.tools = []

    def _last_words(self) -> str:
        return f"; its last words: {' | '.join(self._stderr[-3:])}" if self._stderr else ""

    async def _discard(self) -> None:
        connection, self.connection = self.connection, None
        if connection:
            await connection.stop()
            self._stderr = connection.last_words

    # --- what the connection tells its owner

    def lost(self, connection: Connection) -> None:
        """Nothing can be said to the process, or heard from it, any more: whoever calls now waits for the next one."""
        if connection is not self.connection or self.state != READY:
            return
        self.connection, self._dying = None, connection
        self.state = STOPPED
        self.restarts += 1
        self.error = "it closed its input or output"
        self._backoff.failed(time.monotonic(), time.monotonic() - self._ready_at)

    def closed(self, connection: Connection, why: str) -> None:
        """The process has ended."""
        self.lost(connection)
        if connection is self._dying:
            self._dying = None
            self._stderr = connection.last_words
            if self.state == STOPPED:
                self.error = f"{why}{self._last_words()}"
            log.warning("%s", why, extra={"upstream": self.name})
        elif connection is self.connection:
            # While it was being started; any other was given up, and its last words come after its successor's first.
            self.connection = None
            self._stderr = connection.last_words

    def noticed(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A notification."""
        if message.method == "notifications/tools/list_changed":
            self.refresh()

    def asked(self, connection: Connection, message: json.Message, cause: int | None) -> None:
        """A request of the server's."""
        connection.answer(refusal(message, f"Hearth declared no capability for {message.method}"))

    def refresh(self) -> None:
        """Fetch the tools anew, then tell; bursts of notices become one fetch more."""
        self._stale = True
        if self._refreshing is None and self.state == READY:
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            while self._stale and self.connection and self.greeting:
                self._stale = False
                async with asyncio.timeout(self.spec.start_timeout):
                    self.tools = await handshake.list_tools(self.connection, self.greeting.era)
        except (UpstreamError, TimeoutError) as exc:
            log.warning("its tools could not be listed again: %s", exc, extra={"upstream": self.name})
        else:
            self._on_tools()
        finally:
            self._refreshing = None
            if self._stale and self.state == READY:
                # It changed again while an answer was waited for that never came.
                self.refresh()

    async def retire(self) -> None:
        """End the process, by the bounded sequence, for good."""
        self._retired = True
        if self._starting:
            self._starting.cancel()
        self.state = STOPPED
        if self._dying:
            await self._dying.stop()
        await self._discard()


def _launch(spec: ServerSpec, environ: Mapping[str, str]) -> tuple[list[str], dict[str, str], str]:
    if spec.command is None:
        raise UpstreamError("it is reached by url, which this version does not support yet")
    try:
        resolved = references.resolve(spec, environ)
        environment = references.child_environment(resolved, environ)
    except ConfigError as exc:
        raise UpstreamError(str(exc)) from exc
    assert resolved.command is not None
    # Never a client's folder: the server is shared.
    cwd = os.path.expanduser(resolved.cwd) if resolved.cwd else home_dir()
    return [resolved.command, *resolved.args], environment, cwd

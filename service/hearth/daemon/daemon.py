"""Life cycle of the daemon: serve, drain, shut down.

`serve` lists the steps; each of them is a method. Signal handlers only enqueue: the loop does the work. Clients connect
through a socket that is found in the registry, through HTTP ports, or through the pipes of one stdio client; a daemon
has any combination of these.
"""

import asyncio
import contextlib
import functools
import logging
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import hearth
from hearth import __version__
from hearth.config import Config
from hearth.daemon import config_file
from hearth.daemon.acceptor import Acceptor
from hearth.daemon.client_connection import COUNTERS, ClientConnection
from hearth.daemon.config_file import ConfigFile
from hearth.daemon.control import ControlApi
from hearth.daemon.daemon_lock import DaemonLock
from hearth.daemon.main import Start
from hearth.daemon.policy_service import PolicyService
from hearth.daemon.served_packs import ServedPacks
from hearth.daemon.upkeep import StatusLine, Upkeep
from hearth.errors import ConfigError, FileAccessError, UpstreamError
from hearth.host import children, process_setup
from hearth.host.listening import Listener
from hearth.hub.events import EVENTS, ConfigReloaded
from hearth.hub.hub import SERVERS_STOP_SECONDS, Hub

if TYPE_CHECKING:
    from hearth.packs.agents.service import AgentService

log = logging.getLogger(__name__)

# How long connections may take to close once everything is answered and flushed.
CLOSE_SECONDS = 2.0
# How long the shutdown may take beyond the drain: flushing, and the sequence that stops the servers.
STOP_SECONDS = CLOSE_SECONDS + SERVERS_STOP_SECONDS + 5.0
# A terminal sends Ctrl-C to the whole process group, and the orphan reaper forwards it: two signals within this time
# count as one.
SIGNAL_ECHO_SECONDS = 0.5


class Daemon:
    """Running daemon, from READY to STOPPING. Its connections use the services among its methods."""

    def __init__(
        self,
        start: Start,
        settings: Config,
        claim: DaemonLock | None,
        listener: Listener | None,
        ports: list[socket.socket],
    ) -> None:
        self._start = start
        self._ports = ports
        self._places = start.places
        self._notifier = start.notifier
        self._claim = claim
        self._listener = listener
        self._settings = settings
        self._config_error = start.config_error
        self._begun = time.monotonic()
        self._ending: tuple[str, bool] | None = None
        self._told_to_end = 0.0
        self._waiting_for_quiet = False
        self._hurry = asyncio.Event()
        # The connection of the stdio client, in stdio mode.
        self._stdio: ClientConnection | None = None
        self.exit_code = 0
        # The folder for sessions that outlive the daemon.
        self.kept_sessions = start.places.sessions
        self.control = ControlApi(self)
        self.packs = ServedPacks(start.places, self.status)

    @property
    def config(self) -> Config:
        """The config in force."""
        return self._settings

    def now(self) -> float:
        """Return the time of the loop's clock."""
        return self._loop.time()

    def check_room(self) -> None:
        """Raise NoRoom if one more session would be too many."""
        self._acceptor.check_room()

    async def serve(self) -> None:
        """Serve until the daemon is told to stop, then shut down."""
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        places = self._places
        self.hub = Hub(
            self._settings, places.learned, catalogue=places.catalogue, pins=places.pins, create_pack=self.packs.create
        )
        self.packs.hub = self.hub
        self._status_line = StatusLine(self._notifier, self._summary)
        self.hub.news = self._status_line.news
        self._acceptor = Acceptor(self, self._listener, self._ports)
        self.own_addresses = self._acceptor.own_addresses
        self._upkeep = Upkeep(self, self._start, self._acceptor, self._listener)
        self.policy = PolicyService(places, self.hub)
        self.attributed = self.policy.attributed
        self._config_file = ConfigFile(self._settings.path, self._start.config_seen, self._reload_by_itself)
        # Before the daemon is in the registry: a process that reads the entry may send a signal at once.
        self._watch_signals()
        self._register()
        self._acceptor.open()
        self._announce()
        self._meet_client()
        self.hub.light()
        self._tick()
        self._upkeep.pat_watchdog()
        try:
            await self._ended.wait()
            await self._finish()
        finally:
            self._config_file.close()
            self.policy.close()
            if self._listener:
                self._listener.retire()

    def _register(self) -> None:
        if self._claim and self._listener:
            listener = self._listener
            self._claim.register(self.hub.daemon_id, self._settings.hash, listener.path, listener.token)

    def _announce(self) -> None:
        ways = [*([self._listener.path] if self._listener else []), *(["stdio"] if self._start.streams else [])]
        where = ", ".join([*ways, *self._acceptor.ports.addresses()])
        log.info("serving on %s as pid %d, activated by %s", where, os.getpid(), self._start.activation)
        for warning in self._settings.warnings:
            log.warning("%s", warning)
        self._status_line.ready()
        self._start.report("ok")

    def _meet_client(self) -> None:
        if self._start.streams:
            from hearth.daemon import stdio_connection

            self._stdio = stdio_connection.attend(self, self._start.streams)
            self.welcome(self._stdio)

    # --- signals

    def _watch_signals(self) -> None:
        watch, end = process_setup.watch_signal, self._asked_to_end
        for number in process_setup.END_SIGNALS:
            watch(number, functools.partial(end, number.name, False))
        if self._start.streams and process_setup.HANG_UP is not None:
            if not process_setup.outlives_terminal():
                # A stdio daemon belongs to its client and ends with it.
                watch(process_setup.HANG_UP, functools.partial(end, "the client's terminal was closed", False))
            return
        if process_setup.HAND_OVER is not None:
            watch(process_setup.HAND_OVER, functools.partial(end, "another daemon takes over", True))
        if process_setup.HANG_UP is not None and sys.stdin is not None and sys.stdin.isatty():
            if not process_setup.outlives_terminal():
                watch(process_setup.HANG_UP, functools.partial(end, "the terminal was closed", False))
        elif process_setup.HANG_UP is not None:
            watch(process_setup.HANG_UP, self._reload_by_signal)
        self._start.serving(self._ask_to_end)

    def _ask_to_end(self, reason: str) -> None:
        """Ask the daemon to stop, from any thread: for a caller that runs it in one, such as a Windows service."""
        try:
            self._loop.call_soon_threadsafe(self._asked_to_end, reason, False)
        except RuntimeError:
            # The loop is closed: the daemon has stopped.
            pass

    def _asked_to_end(self, reason: str, reconnect: bool) -> None:
        if self._start.streams:
            # A client that sends a signal has given the daemon time to finish by closing its input before.
            self._hurry.set()
        now = self.now()
        if self._ending and now - self._told_to_end > SIGNAL_ECHO_SECONDS:
            log.warning("told to end a second time: not waiting any longer")
            self._hurry.set()
        elif not self._ending:
            self._told_to_end = now
        self.shut_down(reason, reconnect)

    def _reload_by_signal(self) -> None:
        # A config that is refused is in the log and in the status, and the old one stays in force.
        with contextlib.suppress(ConfigError):
            log.info("%s", self.reload())

    # --- services for the connections

    def status(self) -> dict[str, Any]:
        """Return the status document."""
        return {
            "running": True,
            "pid": os.getpid(),
            "endpoint": self._listener.path if self._listener else None,
            "version": __version__,
            "executable": sys.executable,
            "package": os.path.dirname(hearth.__file__),
            "uptimeSeconds": round(time.monotonic() - self._begun, 3),
            "daemonId": self.hub.daemon_id,
            "profile": self._places.key,
            "configPath": self._settings.path,
            "configHash": self._settings.hash,
            "configError": self._config_error,
            "activation": self._start.activation,
            "containment": children.containment(),
            "http": self._acceptor.ports.addresses(),
            "httpLost": self._acceptor.ports.lost(),
            "degraded": None,
            **({"policy": found} if (found := self.policy.describe()) else {}),
            **self.packs.describe(),
            **self.hub.describe(),
        }

    def agents(self) -> "AgentService":
        """Return the agents of this daemon; the first call makes the service."""
        return self.packs.agents()

    def connections(self) -> dict[str, int]:
        """Return the number of connections by protocol."""
        return self._acceptor.count()

    def reload(self) -> str:
        """Read the config again. Raises ConfigError; the old config then stays in force."""
        sentence = self._notified_reload()
        EVENTS.emit(ConfigReloaded(path=self._settings.path))
        return sentence

    def _notified_reload(self, is_change: bool = False) -> str:
        self._notifier.reloading()
        try:
            return self._reload(is_change)
        finally:
            self._status_line.ready()

    def _reload(self, is_change: bool) -> str:
        try:
            settings = config_file.reload(self._places, self._config_file, is_change)
        except ConfigError as exc:
            COUNTERS.reloads += 1
            COUNTERS.reloads_failed += 1
            self._config_error = str(exc)
            EVENTS.emit(ConfigReloaded(path=self._settings.path, error=str(exc)))
            raise
        if settings is None:
            return f"{self._settings.path} is being written, and is read when it has settled"
        COUNTERS.reloads += 1
        self._config_error = None
        self._take_up(settings)
        return f"{settings.path} is in force"

    def _take_up(self, settings: Config) -> None:
        if settings.replace(hash=self._settings.hash) != self._settings:
            config_file.keep(self._places, settings)
        self._settings = settings
        logging.getLogger().setLevel(settings.log_level.upper())
        self.hub.apply(settings)
        self.packs.adapt()
        self._acceptor.adapt(settings)
        # The next tick was scheduled with the former interval.
        self._tick()
        try:
            self._register()
        except FileAccessError as exc:
            # The entry is a hint; the config is in force.
            log.warning("%s", exc)

    def _reload_by_itself(self) -> None:
        """Reload the config because its file has changed."""
        if self._ending:
            return
        former = self._settings
        try:
            sentence = self._notified_reload(is_change=True)
        except ConfigError:
            # Reported in the log and in the status; the old config stays in force.
            return
        # A client's own config file is written all the time, and seldom with a change for Hearth.
        is_news = former.replace(hash=self._settings.hash) != self._settings
        log.log(logging.INFO if is_news else logging.DEBUG, "%s", sentence)
        if is_news:
            EVENTS.emit(ConfigReloaded(path=self._settings.path))

    def _tick(self) -> None:
        self._config_file.look()
        self.policy.look()
        self._status_line.news()
        self._upkeep.tick(self._tick)

    def _summary(self) -> str:
        reason = f"; the config was not reloaded: {self._config_error}" if self._config_error else ""
        return self.hub.summary() + reason

    def look_at_config(self) -> None:
        """Reload the config if its file has changed."""
        self._config_file.look_at_once()
        self.policy.look_at_once()

    @property
    def is_ending(self) -> bool:
        """Whether the shutdown has begun."""
        return self._ending is not None

    def shut_down(self, reason: str, reconnect: bool) -> None:
        """Begin the shutdown; `reconnect` tells the bridges to reconnect at once."""
        if self._ending is None:
            self._ending = (reason, reconnect)
            self._ended.set()

    def shut_down_when_quiet(self, reason: str) -> None:
        """Begin the shutdown as soon as no client waits for an answer; bridges then reconnect at once."""
        if not self._waiting_for_quiet:
            self._waiting_for_quiet = True
            log.info("%s: shutting down as soon as no call is in flight and no agent at work", reason)
            self._upkeep.end_when_quiet(reason)

    def welcome(self, wire: ClientConnection) -> None:
        """Register a connection whose client is known now."""
        self._acceptor.decided(None, wire)

    def forget(self, wire: ClientConnection) -> None:
        """Remove a connection that has ended."""
        self._acceptor.wires.discard(wire)
        if wire is self._stdio:
            self._client_left()

    def _client_left(self) -> None:
        failure = self._start.streams and self._start.streams.failure
        if failure:
            log.error("messages could not be written to standard output: %s", failure)
            self.exit_code = 1
        if self._acceptor.ports.addresses() and not self._ending:
            log.info("the client at stdio has left; HTTP is served until a signal ends it")
        else:
            self.shut_down("the client has left", reconnect=False)

    def http_failed(self, reason: str) -> None:
        """End with exit code 1 if a person asked for the port; other daemons serve on without HTTP.

        The failure is in the log already.
        """
        if self._start.http is None:
            return
        self.exit_code = 1
        if self._start.streams:
            self._hurry.set()
        self.shut_down(reason, reconnect=self._start.streams is None)

    # --- shutdown

    async def _finish(self) -> None:
        assert self._ending is not None
        reason, reconnect = self._ending
        log.info("shutting down: %s", reason)
        self._status_line.close()
        self._notifier.stopping(f"shutting down: {reason}", self._settings.drain_timeout + STOP_SECONDS)
        self._acceptor.drain(reconnect, reason)
        await self._drain()
        await self._close_connections()
        # Before the servers: what agents still call is refused in the drain.
        await self.packs.stop()
        await self.hub.stop()
        # Last, so that followers see the events of stopping servers; their connections end with the process.
        EVENTS.close()
        await asyncio.sleep(0)
        log.info("daemon stopped")

    async def _drain(self) -> None:
        """Let calls finish, for at most `drain_timeout`; answer the remaining ones with an error."""
        self.hub.policy.drain()
        self.packs.drain()
        deadline = self.now() + self._settings.drain_timeout
        while self.hub.in_flight and self.now() < deadline and not self._hurry.is_set():
            await asyncio.sleep(0.02)
        for session in self.hub.sessions:
            for call in list(session.open.values()):
                call.failed(UpstreamError("Hearth went out before the server answered; it may or may not have run"))

    async def _close_connections(self) -> None:
        """Close all connections except control connections.

        The end of a control connection tells the command line that the daemon has exited, so only the exit closes it.
        """
        for wire in self._acceptor.session_wires():
            wire.close()
        for detector in list(self._acceptor.undecided):
            detector.close()  # type: ignore[attr-defined]  # every undecided connection has it
        deadline = self.now() + CLOSE_SECONDS
        while (self._acceptor.session_wires() or self._acceptor.undecided) and self.now() < deadline:
            await asyncio.sleep(0.01)

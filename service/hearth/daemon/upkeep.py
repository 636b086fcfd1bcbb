"""Periodic work of a daemon: heartbeats of its clients, idle shutdown, the watchdog, and the line for systemd.

The status line that `systemctl status` shows is sent when it has changed, at most once a second. The line is composed
only when it is due, and never where no service manager listens, so a change costs next to nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.daemon.acceptor import Acceptor
from hearth.daemon.main import Start
from hearth.host.linux.systemd import Notifier
from hearth.host.listening import Listener

if TYPE_CHECKING:
    from hearth.daemon.daemon import Daemon

log = logging.getLogger(__name__)

# Three missed heartbeats: one may be late, two may be a busy machine.
MISSED_HEARTBEATS = 3
# Interval of the check whether a call is in flight, while a restart waits until there is none.
QUIET_LOOK_SECONDS = 0.2
# The line is for people; systemd need not process an update for each call.
INTERVAL_SECONDS = 1.0


class StatusLine:
    """Status line that `compose` returns, sent to the service manager. Created inside the loop."""

    def __init__(self, notifier: Notifier, compose: Callable[[], str]) -> None:
        self._notifier = notifier
        self._compose = compose
        self._loop = asyncio.get_running_loop()
        self._said = ""
        self._said_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._closed = not notifier.is_heard

    def news(self) -> None:
        """Schedule an update after a change, at the earliest a second after the last line."""
        if self._timer is None and not self._closed:
            # Never immediately: changes that happen together are sent together.
            due = max(self._said_at + INTERVAL_SECONDS, self._loop.time())
            self._timer = self._loop.call_at(due, self.say)

    def say(self) -> None:
        """Send the line now, if it has changed."""
        self._rest()
        if self._closed:
            return
        line = self._compose()
        if line != self._said:
            self._note(line)
            self._notifier.status(line)

    def ready(self) -> None:
        """Report that the daemon serves, for the first time or again, with the current line."""
        self._rest()
        if not self._closed:
            line = self._compose()
            self._note(line)
            self._notifier.ready(line)

    def _note(self, line: str) -> None:
        self._said, self._said_at = line, self._loop.time()

    def _rest(self) -> None:
        timer, self._timer = self._timer, None
        if timer:
            timer.cancel()

    def close(self) -> None:
        """Send nothing more: the daemon is shutting down and reports that itself."""
        self._closed = True
        self._rest()


class Upkeep:
    """Checks that a daemon makes with each tick."""

    def __init__(self, daemon: "Daemon", start: Start, acceptor: Acceptor, listener: Listener | None) -> None:
        self._daemon = daemon
        self._start = start
        self._acceptor = acceptor
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._quiet_since: float | None = None
        self._next: asyncio.TimerHandle | None = None

    def tick(self, again: Callable[[], None]) -> None:
        """Make the checks, and call `again` after the interval that the config asks for."""
        if self._next:
            self._next.cancel()
        self._notice_silence()
        if self._listener and self._listener.replaced():
            self._daemon.shut_down("another socket has taken the place of this daemon's", reconnect=True)
        self._consider_idleness()
        if self._start.orphans:
            self._start.orphans.reap()
        config = self._daemon.config
        period = config.heartbeat_interval
        if config.idle_timeout:
            period = min(period, max(config.idle_timeout / 4, 0.05))
        self._next = self._loop.call_later(period, again)

    def pat_watchdog(self) -> None:
        """Tell systemd's watchdog that the loop runs, now and from now on."""
        notifier = self._start.notifier
        if notifier.watchdog_seconds:
            notifier.watchdog()
            self._loop.call_later(notifier.watchdog_seconds, self.pat_watchdog)

    def _notice_silence(self) -> None:
        now = self._loop.time()
        for wire in list(self._acceptor.wires):
            patience = MISSED_HEARTBEATS * wire.heartbeat_interval
            silent = wire.last_seen is not None and now - wire.last_seen > patience
            if wire.session and wire.session.active and silent:
                log.info("no heartbeat: it holds nothing any longer", extra={"session": wire.session.id})
                self._daemon.hub.sessions.fell_silent(wire.session)

    def _consider_idleness(self) -> None:
        if self._daemon.hub.busy() or self._acceptor.undecided:
            self._quiet_since = None
            return
        now = self._loop.time()
        if self._quiet_since is None:
            self._quiet_since = now
        # A port that a person asked for would be lost with the daemon.
        idle = 0.0 if self._start.stays else self._daemon.config.idle_timeout
        if not idle or now - self._quiet_since < idle or self._daemon.is_ending:
            return
        # Stop polling, look once more, shut down: a client that connects later waits in the kernel's queue for the next
        # daemon.
        self._acceptor.close()
        if self._acceptor.look_once():
            self._quiet_since = None
            self._acceptor.open()
        else:
            self._daemon.shut_down(f"nobody was there for {idle:g} s", reconnect=True)

    def end_when_quiet(self, reason: str) -> None:
        """Begin the shutdown as soon as no call is in flight and no agent at work."""
        if (self._daemon.hub.in_flight or self._daemon.packs.turns) and not self._daemon.is_ending:
            self._loop.call_later(QUIET_LOOK_SECONDS, self.end_when_quiet, reason)
        else:
            self._daemon.shut_down(reason, reconnect=True)

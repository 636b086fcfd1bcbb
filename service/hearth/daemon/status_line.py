"""Status line that `systemctl status` shows: sent when it has changed, at most once a second.

The line is composed only when it is due, and never where no service manager listens, so a change costs next to nothing.
"""

import asyncio
from collections.abc import Callable

from hearth.host.linux.systemd import Notifier

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

"""The line that `systemctl status` shows: said when it is another, and at most once in a second.

It is composed only then, and not at all where no service manager listens: what is going on costs it nothing.
"""

import asyncio
from collections.abc import Callable

from hearth.host.linux.systemd import Notifier

# People look at it; systemd has more to do than to note each call.
INTERVAL_SECONDS = 1.0


class StatusLine:
    """Tells the service manager what `compose` says. Made inside the loop."""

    def __init__(self, notifier: Notifier, compose: Callable[[], str]) -> None:
        self._notifier = notifier
        self._compose = compose
        self._loop = asyncio.get_running_loop()
        self._said = ""
        self._said_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._closed = not notifier.is_heard

    def news(self) -> None:
        """Something has changed that may be part of it: it is composed anew when a second has passed since the last."""
        if self._timer is None and not self._closed:
            # Not at once even then: what changes together is said together.
            due = max(self._said_at + INTERVAL_SECONDS, self._loop.time())
            self._timer = self._loop.call_at(due, self.say)

    def say(self) -> None:
        """Say it now, if it is another."""
        self._rest()
        if self._closed:
            return
        line = self._compose()
        if line != self._said:
            self._note(line)
            self._notifier.status(line)

    def ready(self) -> None:
        """Say that the daemon serves, for the first time or again, and how things are."""
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
        """From here on others have the word: it is on its way out."""
        self._closed = True
        self._rest()

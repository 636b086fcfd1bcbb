"""Watch of the config file under a running daemon: a `stat` detects a change, and the file is read once it settles.

The daemon checks with each tick, when a bridge says hello, and with each control request. Calls do not check: a `stat`
for each of them would slow the hot path, and a tick is never far. This module does not know the file's content.
"""

import asyncio
import time
from collections.abc import Callable

from hearth.daemon.main import Signature, signature

# An editor may truncate a file before it writes it: a file that changed a moment ago is checked again later.
SETTLED_SECONDS = 1.0
# Some editors and dotfile managers remove a file before they create its successor. A file that is missing for this long
# was removed on purpose.
VANISHED_SECONDS = 5.0


class ConfigFile:
    """Config file with the state in which it was last read (`seen`); calls `changed` once another state has settled."""

    def __init__(self, path: str, seen: Signature | None, changed: Callable[[], None]) -> None:
        self.path = path
        self._seen = seen
        self._changed = changed
        self._waiting: Signature | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def about_to_be_read(self) -> None:
        """Record the present state as seen: any later one is a change."""
        self._seen = signature(self.path)
        self._wait_no_longer()

    def look(self) -> None:
        """Compare the file with the state that was read; after a change, wait until it is left alone."""
        found = signature(self.path)
        if found == self._seen:
            self._wait_no_longer()
        elif self._timer is None or found != self._waiting:
            self._wait_no_longer()
            self._waiting = found
            seconds = VANISHED_SECONDS if found is None else SETTLED_SECONDS
            self._timer = self._loop.call_later(seconds, self._settled)

    def look_at_once(self) -> None:
        """Do the same, but do not wait for a file that was last written a while ago."""
        found = signature(self.path)
        if found and found != self._seen and abs(time.time() - found.mtime_ns / 1e9) >= SETTLED_SECONDS:
            self._changed()
        else:
            self.look()

    def close(self) -> None:
        """Cancel a pending check."""
        self._wait_no_longer()

    def _settled(self) -> None:
        self._timer = None
        if signature(self.path) == self._waiting:
            self._changed()
        else:
            self.look()

    def _wait_no_longer(self) -> None:
        timer, self._timer = self._timer, None
        if timer:
            timer.cancel()

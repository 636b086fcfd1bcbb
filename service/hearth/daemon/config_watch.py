"""The config file under a running daemon: noticed when it is another, and read once it has been left alone.

Watched where the system can do that, and looked at now and then in any case. Knows nothing of what is in the file.
"""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hearth.daemon.main import Signature, signature

if TYPE_CHECKING:
    from hearth.host.linux.file_watch import FileWatch

log = logging.getLogger(__name__)

# An editor empties a file before it writes it: one that was touched a moment ago is looked at another time.
SETTLED_SECONDS = 1.0
# Some editors and dotfile managers remove a file before they put another in its place; one that stays away is meant.
VANISHED_SECONDS = 5.0
# Loading what the watch needs is not part of the start. Whatever changes until then is seen by the first look.
WATCH_AFTER_SECONDS = 0.5
# A busy folder wakes the daemon this often and no more.
CALM_SECONDS = 0.2


class ConfigFile:
    """`seen` is the state of the file that was read last; `changed` is called when it has settled in another."""

    def __init__(self, path: str, seen: Signature | None, changed: Callable[[], None]) -> None:
        self.path = path
        self._seen = seen
        self._changed = changed
        self._waiting: Signature | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watch: FileWatch | None = None
        self._loop = asyncio.get_running_loop()
        if sys.platform == "linux":
            self._loop.call_later(WATCH_AFTER_SECONDS, self._begin)

    def about_to_be_read(self) -> None:
        """Whatever is written to the file from now on is another state of it."""
        self._seen = signature(self.path)
        self._wait_no_longer()

    def look(self) -> None:
        """If the file is another, wait until it is left alone."""
        found = signature(self.path)
        if found == self._seen:
            self._wait_no_longer()
        elif self._timer is None or found != self._waiting:
            self._wait_no_longer()
            self._waiting = found
            seconds = VANISHED_SECONDS if found is None else SETTLED_SECONDS
            self._timer = self._loop.call_later(seconds, self._settled)

    def look_at_once(self) -> None:
        """The same, but one that was last written a while ago is not waited for."""
        found = signature(self.path)
        if found and found != self._seen and abs(time.time() - found.mtime_ns / 1e9) >= SETTLED_SECONDS:
            self._changed()
        else:
            self.look()

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

    # --- the system's watch

    def _begin(self) -> None:
        from hearth.host.linux.file_watch import FileWatch

        try:
            self._watch = FileWatch(self.path)
        except OSError as exc:
            self._do_without(exc)
        else:
            self._listen()
        self.look()

    def _listen(self) -> None:
        if self._watch:
            self._loop.add_reader(self._watch.descriptor, self._told)

    def _told(self) -> None:
        assert self._watch is not None
        try:
            is_news = self._watch.read()
        except OSError as exc:
            self.close()
            self._do_without(exc)
            is_news = True
        else:
            self._loop.remove_reader(self._watch.descriptor)
            self._loop.call_later(CALM_SECONDS, self._listen)
        if is_news:
            self.look()

    def _do_without(self, exc: OSError) -> None:
        log.info("%s is not watched (%s); it is looked at now and then", self.path, exc.strerror or exc)

    def close(self) -> None:
        """End the watch."""
        self._wait_no_longer()
        watch, self._watch = self._watch, None
        if watch:
            self._loop.remove_reader(watch.descriptor)
            watch.close()

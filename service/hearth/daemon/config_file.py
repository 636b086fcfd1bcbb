"""Config file of a running daemon: the watch for changes, and the copy of the last usable config.

A `stat` detects a change, and the file is read once it settles. The daemon checks with each tick, when a bridge says
hello, and with each control request. Calls do not check: a `stat` for each of them would slow the hot path, and a tick
is never far.

The copy is for a start with a broken config file: one for each profile, readable by its owner only, because a config
may hold secrets.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable

from hearth import config
from hearth.config import Config
from hearth.config.loader import FILE_LIMIT_BYTES, interpret, read_file
from hearth.daemon.main import Signature, signature
from hearth.errors import ConfigError, FileAccessError
from hearth.faults import SEAMS
from hearth.host import folders, private_files
from hearth.paths import Places

log = logging.getLogger(__name__)

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
        # State before `_seen`, and the one that counted as settled when `changed` was called.
        self._former = seen
        self._settled_state = seen
        self._waiting: Signature | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def about_to_be_read(self) -> None:
        """Record the present state as seen: any later one is a change."""
        self._former, self._seen = self._seen, signature(self.path)
        self._wait_no_longer()

    def was_left_alone(self) -> bool:
        """Tell, after a read, whether the file is still in the state that had settled; else wait until it settles.

        A file may be truncated, written or removed between the look at it and the read.
        """
        if signature(self.path) == self._settled_state:
            return True
        self._seen = self._former
        self.look()
        return False

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
            self._settled_state = found
            self._changed()
        else:
            self.look()

    def close(self) -> None:
        """Cancel a pending check."""
        self._wait_no_longer()

    def _settled(self) -> None:
        self._timer = None
        if signature(self.path) == self._waiting:
            self._settled_state = self._waiting
            self._changed()
        else:
            self.look()

    def _wait_no_longer(self) -> None:
        timer, self._timer = self._timer, None
        if timer:
            timer.cancel()


def load(places: Places) -> tuple[Config, str | None]:
    """Load the config; if it is broken, return the kept copy and a sentence that says so.

    Raises ConfigError if there is no usable copy either.
    """
    try:
        return config.load(places), None
    except ConfigError as exc:
        kept = _kept(places)
        if kept is None:
            raise
        settings, since = kept
        return settings, f"{exc}; in force is the last good config, of {since}"


def reload(places: Places, file: ConfigFile, is_change: bool) -> Config | None:
    """Read the config again. Raises ConfigError.

    With `is_change`, return None for a file that is being written: it is read when it has settled.
    """
    if SEAMS and is_change:
        SEAMS.hit("before-reload")
    file.about_to_be_read()
    problem: ConfigError | None = None
    try:
        settings = config.load(places)
    except ConfigError as exc:
        problem = exc
    if is_change and not file.was_left_alone():
        # A part of a config may be a valid one with fewer servers, and the processes of the others would end.
        return None
    if problem is not None:
        log.error("the config was not reloaded, the old one stays: %s", problem)
        raise problem
    return settings


def _kept(places: Places) -> tuple[Config, str] | None:
    """Return the kept config and the time at which it was kept."""
    try:
        data = private_files.read(places.last_config, FILE_LIMIT_BYTES)
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(places.last_config).st_mtime))
        return (interpret(places, data), since) if data else None
    except (OSError, ValueError, ConfigError):
        # Missing, another user's, damaged, or of a version with other keys: the user has to fix the config itself.
        return None


def keep(places: Places, settings: Config) -> None:
    """Keep a copy of the config file that `settings` were read from. A failure is a warning in the log."""
    try:
        _keep(places, settings)
    except (OSError, ValueError, ConfigError, FileAccessError) as exc:
        log.warning("the config cannot be kept for a start with a broken one: %s", exc)


def _keep(places: Places, settings: Config) -> None:
    if not settings.hash:
        # There is no config file. Servers that were removed with it must not be started from the copy.
        private_files.remove(places.last_config)
        return
    # Not hashlib: see config.layers.
    from _blake2 import blake2s

    data = read_file(settings.path, FILE_LIMIT_BYTES)
    if data is None or blake2s(data).hexdigest() != settings.hash:
        # The file was written in the meantime: the reload that follows keeps it, if it is usable.
        return
    if private_files.read(places.last_config, FILE_LIMIT_BYTES) != data:
        folders.make_private(os.path.dirname(places.last_config))
        private_files.write(places.last_config, data)

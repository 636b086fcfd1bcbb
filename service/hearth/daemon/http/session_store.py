"""Legacy sessions on disk: what a later daemon needs to go on with one when its client names its id again.

One small file for each, replaced whole, under a hash of the id: the id itself is what lets its client in. The file's
time is when the session was last used, so that saying so writes nothing. No method raises: a session that cannot be
kept is over with its daemon, and the log says so once. Knows neither HTTP nor what the lines mean.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from hearth.daemon.http.client_identity import ClientIdentity
from hearth.errors import StartError
from hearth.host import private_files
from hearth.host.folders import make_private

log = logging.getLogger(__name__)

# About as many as may be open at once by default. Those that were only opened go first, then those that were used
# longest ago.
SESSIONS_LIMIT = 1000
# An opening has a few hundred bytes, a subscription a hundred; one that has more to keep ends with its daemon.
SIZE_LIMIT_BYTES = 256 * 1024
# Nobody takes longer to write one.
_WRITING_SECONDS = 60.0
_VERSION = 1
_ENDING = ".json"


class SessionRecord(NamedTuple):
    """What is kept of one session: whose it is, the lines that are replayed, and the raw roots if its client told."""

    who: ClientIdentity
    lines: dict[str, bytes]
    roots: tuple[bytes, ...] | None = None


class _Document(msgspec.Struct):
    """A record as it is written."""

    version: int
    who: ClientIdentity
    lines: dict[str, str]
    roots: list[str] | None


class SessionStore:
    """Those of one profile (Places.sessions). One that was not used for `ttl` seconds is over."""

    def __init__(self, folder: str, ttl: float, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._ttl = ttl
        self._now = now
        # When each was last used, by the name of its file, as far as it is known here: `hearth serve` in a terminal
        # may serve HTTP beside the daemon.
        self._used: dict[str, float] | None = None
        # Those of this daemon with which nobody has done more than open them.
        self._unused: set[str] = set()
        self._complained = False
        # It was there, and nobody else's, when it was last looked at; that takes longer than writing a file.
        self._has_folder = False

    def read(self, id: str) -> SessionRecord | None:
        """The session of that id, if there was one and it is not over."""
        name = _name(id)
        try:
            if self._is_over(name):
                return None
            data = private_files.read(self._path(name), SIZE_LIMIT_BYTES)
            if data:
                return _parsed(data)
        except OSError as exc:
            self._complain("read", exc)
        except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
            log.warning("%s is thrown away: %s", self._path(name), exc)
            self._remove(name)
        return None

    def write(self, id: str, record: SessionRecord) -> None:
        """Keep it as it is now, which is when it was last used."""
        name = _name(id)
        try:
            data = _document(record)
            if name not in self._index():
                self._make_room()
                self._unused.add(name)
            private_files.write(self._path(name), data)
            self._index()[name] = self._now()
        except (OSError, ValueError, StartError) as exc:
            self._has_folder = False
            self._complain("written", exc)
            # What is there is no longer true.
            self._remove(name)

    def touch(self, id: str, used: float) -> None:
        """It was last used at that time."""
        name, index = _name(id), self._index()
        if index.get(name, used) >= used:
            return
        index[name] = used
        try:
            os.utime(self._path(name), (used, used))
        except FileNotFoundError:
            # It had to make room.
            del index[name]
        except OSError as exc:
            self._complain("written", exc)

    def use(self, id: str) -> None:
        """Its client has done more than open it."""
        self._unused.discard(_name(id))

    def remove(self, id: str) -> None:
        """It is over."""
        self._remove(_name(id))

    def sweep(self) -> None:
        """Remove those that are over."""
        oldest, index = self._now() - self._ttl, self._index()
        try:
            for name in [name for name, used in index.items() if used <= oldest]:
                self._is_over(name)
        except OSError as exc:
            self._complain("read", exc)

    def _is_over(self, name: str) -> bool:
        """Whether it is; then it is removed. The file is asked: another process may have used it since."""
        try:
            used = self._index()[name] = os.stat(self._path(name)).st_mtime
        except FileNotFoundError:
            self._index().pop(name, None)
            return True
        if used > self._now() - self._ttl:
            return False
        self._remove(name)
        return True

    def _index(self) -> dict[str, float]:
        if self._used is None:
            self._used = {}
            try:
                self._look()
            except OSError as exc:
                self._complain("read", exc)
        return self._used

    def _look(self) -> None:
        found: dict[str, float] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    name, ending, half = entry.name.partition(_ENDING)
                    used = entry.stat(follow_symlinks=False).st_mtime
                    if half and used < self._now() - _WRITING_SECONDS:
                        # Of a daemon that was killed while it wrote.
                        private_files.remove(entry.path)
                    elif ending and not half:
                        found[name] = used
        except FileNotFoundError:
            # There is nothing yet; or what was just there is over.
            pass
        self._used = found

    def _make_room(self) -> None:
        """In the folder, which is there then, for one more. Raises StartError."""
        if not self._has_folder:
            make_private(self._folder)
            self._has_folder = True
        if len(self._index()) < SESSIONS_LIMIT:
            return
        # Others may have written there, and used what they wrote. Not for each one more: it is a look at all of them.
        self._look()
        used = self._index()
        self._unused &= used.keys()
        ordered = sorted(used, key=lambda name: (name not in self._unused, used[name]))
        gone = ordered[: max(0, len(used) - SESSIONS_LIMIT * 9 // 10)]
        if gone:
            log.warning("%d sessions over HTTP are over: %d are kept, and others came", len(gone), SESSIONS_LIMIT)
        for name in gone:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._unused.discard(name)
        if self._index().pop(name, None) is not None:
            private_files.remove(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name + _ENDING)

    def _complain(self, what: str, exc: Exception) -> None:
        if not self._complained:
            self._complained = True
            why = exc.strerror if isinstance(exc, OSError) else exc
            log.warning("sessions over HTTP cannot be %s, and end with the daemon: %s: %s", what, self._folder, why)


class SessionJournal:
    """What is kept of one session, as it goes on."""

    def __init__(self, kept: SessionStore, id: str, record: SessionRecord) -> None:
        self._kept = kept
        self._id = id
        self._record = record
        self._is_used = False

    def keep(self, name: str, line: bytes) -> None:
        """A line that a later daemon is to be told."""
        if self._record.lines.get(name) != line:
            self._record.lines[name] = line
            self._write()

    def drop(self, name: str) -> None:
        """One that it need not be told any longer."""
        if self._record.lines.pop(name, None) is not None:
            self._write()

    def note(self, used: float, roots: tuple[bytes, ...] | None) -> None:
        """When it was last used, and what its client has told of its roots. What was said before costs nothing."""
        if self._record.lines and roots != self._record.roots:
            self._record = self._record._replace(roots=roots)
            self._write()
        self._kept.touch(self._id, used)

    def use(self) -> None:
        """Its client has done more than open it."""
        self._is_used = True
        self._kept.use(self._id)

    def end(self) -> None:
        """It is over."""
        self._kept.remove(self._id)

    def _write(self) -> None:
        self._kept.write(self._id, self._record)
        if self._is_used:
            # Its file may have had to make room meanwhile, and is a new one then.
            self._kept.use(self._id)


def _name(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def _document(record: SessionRecord) -> bytes:
    """Raises ValueError for one that is too long."""
    lines = {name: line.decode() for name, line in record.lines.items()}
    roots = None if record.roots is None else [root.decode() for root in record.roots]
    data = msgspec.json.encode(_Document(_VERSION, record.who, lines, roots))
    if len(data) > SIZE_LIMIT_BYTES:
        raise ValueError(f"one has over {SIZE_LIMIT_BYTES} bytes to keep")
    return data


def _parsed(data: bytes) -> SessionRecord:
    """Raises ValueError and what msgspec raises for what was not written like that."""
    found = msgspec.json.decode(data, type=_Document)
    if found.version != _VERSION:
        raise ValueError(f"it is of version {found.version}")
    lines = {name: line.encode() for name, line in found.lines.items()}
    return SessionRecord(
        found.who, lines, None if found.roots is None else tuple(root.encode() for root in found.roots)
    )

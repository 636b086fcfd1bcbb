"""Store of legacy sessions on disk, from which a later daemon restores a session when its client sends its id again.

Each session is one small file, replaced as a whole and named by a hash of the id: the id itself authorizes the client.
The file's modification time is the time of the session's last use, so that an update writes no data. No method raises:
a session that cannot be kept ends with its daemon, and the log says so once. Independent of HTTP and of the lines'
meaning.
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import make_private

log = logging.getLogger(__name__)

# About as many as may be open at once by default. Sessions that were only opened are removed first, then the least
# recently used ones.
SESSIONS_LIMIT = 1000
# An `initialize` has a few hundred bytes, a subscription a hundred; a larger session ends with its daemon.
SIZE_LIMIT_BYTES = 256 * 1024
# No write of a file takes longer.
_WRITING_SECONDS = 60.0
_VERSION = 1
_ENDING = ".json"


class ClientIdentity(NamedTuple):
    """Identity of a client: the user, the role and agent that it claims, and the server and mode that it asks for."""

    uid: int
    role: str | None = None
    agent: str | None = None
    server: str | None = None
    mode: str | None = None
    # Role and agent that the client's role token proves.
    token_role: str | None = None
    token_agent: str | None = None

    def may_use(self, session: "ClientIdentity") -> bool:
        """Tell whether this client may use a session of that identity: the same user, server's URL and proven role."""
        return (self.uid, self.server, self.token_role, self.token_agent) == (
            session.uid,
            session.server,
            session.token_role,
            session.token_agent,
        )


class SessionRecord(NamedTuple):
    """Stored state of one session: its client, the lines to replay, and the raw roots if the client sent them."""

    who: ClientIdentity
    lines: dict[str, bytes]
    roots: tuple[bytes, ...] | None = None


class _Document(msgspec.Struct):
    """Record as it is written to disk."""

    version: int
    who: ClientIdentity
    lines: dict[str, str]
    roots: list[str] | None


class SessionStore:
    """Stored sessions of one profile (Places.sessions). A session that was not used for `ttl` seconds is over."""

    def __init__(self, folder: str, ttl: float, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._ttl = ttl
        self._now = now
        # The last use of each session, by the name of its file, as far as this process knows it: `hearth serve` in a
        # terminal may serve HTTP beside the daemon.
        self._used: dict[str, float] | None = None
        # This daemon's sessions that were only opened so far.
        self._unused: set[str] = set()
        self._complained = False
        # The folder existed, and was private, at the last check; the check takes longer than writing a file.
        self._has_folder = False

    def read(self, id: str) -> SessionRecord | None:
        """Return the session of that id, if there was one and it is not over."""
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
        """Store the session in its present state; this counts as a use."""
        name = _name(id)
        try:
            data = _document(record)
            if name not in self._index():
                self._make_room()
                self._unused.add(name)
            private_files.write(self._path(name), data)
            self._index()[name] = self._now()
        except (OSError, ValueError, FileAccessError) as exc:
            self._has_folder = False
            self._complain("written", exc)
            # The file on disk is outdated.
            self._remove(name)

    def touch(self, id: str, used: float) -> None:
        """Set the time of the session's last use."""
        name, index = _name(id), self._index()
        if index.get(name, used) >= used:
            return
        index[name] = used
        try:
            os.utime(self._path(name), (used, used))
        except FileNotFoundError:
            # The file was removed to make room.
            del index[name]
        except OSError as exc:
            self._complain("written", exc)

    def use(self, id: str) -> None:
        """Note that the client has done more than open the session."""
        self._unused.discard(_name(id))

    def remove(self, id: str) -> None:
        """Remove a session that is over."""
        self._remove(_name(id))

    def sweep(self) -> None:
        """Remove the sessions that are over."""
        oldest, index = self._now() - self._ttl, self._index()
        try:
            for name in [name for name, used in index.items() if used <= oldest]:
                self._is_over(name)
        except OSError as exc:
            self._complain("read", exc)

    def _is_over(self, name: str) -> bool:
        """Tell whether a session is over, and remove it then. The file decides: another process may have used it."""
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
                        # Left by a daemon that was killed while it wrote.
                        private_files.remove(entry.path)
                    elif ending and not half:
                        found[name] = used
        except FileNotFoundError:
            # The folder does not exist yet, or a file was removed during the scan.
            pass
        self._used = found

    def _make_room(self) -> None:
        """Create the folder if necessary, and make room for one more session in it. Raises FileAccessError."""
        if not self._has_folder:
            make_private(self._folder)
            self._has_folder = True
        if len(self._index()) < SESSIONS_LIMIT:
            return
        # Other processes may have written and used sessions. Room for many is made at once, since this scans all files.
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
    """Journal of one open session, which keeps its stored record current."""

    def __init__(self, kept: SessionStore, id: str, record: SessionRecord) -> None:
        self._kept = kept
        self._id = id
        self._record = record
        self._is_used = False

    def keep(self, name: str, line: bytes) -> None:
        """Keep a line for a later daemon to replay."""
        if self._record.lines.get(name) != line:
            self._record.lines[name] = line
            self._write()

    def drop(self, name: str) -> None:
        """Drop a line that need not be replayed any longer."""
        if self._record.lines.pop(name, None) is not None:
            self._write()

    def note(self, used: float, roots: tuple[bytes, ...] | None) -> None:
        """Store the time of the last use and the client's roots. Unchanged roots are not written again."""
        if self._record.lines and roots != self._record.roots:
            self._record = self._record._replace(roots=roots)
            self._write()
        self._kept.touch(self._id, used)

    def use(self) -> None:
        """Note that the client has done more than open the session."""
        self._is_used = True
        self._kept.use(self._id)

    def end(self) -> None:
        """Remove the stored record: the session is over."""
        self._kept.remove(self._id)

    def _write(self) -> None:
        self._kept.write(self._id, self._record)
        if self._is_used:
            # The file may have been removed to make room, and then counts as a new one.
            self._kept.use(self._id)


def _name(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()


def _document(record: SessionRecord) -> bytes:
    """Return a record as JSON. Raises ValueError if it is too large."""
    lines = {name: line.decode() for name, line in record.lines.items()}
    roots = None if record.roots is None else [root.decode() for root in record.roots]
    data = msgspec.json.encode(_Document(_VERSION, record.who, lines, roots))
    if len(data) > SIZE_LIMIT_BYTES:
        raise ValueError(f"one has over {SIZE_LIMIT_BYTES} bytes to keep")
    return data


def _parsed(data: bytes) -> SessionRecord:
    """Return the record in a file. Raises ValueError and msgspec's errors for data of another format."""
    found = msgspec.json.decode(data, type=_Document)
    if found.version != _VERSION:
        raise ValueError(f"it is of version {found.version}")
    lines = {name: line.encode() for name, line in found.lines.items()}
    return SessionRecord(
        found.who, lines, None if found.roots is None else tuple(root.encode() for root in found.roots)
    )

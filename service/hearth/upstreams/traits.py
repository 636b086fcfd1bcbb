"""What was learned of servers while they ran, remembered from one daemon to the next: how they must be kept apart, and
which eras of MCP they speak.

Each entry of the config is known by its fingerprint, so that a changed entry starts anew and the file tells nothing of
arguments or secrets. Read once, at the first question, and written when something new is learned: together with what
other processes of the profile have written meanwhile, a lock is between them. What cannot be read or written is logged
once; each daemon then learns it anew.
"""

import logging
import os
import time
from typing import Any, NamedTuple

from hearth.config import ServerSpec
from hearth.errors import StartError
from hearth.host import private_files
from hearth.host.file_lock import FileLock
from hearth.host.folders import make_private
from hearth.mcp import isolation, versions
from hearth.upstreams.fingerprints import Fingerprints

log = logging.getLogger(__name__)

# More servers than anybody configures; those that were asked for last stay.
ENTRIES_LIMIT = 500
# An entry has about a hundred bytes; a longer file is not ours.
SIZE_LIMIT_BYTES = 1024 * 1024
# A package is updated now and then, and may speak the newer era by then: it is asked again.
ONLY_SECONDS = 7 * 24 * 3600
_VERSION = 1
# Of the clock; beyond it a number is no time.
_LATEST = 1e12


class ServerTraits(NamedTuple):
    """What is known of one server. `mode` is the least sharing that it has shown to need; of `eras` it has spoken each;
    `only` is the one that it answered in when it was asked for the other; `apart`: it needs a process for each era."""

    mode: isolation.Mode = isolation.SHARED
    eras: frozenset[str] = frozenset()
    only: str | None = None
    only_since: float = 0.0
    apart_since: float = 0.0

    @property
    def apart(self) -> bool:
        """Whether it has shown, not long ago, that the clients of each era need a process of their own."""
        return self.apart_since > 0 and 0 <= time.time() - self.apart_since < ONLY_SECONDS


NOTHING = ServerTraits()


class TraitStore:
    """The knowledge of one daemon; `path` is its file (Places.learned). No method raises."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fingerprints = Fingerprints(os.path.splitext(path)[0] + ".key")
        self._is_loaded = False
        # By fingerprint; those that were asked for last are at the end.
        self._known: dict[str, ServerTraits] = {}
        # Of those, what is not in the file yet.
        self._unsaved: set[str] = set()
        self._lock = FileLock(os.path.splitext(path)[0] + ".lock")
        self._complained = False

    def get(self, spec: ServerSpec) -> ServerTraits:
        """What is known of a server that is configured like this."""
        self._load()
        fingerprint = self.fingerprints.of(spec)
        found = self._known.pop(fingerprint, None)
        if found is None:
            return NOTHING
        self._known[fingerprint] = found
        is_old = found.only is not None and not 0 <= time.time() - found.only_since < ONLY_SECONDS
        return found._replace(only=None, only_since=0.0) if is_old else found

    def mode(self, spec: ServerSpec, project_scope: bool = False) -> isolation.Mode:
        """The isolation in force: what the entry says, or what `auto` comes to by now."""
        if spec.isolation != "auto":
            return spec.isolation
        first = isolation.initial(spec.command, spec.args, spec.cwd, spec.url, project_scope)
        return isolation.stricter(first, self.get(spec).mode)

    def raise_mode(self, spec: ServerSpec, mode: isolation.Mode) -> None:
        """Remember that the server needs this mode, at least."""
        known = self.get(spec)
        self._note(spec, known._replace(mode=isolation.stricter(known.mode, mode)))

    def note_era(self, spec: ServerSpec, wanted: str, found: str) -> None:
        """Remember which era the server was spoken to in when another, the same, or either (`auto`) was wanted."""
        known = self.get(spec)
        after = known._replace(eras=known.eras | {found})
        if wanted == found and known.only != found:
            # What was believed of it, if anything, is no longer so.
            after = after._replace(only=None, only_since=0.0)
        elif wanted not in ("auto", found) and known.only != found:
            after = after._replace(only=found, only_since=time.time(), eras=frozenset({found}))
        self._note(spec, after)

    def note_apart(self, spec: ServerSpec) -> None:
        """Remember that the server needs a process for each era."""
        self._note(spec, self.get(spec)._replace(apart_since=time.time()))

    def _note(self, spec: ServerSpec, known: ServerTraits) -> None:
        if known == self._known.get(self.fingerprints.of(spec), NOTHING):
            return
        is_possible = self._prepare()
        # Only now: the key may have become another.
        fingerprint = self.fingerprints.of(spec)
        self._known.pop(fingerprint, None)
        self._known[fingerprint] = known
        self._unsaved.add(fingerprint)
        for oldest in list(self._known)[:-ENTRIES_LIMIT]:
            del self._known[oldest]
            self._unsaved.discard(oldest)
        if is_possible:
            self._save()

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True
        try:
            self.fingerprints.load()
            if not self.fingerprints.are_new:
                self._known = _parsed(private_files.read(self.path, SIZE_LIMIT_BYTES))
        except (OSError, ValueError, RecursionError) as exc:
            self._complain("read", exc)

    def _prepare(self) -> bool:
        """Have a key to write under: without it the other file means nothing, and is begun anew."""
        try:
            make_private(os.path.dirname(self.path))
            self.fingerprints.keep()
        except (OSError, ValueError, StartError) as exc:
            self._complain("written", exc)
            return False
        return True

    def _save(self) -> None:
        try:
            # Whoever holds it does so for a moment; what is not written now is with the next that is learned.
            if not self._lock.acquire(blocking=False):
                return
            self._known = self._joined()
            private_files.write(self.path, _document(self._known))
            self._unsaved.clear()
        except (OSError, ValueError, StartError) as exc:
            self._complain("written", exc)
        finally:
            self._lock.release()

    def _joined(self) -> dict[str, ServerTraits]:
        """What is known here, and what others have written."""
        try:
            written = _parsed(private_files.read(self.path, SIZE_LIMIT_BYTES))
        except (ValueError, RecursionError):
            # It is replaced.
            written = {}
        joined = {fingerprint: known for fingerprint, known in written.items() if fingerprint not in self._known}
        for fingerprint, known in self._known.items():
            theirs = written.get(fingerprint, known)
            mode = isolation.stricter(known.mode, theirs.mode)
            joined[fingerprint] = (known if fingerprint in self._unsaved else theirs)._replace(mode=mode)
        return dict(list(joined.items())[-ENTRIES_LIMIT:])

    def _complain(self, what: str, exc: Exception) -> None:
        if not self._complained:
            self._complained = True
            why = exc.strerror if isinstance(exc, OSError) else exc
            log.warning("what was learned of servers cannot be %s: %s: %s", what, self.path, why)


def _document(known: dict[str, ServerTraits]) -> bytes:
    import json

    servers = {fingerprint: _entry(knowledge) for fingerprint, knowledge in known.items()}
    return json.dumps({"version": _VERSION, "servers": servers}, indent=1).encode() + b"\n"


def _entry(known: ServerTraits) -> dict[str, object]:
    entry: dict[str, object] = {"mode": known.mode, "eras": sorted(known.eras), "only": known.only}
    if known.only:
        entry["onlySince"] = int(known.only_since)
    if known.apart_since:
        entry["apartSince"] = int(known.apart_since)
    return entry


def _parsed(data: bytes) -> dict[str, ServerTraits]:
    """What a file tells; entries that cannot be understood are left out. ValueError if it is not such a file."""
    import json

    tree = json.loads(data) if data else {"version": _VERSION, "servers": {}}
    if not isinstance(tree, dict) or tree.get("version") != _VERSION or not isinstance(tree.get("servers"), dict):
        raise ValueError("it is not a file of this version's")
    entries = ((fingerprint, _knowledge(entry)) for fingerprint, entry in tree["servers"].items())
    return dict([(fingerprint, known) for fingerprint, known in entries if known][-ENTRIES_LIMIT:])


def _knowledge(entry: Any) -> ServerTraits | None:
    if not isinstance(entry, dict):
        return None
    mode, spoken, only = entry.get("mode"), entry.get("eras"), entry.get("only")
    since, apart = entry.get("onlySince", 0), entry.get("apartSince", 0)
    names = (versions.LEGACY, versions.MODERN)
    if mode not in isolation.MODES or not isinstance(spoken, list) or any(era not in names for era in spoken):
        return None
    if only not in (None, *names) or not (_is_time(since) and _is_time(apart)):
        return None
    return ServerTraits(mode, frozenset(spoken), only, float(since), float(apart))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _LATEST

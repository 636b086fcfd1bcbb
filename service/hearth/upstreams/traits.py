"""Traits of servers, learned while they ran and kept from one daemon to the next: their isolation and their eras.

Each entry of the config is identified by its fingerprint, a keyed hash of everything that defines it, so that a changed
entry starts without traits and the file reveals no arguments or secrets. The key is in a file of its own; losing it
loses only the knowledge stored under its hashes. The file of traits is read once, on first use, and written when
something new is learned, merged with what other processes of the profile have written meanwhile; a lock serializes the
writers. A failure to read or write is logged once; each daemon then learns the traits again.
"""

import logging
import os
import time
from typing import Annotated

import msgspec
from msgspec.structs import replace

from hearth.config import ServerSpec
from hearth.errors import FileAccessError
from hearth.host import private_files
from hearth.host.folders import make_private
from hearth.host.locks import Lock
from hearth.mcp import isolation, versions

log = logging.getLogger(__name__)

_KEY_BYTES = 32
# A longer file is not ours, and is left alone; one of another length below this limit is replaced.
_FILE_LIMIT_BYTES = 4096
# More servers than any config has; the most recently used entries stay.
ENTRIES_LIMIT = 500
# An entry has about a hundred bytes; a longer file is not ours.
SIZE_LIMIT_BYTES = 1024 * 1024
# An update of a server's package may bring the newer era: after this time the server is asked again.
ONLY_SECONDS = 7 * 24 * 3600
_VERSION = 1
_Era = Annotated[str, msgspec.Meta(pattern=f"^({versions.LEGACY}|{versions.MODERN})$")]
# Seconds since 1970; a greater number is no time.
_Time = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Fingerprints:
    """Fingerprints of one daemon; `path` is the file of its key, read on first use."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._key = b""
        # Whether the key is new: nothing that was stored under a former key is found again.
        self.are_new = False

    def load(self) -> None:
        """Read the key, or create one. Raises OSError and ValueError; a key exists even then."""
        if self._key:
            return
        self._key, self.are_new = os.urandom(_KEY_BYTES), True
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if len(key) == _KEY_BYTES:
            self._key, self.are_new = key, False

    def keep(self) -> None:
        """Write the key to its file, whose folder must exist. Raises OSError and ValueError.

        If the file has another key, that key is used from now on, and earlier hashes are void.
        """
        self.load()
        key = private_files.read(self.path, _FILE_LIMIT_BYTES)
        if key and len(key) != _KEY_BYTES:
            private_files.write(self.path, self._key)
        elif key or not private_files.create(self.path, self._key):
            # Another process of this profile may have created a key meanwhile: all processes use the first one.
            self._key = key or private_files.read(self.path, _FILE_LIMIT_BYTES)

    def of(self, spec: ServerSpec, *more: object) -> str:
        """Return the hash of an entry, and of other values it depends on: texts, numbers, tuples and lists of them."""
        started = (spec.command, spec.args, sorted(spec.env.items()), spec.cwd)
        reached = (spec.url, sorted(spec.headers.items()), spec.transport)
        # repr is exact for such values: no two different entries look the same.
        return self.digest(repr((started, reached, *more)).encode("utf-8", "surrogatepass"))

    def digest(self, data: bytes) -> str:
        """Return the keyed hash of some bytes; call `load` first."""
        # Not hashlib, which loads OpenSSL: 4 MB of memory for one hash.
        from _blake2 import blake2s

        return blake2s(data, key=self._key, digest_size=16).hexdigest()


class WarnOnce:
    """Warning about a store that cannot be read or written, once for each server, or once for all."""

    def __init__(self, log: logging.Logger, store: str) -> None:
        self._log = log
        self._store = store
        self._warned: set[str | None] = set()

    def __call__(self, verb: str, path: str, exc: Exception, server: str | None = None) -> None:
        if server not in self._warned:
            self._warned.add(server)
            reason = exc.strerror if isinstance(exc, OSError) else exc
            extra = {"upstream": server} if server else None
            self._log.warning("%s cannot be %s path=%s reason=%s", self._store, verb, path, reason, extra=extra)


class ServerTraits(msgspec.Struct, frozen=True, rename="camel"):
    """Traits of one server, as they are in the file.

    `mode` is the strictest isolation that it has shown to need. `eras` are the eras that it has spoken; `only` is the
    one that it answered in when it was asked for the other. `apart`: it needs a process for each era.
    """

    mode: isolation.Mode = isolation.SHARED
    eras: frozenset[_Era] = frozenset()
    only: _Era | None = None
    only_since: _Time = 0.0
    apart_since: _Time = 0.0

    @property
    def apart(self) -> bool:
        """True if the server has shown, not long ago, that the clients of each era need a process of their own."""
        return self.apart_since > 0 and 0 <= time.time() - self.apart_since < ONLY_SECONDS


NOTHING = ServerTraits()


class TraitStore:
    """Store of the traits that one daemon knows; `path` is its file (Places.learned). No method raises.

    Without a path, nothing is read or written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fingerprints = Fingerprints(os.path.splitext(path)[0] + ".key")
        self._is_loaded = not path
        # By fingerprint; the most recently used entries are at the end.
        self._known: dict[str, ServerTraits] = {}
        # Fingerprints of entries that are not in the file yet.
        self._unsaved: set[str] = set()
        self._lock = Lock(os.path.splitext(path)[0] + ".lock")
        self._warn = WarnOnce(log, "server traits")

    def get(self, spec: ServerSpec) -> ServerTraits:
        """Return the traits of a server with this entry."""
        self._load()
        fingerprint = self.fingerprints.of(spec)
        found = self._known.pop(fingerprint, None)
        if found is None:
            return NOTHING
        self._known[fingerprint] = found
        is_old = found.only is not None and not 0 <= time.time() - found.only_since < ONLY_SECONDS
        return replace(found, only=None, only_since=0.0) if is_old else found

    def mode(self, spec: ServerSpec, project_scope: bool = False) -> isolation.Mode:
        """Return the isolation in force: the entry's own, or the current meaning of `auto`."""
        if spec.isolation != "auto":
            return spec.isolation
        first, _ = isolation.initial(spec.command, spec.args, spec.cwd, spec.url, project_scope)
        return isolation.stricter(first, self.get(spec).mode)

    def raise_mode(self, spec: ServerSpec, mode: isolation.Mode) -> None:
        """Remember that the server needs at least this mode."""
        known = self.get(spec)
        self._note(spec, replace(known, mode=isolation.stricter(known.mode, mode)))

    def note_era(self, spec: ServerSpec, wanted: str, found: str) -> None:
        """Remember the era that a server answered in (`found`) when it was asked for `wanted` (`auto`: either)."""
        known = self.get(spec)
        after = replace(known, eras=known.eras | {found})
        if wanted == found and known.only != found:
            # A former belief that the server speaks only the other era is refuted.
            after = replace(after, only=None, only_since=0.0)
        elif wanted not in ("auto", found) and known.only != found:
            after = replace(after, only=found, only_since=time.time(), eras=frozenset({found}))
        self._note(spec, after)

    def note_apart(self, spec: ServerSpec) -> None:
        """Remember that the server needs a process for each era."""
        self._note(spec, replace(self.get(spec), apart_since=time.time()))

    def _note(self, spec: ServerSpec, known: ServerTraits) -> None:
        if known == self._known.get(self.fingerprints.of(spec), NOTHING):
            return
        is_possible = bool(self.path) and self._prepare()
        # Only now: the key may have changed.
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
            self._warn("read", self.path, exc)

    def _prepare(self) -> bool:
        """Store the key of the fingerprints; return whether that worked. Without the key the file is worthless."""
        try:
            make_private(os.path.dirname(self.path))
            self.fingerprints.keep()
        except (OSError, ValueError, FileAccessError) as exc:
            self._warn("written", self.path, exc)
            return False
        return True

    def _save(self) -> None:
        try:
            # Another process holds the lock only briefly; the next save writes what is left unsaved now.
            if not self._lock.acquire(blocking=False):
                return
            self._known = self._joined()
            private_files.write(self.path, _document(self._known))
            self._unsaved.clear()
        except (OSError, ValueError, FileAccessError) as exc:
            self._warn("written", self.path, exc)
        finally:
            self._lock.release()

    def _joined(self) -> dict[str, ServerTraits]:
        """Return the traits known here, merged with those that other processes have written."""
        try:
            written = _parsed(private_files.read(self.path, SIZE_LIMIT_BYTES))
        except (ValueError, RecursionError):
            # An invalid file is replaced.
            written = {}
        joined = {fingerprint: known for fingerprint, known in written.items() if fingerprint not in self._known}
        for fingerprint, known in self._known.items():
            theirs = written.get(fingerprint, known)
            mode = isolation.stricter(known.mode, theirs.mode)
            joined[fingerprint] = replace(known if fingerprint in self._unsaved else theirs, mode=mode)
        return dict(list(joined.items())[-ENTRIES_LIMIT:])


def _document(known: dict[str, ServerTraits]) -> bytes:
    import json

    servers = msgspec.to_builtins(known)
    return json.dumps({"version": _VERSION, "servers": servers}, indent=1).encode() + b"\n"


def _parsed(data: bytes) -> dict[str, ServerTraits]:
    """Parse a file, without its invalid entries. Raises ValueError if it is not such a file."""
    import json

    tree = json.loads(data) if data else {"version": _VERSION, "servers": {}}
    if not isinstance(tree, dict) or tree.get("version") != _VERSION or not isinstance(tree.get("servers"), dict):
        raise ValueError("it is not a file of this version's")
    entries = ((fingerprint, _traits(entry)) for fingerprint, entry in tree["servers"].items())
    return dict([(fingerprint, known) for fingerprint, known in entries if known][-ENTRIES_LIMIT:])


def _traits(entry: object) -> ServerTraits | None:
    try:
        return msgspec.convert(entry, ServerTraits)
    except msgspec.ValidationError:
        return None

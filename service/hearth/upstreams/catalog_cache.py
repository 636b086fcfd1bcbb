"""Catalogs of servers by the capabilities of their clients, kept from one daemon to the next.

The cache on disk lets lists be answered before a server runs. There is one file for each entry of the config, named by
the fingerprint of the entry and of its references' values: with another token a server may have another catalog. A file
is replaced as a whole, begins with a hash of the rest, and is removed if the hash does not match. The cache also
records that a server could not be started or took too long, so that lists do not wait for it. No method raises: the
next daemon asks the server for a catalog that could not be stored. Knows nothing of processes.
"""

import logging
import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from hearth.config import ServerSpec
from hearth.errors import FileAccessError, MessageError
from hearth.host import private_files
from hearth.host.folders import make_private
from hearth.mcp import catalog
from hearth.mcp.catalog import ServerCatalog
from hearth.secrets import references
from hearth.upstreams.traits import Fingerprints, WarnOnce
from hearth.wire import json, values

log = logging.getLogger(__name__)

# In the first line of every file; a file of another version is removed.
_FORMAT = b"hearth-catalogue 1 "
# More than any config has, old entries and other tokens included; the least recently read files are removed first.
FILES_LIMIT = 500
# A message from a server is no longer than this (message_limit), and hardly ever near it.
FILE_LIMIT_BYTES = 64 * 1024 * 1024
# Client profiles for which a server has given a catalog: in memory, where what a client declares is its own choice, and
# on disk. The latest ones stay.
KNOWN_CATALOGS_LIMIT = 100
CACHED_CATALOGS_LIMIT = 16
# Seconds in which a server that could not be started is not tried again for a mere list; a call always tries it.
FAILURE_SECONDS = 600.0


class CachedCatalog(NamedTuple):
    """Cached knowledge of one server: catalogs by raw client capabilities, and when it last failed or came too late."""

    catalogs: Mapping[bytes, ServerCatalog]
    failed_at: float = 0.0
    late_at: float = 0.0
    # Cause of the failure when the server was last used, in one line; empty if it worked, or was not tried since.
    failure: str = ""

    @property
    def has_failed(self) -> bool:
        """True if the server could not be started a short while ago."""
        return 0 <= time.time() - self.failed_at < FAILURE_SECONDS

    @property
    def is_late(self) -> bool:
        """True if lists should not wait for the server: it has never given a catalog, for whatever reason."""
        return bool(self.failed_at or self.late_at)


NOTHING = CachedCatalog({})


class CatalogCache:
    """Catalog cache in one folder (Places.catalogue)."""

    def __init__(self, folder: str, fingerprints: Fingerprints, environ: Mapping[str, str] = os.environ) -> None:
        self.folder = folder
        self._fingerprints = fingerprints
        self._environ = environ
        self._warn = WarnOnce(log, "catalog cache")

    def recall(self, spec: ServerSpec) -> CachedCatalog:
        """Return the cached knowledge of a server with this entry and the current values of its references."""
        path = self._path(spec)
        try:
            data = private_files.read(path, FILE_LIMIT_BYTES)
            if not data:
                return NOTHING
            memory = self._parsed(spec.name, data)
            # Files that are no longer read are pruned first.
            os.utime(path)
        except (MessageError, KeyError) as exc:
            log.warning("cached catalog removed path=%s reason=%s", path, exc, extra={"upstream": spec.name})
            private_files.remove(path)
        except (OSError, ValueError) as exc:
            self._warn("read", self.folder, exc)
        else:
            return memory
        return NOTHING

    def note(self, spec: ServerSpec, memory: CachedCatalog) -> None:
        """Store the current knowledge of a server."""
        body = _document(spec.name, memory)
        if len(body) >= FILE_LIMIT_BYTES - len(_FORMAT) - 100:
            log.info("catalog too large for the cache bytes=%d", len(body), extra={"upstream": spec.name})
            return
        try:
            make_private(self.folder)
            make_private(os.path.dirname(self._fingerprints.path))
            # The key first: without it the file cannot be found again.
            self._fingerprints.keep()
            path = self._path(spec)
            is_new = not os.path.exists(path)
            private_files.write(path, self._sealed(body))
            if is_new:
                self._prune()
        except (OSError, ValueError, FileAccessError) as exc:
            self._warn("written", self.folder, exc)

    def _path(self, spec: ServerSpec) -> str:
        try:
            self._fingerprints.load()
        except (OSError, ValueError) as exc:
            self._warn("read", self.folder, exc)
        name = self._fingerprints.of(spec, spec.name, spec.era, references.traces(spec, self._environ))
        return os.path.join(self.folder, name + ".json")

    def _sealed(self, body: bytes) -> bytes:
        return _FORMAT + self._fingerprints.digest(body).encode() + b"\n" + body

    def _parsed(self, name: str, data: bytes) -> CachedCatalog:
        """Parse a file. Raises MessageError and KeyError for data that is no such file."""
        body = data.partition(b"\n")[2]
        if data != self._sealed(body):
            raise MessageError("it is not what was written")
        fields = json.split(body)
        offerings = {}
        for raw in values.elements(fields["offerings"]):
            entry = json.split(raw)
            offerings[(values.text(entry["clients"]) or "").encode()] = catalog.read_catalog(name, entry["offering"])
        failure = values.text(fields["failure"]) if "failure" in fields else None
        failed_at, late_at = (float(json.loads(fields[key])) for key in ("failedAt", "lateAt"))
        return CachedCatalog(offerings, failed_at, late_at, failure or "")

    def _prune(self) -> None:
        with os.scandir(self.folder) as found:
            files = [(_written_at(entry), entry.path) for entry in found]
        for _, path in sorted(files, reverse=True)[FILES_LIMIT:]:
            private_files.remove(path)


def _written_at(entry: "os.DirEntry[str]") -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        # Another process of this profile has removed it.
        return 0.0


def _document(name: str, memory: CachedCatalog) -> bytes:
    latest = list(memory.catalogs.items())[-CACHED_CATALOGS_LIMIT:]
    entries = [_entry(clients, offering) for clients, offering in latest]
    return json.join(
        {
            "server": json.dumps(name),
            "failedAt": json.dumps(memory.failed_at),
            "lateAt": json.dumps(memory.late_at),
            "failure": json.dumps(memory.failure),
            "offerings": b"[%b]" % b",".join(entries),
        }
    )


def _entry(clients: bytes, offering: ServerCatalog) -> bytes:
    known_by = json.dumps(clients.decode("utf-8", "replace"))
    return json.join({"clients": known_by, "offering": catalog.write_catalog(offering)})


class ServerCatalogs:
    """Catalogs of one server. Without a cache they last as long as the daemon."""

    def __init__(self, spec: ServerSpec, cache: CatalogCache | None) -> None:
        self._spec = spec
        self._cache = cache
        self._known: dict[bytes, ServerCatalog] | None = None
        self._memory = NOTHING
        # Identities of the catalogs that are in the cache.
        self._written: dict[bytes, tuple[object, ...]] = {}

    @property
    def known(self) -> dict[bytes, ServerCatalog]:
        """Catalogs by the raw capabilities of clients; the latest is at the end."""
        if self._known is None:
            self._memory = self._cache.recall(self._spec) if self._cache else NOTHING
            self._known = dict(self._memory.catalogs)
            self._written = {profile: _identity(catalog) for profile, catalog in self._known.items()}
        return self._known

    @property
    def any(self) -> ServerCatalog | None:
        """Catalog for any kind of client, if one is known."""
        return next(iter(self.known.values()), None)

    def recall(self, capabilities: bytes, era: str) -> ServerCatalog | None:
        """Return the catalog of a process of that era for such clients when it last ran."""
        found = self.known.get(capabilities)
        return found if found and found.era == era else None

    def take(self, capabilities: bytes, catalog: ServerCatalog) -> None:
        """Store the catalog of a process for such clients."""
        known = self.known
        known.pop(capabilities, None)
        if len(known) >= KNOWN_CATALOGS_LIMIT:
            del known[next(iter(known))]
        known[capabilities] = catalog
        if self._written.get(capabilities) != _identity(catalog):
            self._written[capabilities] = _identity(catalog)
            self._note(CachedCatalog(known))

    # --- whether it works

    @property
    def failure(self) -> str | None:
        """Cause of the failure at the last use, by this daemon or, once `known` was read, by a former one."""
        return self._memory.failure or None

    def failed(self, why: str) -> None:
        """Note that the server could not be started, or has died."""
        if not self.known:
            self._note(self._memory._replace(failed_at=time.time(), failure=why))
        elif self._memory.failure != why:
            self._note(CachedCatalog(self.known, failure=why))

    def recovered(self) -> None:
        """Note that the server works, or that its failures were reset."""
        if self.failure:
            self._note(self._memory._replace(failed_at=0.0, failure=""))

    # --- servers without a known catalog

    @property
    def is_late(self) -> bool:
        """True if the server could not be started before, or took longer than lists wait."""
        return not self.known and self._memory.is_late

    @property
    def has_failed(self) -> bool:
        """True if the server could not be started a short while ago."""
        return not self.known and self._memory.has_failed

    def mark_late(self) -> None:
        """Note that a list could not wait for the server any longer."""
        if not self.known and not self._memory.is_late:
            self._note(self._memory._replace(late_at=time.time()))

    def _note(self, memory: CachedCatalog) -> None:
        self._memory = memory
        if self._cache:
            self._cache.note(self._spec, memory)


def _identity(catalog: ServerCatalog) -> tuple[object, ...]:
    """Return a value that is equal for catalogs that need not be written again."""
    return (catalog.era, catalog.version, *catalog.key)

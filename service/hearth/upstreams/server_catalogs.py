"""Catalogs of one server by the capabilities of its clients, kept from one daemon to the next.

Catalogs are read from the cache on first use, and written there when something is new. Knows nothing of processes.
"""

import time

from hearth.config import ServerSpec
from hearth.mcp.catalog import ServerCatalog
from hearth.upstreams.catalog_cache import NOTHING, CachedCatalog, CatalogCache

# Kinds of clients whose catalogs are remembered; what a client declares is its own choice.
OFFERINGS_LIMIT = 100


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
        if len(known) >= OFFERINGS_LIMIT:
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

"""What one server offers, by what its clients can be asked; kept from one daemon to the next.

Read from the kept catalogue when it is first asked for, and written there when something is new. Knows nothing of
processes.
"""

import time

from hearth.config import ServerSpec
from hearth.mcp.catalog import ServerCatalog
from hearth.upstreams.catalog_cache import NOTHING, CachedCatalog, CatalogCache

# What was offered to so many kinds of clients is remembered; what a client declares is its own choice.
OFFERINGS_LIMIT = 100


class ServerCatalogs:
    """Those of one server. Without a catalogue they last as long as the daemon."""

    def __init__(self, spec: ServerSpec, kept: CatalogCache | None) -> None:
        self._spec = spec
        self._kept = kept
        self._known: dict[bytes, ServerCatalog] | None = None
        self._memory = NOTHING
        # What of it is in the catalogue.
        self._written: dict[bytes, tuple[object, ...]] = {}

    @property
    def known(self) -> dict[bytes, ServerCatalog]:
        """By the raw capabilities of clients; what was said last is at the end."""
        if self._known is None:
            self._memory = self._kept.recall(self._spec) if self._kept else NOTHING
            self._known = dict(self._memory.catalogs)
            self._written = {profile: _identity(offering) for profile, offering in self._known.items()}
        return self._known

    @property
    def any(self) -> ServerCatalog | None:
        """What is offered to somebody."""
        return next(iter(self.known.values()), None)

    def recall(self, capabilities: bytes, era: str) -> ServerCatalog | None:
        """What a process of that era offered to such clients when it last ran."""
        found = self.known.get(capabilities)
        return found if found and found.era == era else None

    def take(self, capabilities: bytes, offering: ServerCatalog) -> None:
        """A process has said what it offers to such clients."""
        known = self.known
        known.pop(capabilities, None)
        if len(known) >= OFFERINGS_LIMIT:
            del known[next(iter(known))]
        known[capabilities] = offering
        if self._written.get(capabilities) != _identity(offering):
            self._written[capabilities] = _identity(offering)
            self._note(CachedCatalog(known))

    # --- whether it works

    @property
    def failure(self) -> str | None:
        """Why it did not work when it was last used, by this daemon or, once `known` was read, one before."""
        return self._memory.failure or None

    def failed(self, why: str) -> None:
        """Note that it could not be started, or has died."""
        if not self.known:
            self._note(self._memory._replace(failed_at=time.time(), failure=why))
        elif self._memory.failure != why:
            self._note(CachedCatalog(self.known, failure=why))

    def recovered(self) -> None:
        """Note that it works, or that its failure is forgiven."""
        if self.failure:
            self._note(self._memory._replace(failed_at=0.0, failure=""))

    # --- of a server that has never said what it offers

    @property
    def is_late(self) -> bool:
        """Whether it could not be started before, or took longer than anybody waits."""
        return not self.known and self._memory.is_late

    @property
    def has_failed(self) -> bool:
        """Whether it could not be started, a short while ago."""
        return not self.known and self._memory.has_failed

    def mark_late(self) -> None:
        """A list could not wait for it any longer."""
        if not self.known and not self._memory.is_late:
            self._note(self._memory._replace(late_at=time.time()))

    def _note(self, memory: CachedCatalog) -> None:
        self._memory = memory
        if self._kept:
            self._kept.note(self._spec, memory)


def _identity(offering: ServerCatalog) -> tuple[object, ...]:
    """Equal for what need not be written again."""
    return (offering.era, offering.version, *offering.key)

"""The tools of servers: those that a daemon knows; while none runs, those of the last run, read from disk."""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from hearth import config
from hearth.control_client import running_daemon
from hearth.mcp.catalog import ServerCatalog
from hearth.mcp.search import tool_listing
from hearth.paths import Places
from hearth.upstreams.catalog_cache import CachedCatalog, CatalogCache
from hearth.upstreams.pin_store import PinStore
from hearth.upstreams.traits import TraitStore

# What these modules write is for the daemon's log; here it would stand between a verb's own lines.
logging.getLogger("hearth").addHandler(logging.NullHandler())


def current(places: Places, query: str, server: str | None, limit: int) -> dict[str, Any]:
    """Return the tools that a running daemon lists, else those that are kept. Raises HearthError."""
    daemon = running_daemon.find(places)
    if daemon is None:
        return document(places, query, server, limit)
    with daemon.control() as control:
        return control.tools(query, server, limit)


def document(places: Places, query: str, server: str | None, limit: int) -> dict[str, Any]:
    """What a daemon would answer that has just been started. Raises ConfigError and SearchUnavailable."""
    specs = [spec for spec in config.load(places).servers.values() if not spec.disabled]
    found: dict[str, Any] = json.loads(tool_listing.document(offerings(places, specs), query, server, limit))
    return found


def memories(places: Places, specs: Iterable[config.ServerSpec]) -> Iterator[tuple[config.ServerSpec, CachedCatalog]]:
    """Yield what daemons before have noted of each server."""
    kept = CatalogCache(places.catalogue, TraitStore(places.learned).fingerprints, os.environ)
    for spec in specs:
        yield spec, kept.recall(spec)


def offerings(places: Places, specs: Iterable[config.ServerSpec]) -> Iterator[tuple[str, ServerCatalog | None]]:
    """What each server offered when it last ran, without what is withheld; None where nothing is kept."""
    pins = PinStore(places.pins)
    for spec, memory in memories(places, specs):
        offered = next(iter(memory.catalogs.values()), None)
        if offered:
            withheld = pins.withheld(spec.name, offered) if spec.pin else frozenset()
            offered = offered.without_tools(withheld.union(spec.blocked_tools))
        yield spec.name, offered

"""Tools of servers: those of the running daemon; while none runs, those of the last run, read from disk."""

import json
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any

from hearth import config
from hearth.clients import guarding
from hearth.config import ServerSpec
from hearth.control_client import running_daemon
from hearth.errors import ConfigError
from hearth.mcp import tool_index
from hearth.mcp.catalog import TOOLS, ServerCatalog
from hearth.paths import Places
from hearth.upstreams.catalog_cache import NOTHING, CachedCatalog, CatalogCache
from hearth.upstreams.pin_store import PinStore
from hearth.upstreams.traits import TraitStore

# Log records of these modules are for the daemon's log; here they would appear between a command's own lines.
logging.getLogger("hearth").addHandler(logging.NullHandler())

# A server without a running instance, as in the status document.
_IDLE: dict[str, Any] = {
    "era": None, "pids": [], "tools": None, "error": None, "restarts": None, "calls": None, "errors": None,
    "p50Ms": None, "p95Ms": None, "memoryBytes": None, "instances": [],
}  # fmt: skip


def current(places: Places, query: str, server: str | None, limit: int) -> dict[str, Any]:
    """Return the tools that a running daemon lists, else the cached ones. Raises HearthError."""
    daemon = running_daemon.find(places)
    if daemon is None:
        return document(places, query, server, limit)
    with daemon.control() as control:
        return control.tools(query, server, limit)


def document(places: Places, query: str, server: str | None, limit: int) -> dict[str, Any]:
    """Return the answer that a newly started daemon would give. Raises ConfigError and SearchUnavailable."""
    specs = [spec for spec in config.load(places).servers.values() if not spec.disabled]
    found: dict[str, Any] = json.loads(tool_index.document(offerings(places, specs), query, server, limit))
    return found


def memories(places: Places, specs: Iterable[config.ServerSpec]) -> Iterator[tuple[config.ServerSpec, CachedCatalog]]:
    """Yield each server with its cached catalog from earlier daemons."""
    kept = CatalogCache(places.catalogue, TraitStore(places.learned).fingerprints, os.environ)
    for spec in specs:
        yield spec, kept.recall(spec)


def offerings(places: Places, specs: Iterable[config.ServerSpec]) -> Iterator[tuple[str, ServerCatalog | None]]:
    """Yield the last catalog of each server, without withheld tools; None if none is cached."""
    pins = PinStore(places.pins)
    for spec, memory in memories(places, specs):
        offered = next(iter(memory.catalogs.values()), None)
        if offered:
            withheld = pins.withheld(spec.name, offered) if spec.pin else frozenset()
            offered = offered.without_tools(withheld.union(spec.blocked_tools))
        yield spec.name, offered


# --- states of servers


def server_states(places: Places, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return `upstreams` of the status document, and each configured server that the daemon does not serve."""
    told: list[dict[str, Any]] = list(document.get("upstreams") or [])
    known = {each.get("name") for each in told}
    try:
        found = config.examine(places).config
        # A disabled pack is not a missing server.
        configured = {**found.servers, **{name: spec for name, spec in found.packs.items() if not spec.disabled}}
    except ConfigError:
        configured = {}
    running = bool(document.get("running")) and not document.get("degraded")
    missing = [spec for name, spec in configured.items() if name not in known]
    if running:
        # A server that is in the file and not yet loaded is left out: the daemon's own status counts.
        return told + [_stopped(spec, NOTHING) for spec in missing if spec.disabled]
    return told + [_stopped(spec, memory) for spec, memory in memories(places, missing)]


def complete_status(places: Places, document: dict[str, Any]) -> dict[str, Any]:
    """Return the status document with what the daemon does not tell.

    While one runs: which sessions are unguarded. Else the cached state of servers, and the config's problems.
    """
    if document.get("running"):
        return guarding.with_guards(document)
    problems = config.examine(places).problems
    error = str(ConfigError(problems)) if problems else None
    return {**document, "configError": error, "upstreams": server_states(places, document)}


def _stopped(spec: ServerSpec, memory: CachedCatalog) -> dict[str, Any]:
    found = {**_IDLE, "name": spec.name, "state": "stopped", "isolation": spec.isolation}
    if catalog := next(iter(memory.catalogs.values()), None):
        found |= {"era": catalog.era, "tools": len(catalog.lists[TOOLS])}
    if spec.disabled:
        return found | {"state": "disabled"}
    return found | ({"state": "failed", "error": memory.failure} if memory.failure else {})

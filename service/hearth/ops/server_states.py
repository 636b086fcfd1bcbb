"""The MCP servers with their states: by the daemon's word or, while none runs, by the config and what daemons noted."""

from typing import Any

from hearth import config
from hearth.config import ServerSpec
from hearth.errors import ConfigError
from hearth.mcp.catalog import TOOLS
from hearth.ops import tool_catalog
from hearth.paths import Places
from hearth.upstreams.catalog_cache import NOTHING, CachedCatalog

# A server that nothing runs of, as the status document would have it.
_IDLE: dict[str, Any] = {
    "era": None, "pids": [], "tools": None, "error": None, "restarts": None, "calls": None, "errors": None,
    "p50Ms": None, "p95Ms": None, "memoryBytes": None, "instances": [],
}  # fmt: skip


def described(places: Places, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return `upstreams` of the status document, and with it each configured server that the daemon does not serve."""
    told: list[dict[str, Any]] = list(document.get("upstreams") or [])
    known = {each.get("name") for each in told}
    try:
        found = config.examine(places).config
        # A pack that is off is no server that was left out.
        configured = {**found.servers, **{name: spec for name, spec in found.packs.items() if not spec.disabled}}
    except ConfigError:
        configured = {}
    running = bool(document.get("running")) and not document.get("degraded")
    missing = [spec for name, spec in configured.items() if name not in known]
    if running:
        # One that is in the file and not taken up yet is left out: the daemon's own word counts.
        return told + [_stopped(spec, NOTHING) for spec in missing if spec.disabled]
    return told + [_stopped(spec, memory) for spec, memory in tool_catalog.memories(places, missing)]


def complete(places: Places, document: dict[str, Any]) -> dict[str, Any]:
    """Return the status document; while no daemon runs, with what is known of the servers and wrong in the config."""
    if document.get("running"):
        return document
    problems = config.examine(places).problems
    error = str(ConfigError(problems)) if problems else None
    return {**document, "configError": error, "upstreams": described(places, document)}


def _stopped(spec: ServerSpec, memory: CachedCatalog) -> dict[str, Any]:
    found = {**_IDLE, "name": spec.name, "state": "stopped", "isolation": spec.isolation}
    if offering := next(iter(memory.catalogs.values()), None):
        found |= {"era": offering.era, "tools": len(offering.lists[TOOLS])}
    if spec.disabled:
        return found | {"state": "disabled"}
    return found | ({"state": "failed", "error": memory.failure} if memory.failure else {})

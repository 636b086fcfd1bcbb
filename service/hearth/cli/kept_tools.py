"""The tools that servers offered when they last ran, read from what is kept on disk while no daemon runs."""

import json
import os
from typing import Any

from hearth import config
from hearth.mcp import tool_listing
from hearth.paths import Places
from hearth.upstreams.kept import Kept
from hearth.upstreams.learned import Learned


def document(places: Places, query: str, server: str | None, limit: int) -> dict[str, Any]:
    """What a daemon would answer that has just been started. Raises ConfigError and SearchUnavailable."""
    kept = Kept(places.catalogue, Learned(places.learned).fingerprints, os.environ)
    specs = [spec for spec in config.load(places).servers.values() if not spec.disabled]
    memories = ((spec.name, kept.recall(spec)) for spec in specs)
    offerings = ((name, next(iter(memory.offerings.values()), None)) for name, memory in memories)
    found: dict[str, Any] = json.loads(tool_listing.document(offerings, query, server, limit))
    return found

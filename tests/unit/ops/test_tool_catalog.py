"""The MCP servers with their states while no daemon runs."""

from pathlib import Path

import pytest

from hearth import config
from hearth.ops import tool_catalog
from hearth.paths import Places
from hearth.upstreams.catalog_cache import CachedCatalog, CatalogCache
from hearth.upstreams.traits import TraitStore


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "config.toml"
    path.write_text(
        '[mcpServers.a]\ncommand = "a"\n[mcpServers.b]\ncommand = "b"\n'
        '[mcpServers.c]\nurl = "http://c"\ndisabled = true\n'
    )
    return Places(config=str(path))


def note_failure(places: Places, name: str) -> None:
    kept = CatalogCache(places.catalogue, TraitStore(places.learned).fingerprints)
    kept.note(config.load(places).servers[name], CachedCatalog({}, failed_at=1.0, failure="exit code 1"))


def test_a_failure_that_a_daemon_noted_is_told_without_one(places: Places) -> None:
    note_failure(places, "a")
    note_failure(places, "c")
    found = tool_catalog.complete_status(places, {"running": False})["upstreams"]
    assert [(each["name"], each["state"], each["error"]) for each in found] == [
        ("a", "failed", "exit code 1"),
        ("b", "stopped", None),
        ("c", "disabled", None),
    ]


def test_a_running_daemon_has_the_word(places: Places) -> None:
    note_failure(places, "b")
    found = tool_catalog.server_states(places, {"running": True, "upstreams": [{"name": "a", "state": "ready"}]})
    assert [(each["name"], each["state"]) for each in found] == [("a", "ready"), ("c", "disabled")]

"""What is known of a server's offerings, and when it is written down."""

from pathlib import Path

import pytest

from hearth.config import ServerSpec
from hearth.mcp import versions
from hearth.mcp.catalog import TOOLS
from hearth.upstreams import server_catalogs as module
from hearth.upstreams.catalog_cache import CachedCatalog, CatalogCache
from hearth.upstreams.fingerprints import Fingerprints
from hearth.upstreams.server_catalogs import ServerCatalogs
from unit.hub.stage import item, offering

SPEC = ServerSpec(name="s", command="run")


class Counting(CatalogCache):
    """Counts what is written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "kept"), Fingerprints(str(folder / "key")), {})
        self.notes = 0

    def note(self, spec: ServerSpec, memory: CachedCatalog) -> None:
        self.notes += 1
        super().note(spec, memory)


@pytest.fixture
def kept(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


def test_only_what_is_new_is_written(kept: Counting) -> None:
    found = ServerCatalogs(SPEC, kept)
    found.take(b"{}", offering("s", tools=["a"]))
    found.take(b"{}", offering("s", tools=["a"]))
    assert kept.notes == 1
    # The same object, as an instance that read its lists again has it.
    changed = offering("s", tools=["a", "b"])
    found.take(b"{}", changed)
    changed.take(TOOLS, [item(TOOLS, "s", "c")])
    found.take(b"{}", changed)
    assert kept.notes == 3
    ServerCatalogs(SPEC, kept).take(b"{}", changed)
    assert kept.notes == 3


def test_the_next_daemon_begins_with_it(kept: Counting) -> None:
    ServerCatalogs(SPEC, kept).take(b"{}", offering("s", tools=["a"]))
    found = ServerCatalogs(SPEC, kept)
    assert found.any is not None
    assert list(found.any.lists[TOOLS]) == ["a"]
    assert found.recall(b"{}", versions.LEGACY) is found.any
    assert found.recall(b"{}", versions.MODERN) is None
    assert found.recall(b'{"roots":{}}', versions.LEGACY) is None


def test_a_straggler_and_a_failure_are_remembered_until_it_has_come(kept: Counting) -> None:
    found = ServerCatalogs(SPEC, kept)
    assert not found.is_late
    found.mark_late()
    found.mark_late()
    assert (found.is_late, found.has_failed, kept.notes) == (True, False, 1)
    found.failed("exit code 1")
    after = ServerCatalogs(SPEC, kept)
    assert (after.is_late, after.has_failed) == (True, True)
    after.take(b"{}", offering("s", tools=["a"]))
    after.failed("exit code 1")
    after.mark_late()
    last = ServerCatalogs(SPEC, kept)
    assert (last.is_late, last.has_failed, after.is_late) == (False, False, False)


def test_of_many_kinds_of_clients_the_latest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OFFERINGS_LIMIT", 2)
    found = ServerCatalogs(SPEC, None)
    for profile in (b"1", b"2", b"1", b"3"):
        found.take(profile, offering("s", tools=["a"]))
    assert list(found.known) == [b"1", b"3"]

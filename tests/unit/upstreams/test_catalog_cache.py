"""The kept catalogue: what is read is what was written, or nothing.

What is known of a server's offerings, and when it is written down.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hearth.config import ServerSpec
from hearth.mcp import versions
from hearth.mcp.catalog import PROMPTS, RESOURCES, TOOLS
from hearth.upstreams import catalog_cache as module
from hearth.upstreams.catalog_cache import NOTHING, CachedCatalog, CatalogCache, ServerCatalogs
from hearth.upstreams.traits import Fingerprints
from unit.hub.stage import item, offering

SPEC = ServerSpec(name="s", command="run", env={"TOKEN": "${TOKEN}"})
OFFERED = offering("s", tools=["b", {"name": "a", "description": "ä ☃"}], resources=["x://1"], instructions="Be kind.")


def catalogue(folder: Path, environ: Mapping[str, str] | None = None) -> CatalogCache:
    fingerprints = Fingerprints(str(folder / "learned" / "mcp.key"))
    return CatalogCache(str(folder / "catalogue" / "mcp"), fingerprints, environ or {"TOKEN": "one"})


def files(folder: Path) -> list[Path]:
    return sorted((folder / "catalogue" / "mcp").iterdir())


def test_nothing_is_known_of_what_was_never_kept(tmp_path: Path) -> None:
    assert catalogue(tmp_path).recall(SPEC) == NOTHING
    assert not (tmp_path / "catalogue").exists()


def test_another_daemon_knows_what_was_kept(tmp_path: Path) -> None:
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": OFFERED}))
    found = catalogue(tmp_path).recall(SPEC)
    assert list(found.catalogs) == [b"{}"]
    known = found.catalogs[b"{}"]
    assert (known.era, known.version, known.instructions) == (OFFERED.era, OFFERED.version, "Be kind.")
    assert known.key == OFFERED.key
    assert list(known.lists[TOOLS]) == ["a", "b"]
    assert known.lists[TOOLS]["a"].definition == OFFERED.lists[TOOLS]["a"].definition
    assert (list(known.lists[RESOURCES]), list(known.lists[PROMPTS])) == (["x://1"], [])


def test_each_kind_of_client_has_its_own_and_the_latest_stay(tmp_path: Path) -> None:
    many = {
        b'{"n":%d}' % number: offering("s", tools=[f"t{number}"]) for number in range(module.CACHED_CATALOGS_LIMIT + 3)
    }
    catalogue(tmp_path).note(SPEC, CachedCatalog(many))
    found = catalogue(tmp_path).recall(SPEC)
    assert list(found.catalogs) == list(many)[3:]
    assert list(found.catalogs[b'{"n":7}'].lists[TOOLS]) == ["t7"]


@pytest.mark.parametrize(
    "other",
    [
        SPEC.replace(name="t"),
        SPEC.replace(args=("--all",)),
        SPEC.replace(era="legacy"),
        SPEC.replace(env={"TOKEN": "two"}),
    ],
)
def test_another_entry_is_another_server(tmp_path: Path, other: ServerSpec) -> None:
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": OFFERED}))
    assert catalogue(tmp_path).recall(other) == NOTHING


def test_with_another_token_it_may_offer_other_things(tmp_path: Path) -> None:
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": OFFERED}))
    assert catalogue(tmp_path, {"TOKEN": "two"}).recall(SPEC) == NOTHING
    assert catalogue(tmp_path, {"TOKEN": "one", "OTHER": "x"}).recall(SPEC) != NOTHING


def test_a_file_that_a_reference_names_counts_by_its_content(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    spec = ServerSpec(name="s", url="http://127.0.0.1:1/mcp", headers={"Authorization": f"Bearer ${{file:{secret}}}"})
    secret.write_text("one")
    catalogue(tmp_path).note(spec, CachedCatalog({b"{}": OFFERED}))
    secret.write_text("two")
    assert catalogue(tmp_path).recall(spec) == NOTHING
    secret.write_text("one")
    assert catalogue(tmp_path).recall(spec) != NOTHING
    secret.unlink()
    assert catalogue(tmp_path).recall(spec) == NOTHING


def test_nothing_in_a_name_or_a_file_tells_an_argument_or_a_secret(tmp_path: Path) -> None:
    spec = SPEC.replace(args=("--key=hunter2",))
    catalogue(tmp_path, {"TOKEN": "swordfish"}).note(spec, CachedCatalog({b"{}": OFFERED}))
    (file,) = files(tmp_path)
    for secret in ("hunter2", "swordfish"):
        assert secret not in file.name
        assert secret.encode() not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_without_the_key_nothing_is_found_again(tmp_path: Path) -> None:
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": OFFERED}))
    (tmp_path / "learned" / "mcp.key").unlink()
    assert catalogue(tmp_path).recall(SPEC) == NOTHING


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"hearth-catalogue 1 ", b"hearth-catalogue 0 "),
        lambda data: data.replace("☃".encode(), b"\xff\xfe\xfd"),
        lambda data: data + b" ",
        lambda data: b"\x00" * len(data),
        lambda data: data.partition(b"\n")[2],
    ],
)
def test_what_is_not_what_was_written_is_thrown_away(
    tmp_path: Path, spoil: object, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": OFFERED}))
    (file,) = files(tmp_path)
    file.write_bytes(spoil(file.read_bytes()))  # type: ignore[operator]
    assert catalogue(tmp_path).recall(SPEC) == NOTHING
    assert files(tmp_path) == []
    assert "cached catalog removed" in caplog.text


def test_a_file_of_which_the_hash_is_right_and_the_content_is_not_is_thrown_away(tmp_path: Path) -> None:
    place = catalogue(tmp_path)
    place.note(SPEC, CachedCatalog({b"{}": OFFERED}))
    (file,) = files(tmp_path)
    for body in (b"[]", b"{}", b'{"offerings":[{"clients":"{}","offering":{"era":"legacy"}}]}'):
        file.write_bytes(place._sealed(body))
        assert catalogue(tmp_path).recall(SPEC) == NOTHING


def test_a_failure_is_remembered_for_a_while(tmp_path: Path) -> None:
    now = time.time()
    catalogue(tmp_path).note(SPEC, CachedCatalog({}, failed_at=now))
    found = catalogue(tmp_path).recall(SPEC)
    assert (found.is_late, found.has_failed) == (True, True)
    old = CachedCatalog({}, failed_at=now - module.FAILURE_SECONDS - 1)
    assert (old.is_late, old.has_failed) == (True, False)
    # A clock that was set back does not make it last for ever.
    assert not CachedCatalog({}, failed_at=now + 3600).has_failed
    late = CachedCatalog({}, late_at=now)
    assert (late.is_late, late.has_failed) == (True, False)


def test_of_very_many_the_ones_that_nobody_asked_for_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILES_LIMIT", 3)
    specs = [SPEC.replace(name=f"s{number}") for number in range(4)]
    for number, spec in enumerate(specs[:3]):
        catalogue(tmp_path).note(spec, CachedCatalog({b"{}": OFFERED}))
        os.utime(max(files(tmp_path), key=lambda file: file.stat().st_mtime), (1000 + number, 1000 + number))
    assert catalogue(tmp_path).recall(specs[0]) != NOTHING
    catalogue(tmp_path).note(specs[3], CachedCatalog({b"{}": OFFERED}))
    assert [catalogue(tmp_path).recall(spec) != NOTHING for spec in specs] == [True, False, True, True]


def test_what_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "catalogue").write_text("a file is in the way")
    place = catalogue(tmp_path)
    for _ in range(3):
        place.note(SPEC, CachedCatalog({b"{}": OFFERED}))
    assert len(caplog.records) == 1
    assert place.recall(SPEC) == NOTHING


def test_what_is_too_long_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_LIMIT_BYTES", 1000)
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": offering("s", tools=["x" * 2000])}))
    assert catalogue(tmp_path).recall(SPEC) == NOTHING


def test_an_offering_of_the_modern_era_stays_one(tmp_path: Path) -> None:
    offered = offering("s", era=versions.MODERN, declared=b"{}", tools=["a"])
    catalogue(tmp_path).note(SPEC, CachedCatalog({b"{}": offered}))
    known = catalogue(tmp_path).recall(SPEC).catalogs[b"{}"]
    assert (known.era, known.capabilities, known.key) == (versions.MODERN, {}, offered.key)


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
    monkeypatch.setattr(module, "KNOWN_CATALOGS_LIMIT", 2)
    found = ServerCatalogs(SPEC, None)
    for profile in (b"1", b"2", b"1", b"3"):
        found.take(profile, offering("s", tools=["a"]))
    assert list(found.known) == [b"1", b"3"]

"""What is remembered of servers, and what may become of the file."""

import json
import os
import stat
from pathlib import Path

import pytest

from hearth.config import ServerSpec
from hearth.host.locks import Lock
from hearth.upstreams import traits
from hearth.upstreams.traits import NOTHING, ServerTraits, TraitStore

SECRET = "hunter2"
SPEC = ServerSpec(name="a", command="npx", args=("-y", "name"), env={"TOKEN": SECRET})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state/hearth/learned/mcp.json"


@pytest.fixture
def known(path: Path) -> TraitStore:
    return TraitStore(str(path))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_of_an_unknown_server_nothing_is_known_and_nothing_is_written(path: Path) -> None:
    assert TraitStore(str(path)).get(SPEC) == NOTHING == ServerTraits(mode="shared", eras=frozenset(), only=None)
    assert not path.parent.exists()


def test_what_was_learned_is_known_to_the_next_daemon(known: TraitStore, path: Path) -> None:
    known.raise_mode(SPEC, "workspace")
    known.note_era(SPEC, "modern", "legacy")
    second = TraitStore(str(path)).get(SPEC)
    assert (second.mode, {*second.eras}, second.only) == ("workspace", {"legacy"}, "legacy")


def test_a_mode_is_never_lowered(known: TraitStore, path: Path) -> None:
    known.raise_mode(SPEC, "session")
    known.raise_mode(SPEC, "workspace")
    assert known.get(SPEC).mode == TraitStore(str(path)).get(SPEC).mode == "session"


@pytest.mark.parametrize(
    "change",
    [
        {"command": "bunx"},
        {"args": ("-yname",)},
        {"args": ("-y", "name", "")},
        {"env": {"TOKEN": "other"}},
        {"env": {"OTHER": SECRET}},
        {"cwd": "/x"},
        {"command": None, "url": "http://x"},
        {"headers": {"A": "b"}},
        {"transport": "sse"},
    ],
)
def test_a_changed_entry_starts_anew(known: TraitStore, change: dict[str, object]) -> None:
    known.raise_mode(SPEC, "session")
    assert known.get(SPEC.replace(**change)) == NOTHING


def test_what_does_not_make_another_server_keeps_what_is_known(known: TraitStore) -> None:
    known.raise_mode(SPEC.replace(env={"A": "1", "B": "2"}), "session")
    same = SPEC.replace(name="b", env={"B": "2", "A": "1"}, start_timeout=3.0, isolation="shared", disabled=True)
    assert known.get(same).mode == "session"


def test_the_files_are_private_and_tell_no_secret(path: Path) -> None:
    TraitStore(str(path)).raise_mode(SPEC, "session")
    assert {entry.name for entry in path.parent.iterdir()} == {"mcp.json", "mcp.key", "mcp.lock"}
    for entry in path.parent.iterdir():
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not any(word in path.read_text() for word in (SECRET, "TOKEN", "npx", "name"))


def test_the_fingerprint_depends_on_the_key(path: Path) -> None:
    other = path.with_name("other.json")
    for file in (path, other):
        TraitStore(str(file)).raise_mode(SPEC, "session")
    one, two = (json.loads(file.read_text())["servers"] for file in (path, other))
    assert [*one.values()] == [*two.values()]
    assert [*one] != [*two]


@pytest.mark.parametrize(
    ("notes", "eras", "only"),
    [
        ([("auto", "legacy")], {"legacy"}, None),
        ([("legacy", "legacy")], {"legacy"}, None),
        ([("legacy", "legacy"), ("modern", "modern")], {"legacy", "modern"}, None),
        ([("modern", "legacy")], {"legacy"}, "legacy"),
        ([("modern", "legacy"), ("legacy", "legacy")], {"legacy"}, "legacy"),
        ([("modern", "legacy"), ("auto", "legacy")], {"legacy"}, "legacy"),
        ([("modern", "legacy"), ("modern", "modern")], {"legacy", "modern"}, None),
        ([("legacy", "legacy"), ("modern", "modern"), ("legacy", "modern")], {"modern"}, "modern"),
    ],
)
def test_the_eras_that_a_server_speaks_are_remembered(
    known: TraitStore, path: Path, notes: list[tuple[str, str]], eras: set[str], only: str | None
) -> None:
    for wanted, found in notes:
        known.note_era(SPEC, wanted, found)
    for reader in (known, TraitStore(str(path))):
        assert ({*reader.get(SPEC).eras}, reader.get(SPEC).only) == (eras, only)


def test_the_one_era_of_a_server_is_asked_again_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = TraitStore(str(path))
    known.note_era(SPEC, "modern", "legacy")
    monkeypatch.setattr(traits, "ONLY_SECONDS", -1)
    assert (known.get(SPEC).only, {*known.get(SPEC).eras}) == (None, {"legacy"})


def test_nothing_is_read_or_written_without_news(known: TraitStore, path: Path) -> None:
    known.raise_mode(SPEC, "session")
    known.note_era(SPEC, "legacy", "legacy")
    path.unlink()
    known.raise_mode(SPEC, "workspace")
    known.note_era(SPEC, "legacy", "legacy")
    assert known.get(SPEC).mode == "session"
    assert not path.exists()


def test_those_that_were_asked_for_last_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traits, "ENTRIES_LIMIT", 3)
    specs = [ServerSpec(name="a", command=str(number)) for number in range(5)]
    known = TraitStore(str(path))
    for number, spec in enumerate(specs):
        known.raise_mode(spec, "session")
        if number < 4:
            known.get(specs[0])
    for reader in (known, TraitStore(str(path))):
        assert [reader.get(spec) != NOTHING for spec in specs] == [True, False, False, True, True]


def entry(**changes: object) -> dict[str, object]:
    return {"mode": "session", "eras": ["legacy"], "only": None, **changes}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2, "servers": {}}',
        '{"version": 1, "servers": []}',
        "[" * 100_000,
        '{"version": 1, "servers": {"x": %s}}' % ("9" * 5000),
        "\ud800",
        "x" * (traits.SIZE_LIMIT_BYTES + 1),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_a_file_that_cannot_be_understood_is_begun_anew(
    path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    TraitStore(str(path)).raise_mode(SPEC, "session")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    known = TraitStore(str(path))
    assert known.get(SPEC) == NOTHING
    assert len(warnings(caplog)) == (1 if text else 0)
    known.raise_mode(SPEC, "workspace")
    assert TraitStore(str(path)).get(SPEC).mode == "workspace"


@pytest.mark.parametrize(
    "bad",
    [
        3,
        entry(mode="private"),
        entry(mode=[]),
        entry(eras="legacy"),
        entry(eras=[{}]),
        entry(only="both"),
        entry(only="legacy", onlySince="now"),
        entry(only="legacy", onlySince=10**400),
        entry(only="legacy", onlySince=float("nan")),
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_understood_costs_no_other(path: Path, bad: object) -> None:
    TraitStore(str(path)).raise_mode(SPEC, "session")
    tree = json.loads(path.read_text())
    other = SPEC.replace(command="other")
    TraitStore(str(path)).raise_mode(other, "workspace")
    ((fingerprint, _),) = tree["servers"].items()
    path.write_text(
        json.dumps({"version": 1, "servers": {**json.loads(path.read_text())["servers"], fingerprint: bad}})
    )
    third = TraitStore(str(path))
    assert third.get(SPEC) == NOTHING
    assert third.get(other).mode == "workspace"


def test_without_its_key_a_file_means_nothing(path: Path) -> None:
    for content in (None, b"", b"short", os.urandom(32)):
        TraitStore(str(path)).raise_mode(SPEC, "session")
        key = path.with_suffix(".key")
        key.unlink()
        if content is not None:
            key.write_bytes(content)
        assert TraitStore(str(path)).get(SPEC) == NOTHING


def test_a_folder_that_cannot_be_made_is_told_once_and_learning_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file where a folder should be")
    known = TraitStore(str(tmp_path / "state/learned/mcp.json"))
    known.raise_mode(SPEC, "workspace")
    known.raise_mode(SPEC, "session")
    assert known.get(SPEC).mode == "session"
    (warning,) = warnings(caplog)
    assert "server traits cannot be" in warning


def test_a_disk_that_is_full_leaves_the_former_file_and_no_other(
    known: TraitStore, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.raise_mode(SPEC, "workspace")

    def full(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    known.raise_mode(SPEC, "session")
    known.note_era(SPEC, "legacy", "legacy")
    assert (known.get(SPEC).mode, TraitStore(str(path)).get(SPEC).mode) == ("session", "workspace")
    assert {entry.name for entry in path.parent.iterdir()} == {"mcp.json", "mcp.key", "mcp.lock"}
    assert [warning.rpartition("reason=")[2] for warning in warnings(caplog)] == ["No space left on device"]


@pytest.mark.skipif(os.name == "nt", reason="named pipes are files on POSIX only")
def test_a_named_pipe_in_place_of_the_file_holds_nobody(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path.with_suffix(".key"))
    assert TraitStore(str(path)).get(SPEC) == NOTHING
    assert len(warnings(caplog)) == 1


def test_the_mode_in_force_is_the_entrys_or_what_auto_comes_to(known: TraitStore) -> None:
    assert known.mode(SPEC) == "shared"
    assert known.mode(SPEC, project_scope=True) == "workspace"
    assert known.mode(SPEC.replace(args=("@playwright/mcp",))) == "session"
    known.raise_mode(SPEC, "session")
    assert known.mode(SPEC) == "session"
    assert known.mode(SPEC.replace(isolation="shared")) == "shared"


def test_two_processes_of_a_profile_lose_nothing_of_each_other(path: Path) -> None:
    other = ServerSpec(name="b", command="uvx")
    one, two = TraitStore(str(path)), TraitStore(str(path))
    assert one.get(SPEC) == two.get(SPEC) == NOTHING
    # Each has read the file, and the key, before the other wrote.
    one.raise_mode(SPEC, "workspace")
    two.raise_mode(other, "session")
    one.note_era(SPEC, "auto", "modern")
    two.raise_mode(SPEC, "session")
    after = TraitStore(str(path))
    assert (after.get(SPEC).mode, after.get(other).mode) == ("session", "session")
    assert one.fingerprints.of(SPEC) == two.fingerprints.of(SPEC) == after.fingerprints.of(SPEC)


def test_what_could_not_be_written_while_another_wrote_is_written_with_the_next(path: Path) -> None:
    other = ServerSpec(name="b", command="uvx")
    known = TraitStore(str(path))
    known.raise_mode(other, "workspace")
    lock = Lock(str(path.with_suffix(".lock")))
    assert lock.acquire(blocking=False)
    known.raise_mode(SPEC, "session")
    assert TraitStore(str(path)).get(SPEC) == NOTHING
    lock.release()
    known.raise_mode(other, "session")
    assert TraitStore(str(path)).get(SPEC).mode == TraitStore(str(path)).get(other).mode == "session"


def test_that_a_server_needs_a_process_for_each_era_is_remembered(path: Path) -> None:
    spec = ServerSpec(name="s", command="true")
    learned = TraitStore(str(path))
    assert not learned.get(spec).apart
    learned.note_apart(spec)
    learned.note_era(spec, "modern", "modern")
    assert TraitStore(str(path)).get(spec).apart
    assert TraitStore(str(path)).get(spec).eras == {"modern"}

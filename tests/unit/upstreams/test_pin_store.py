"""What is known of tools, kept in files: between daemons, beside the command line, and when a file is not right."""

import json
import os
import stat
from pathlib import Path

import pytest

from hearth.config import ServerSpec
from hearth.mcp.catalog import ServerCatalog
from hearth.upstreams.catalog_cache import ServerCatalogs
from hearth.upstreams.pin_store import PinStore, ToolPinning
from unit.hub.stage import offering

LEGACY, MODERN = "legacy 1", "modern 1"


def offers(**tools: str) -> ServerCatalog:
    return offering(tools=[{"name": name, "description": text} for name, text in tools.items()])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pins" / "mcp"


@pytest.fixture
def pins(folder: Path) -> PinStore:
    return PinStore(str(folder))


def test_the_first_list_is_trusted_and_remembered_by_the_next_daemon(pins: PinStore, folder: Path) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    assert pins.withheld("s", offers(a="one")) == set()
    later = PinStore(str(folder))
    assert later.withheld("s", offers(a="one", b="new")) == {"b"}
    assert later.withheld("s", offers(a="other")) == {"a"}
    (file,) = folder.glob("*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_server_that_was_never_seen_has_nothing_withheld(pins: PinStore) -> None:
    assert pins.withheld("s", offers(a="one")) == set()
    assert pins.changes("s") == []
    assert pins.problem("s") is None


def test_of_a_pinned_server_another_kind_of_client_gets_what_is_known_only(pins: PinStore) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    more = offers(a="one", b="two")
    pins.see("s", MODERN, more, is_pinned=True)
    assert pins.withheld("s", more) == {"b"}
    assert [(change.tool, change.kind) for change in pins.changes("s")] == [("b", "new")]


@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_of_a_pinned_server_nothing_is_withheld_because_of_the_era_that_came_first(pins: PinStore, first: str) -> None:
    tool = {"name": "a", "description": "one", "inputSchema": {"type": "object"}}
    lists = {
        "legacy": offering(era="legacy", tools=[tool]),
        "modern": offering(era="modern", tools=[tool | {"outputSchema": {"type": "array"}}]),
    }
    vetting = ToolPinning("s", ServerCatalogs(ServerSpec(name="s", command="true"), None), pins)
    for era in (first, *(era for era in lists if era != first)):
        vetting.see(b"{}", lists[era], is_pinned=True)
        assert vetting.withheld(lists[era]) == set()
    assert pins.changes("s") == []


def test_of_any_other_the_first_list_to_each_kind_of_client_is_trusted(pins: PinStore) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=False)
    more = offers(a="one, in other words", b="two")
    pins.see("s", MODERN, more, is_pinned=False)
    assert pins.changes("s") == []
    pins.see("s", MODERN, offers(a="evil", b="two"), is_pinned=False)
    assert [(change.tool, change.kind) for change in pins.changes("s")] == [("a", "changed")]
    # Pinned from now on: what was trusted until then is what counts.
    assert pins.withheld("s", more) == set()
    assert pins.withheld("s", offers(a="evil", b="two")) == {"a"}


def test_what_the_command_line_approves_is_known_to_the_daemon(pins: PinStore, folder: Path) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    changed = offers(a="two")
    pins.see("s", LEGACY, changed, is_pinned=True)
    assert pins.withheld("s", changed) == {"a"}
    terminal = PinStore(str(folder))
    assert terminal.servers() == ["s"]
    terminal.approve("s", terminal.changes("s"))
    assert pins.withheld("s", changed) == set()
    assert pins.changes("s") == []


def test_a_file_is_not_written_when_there_is_nothing_new(pins: PinStore, folder: Path) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=False)
    (file,) = folder.glob("*.json")
    before = file.stat().st_ino, file.stat().st_mtime_ns
    pins.see("s", LEGACY, offers(a="one"), is_pinned=False)
    PinStore(str(folder)).see("s", LEGACY, offers(a="one"), is_pinned=False)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before


GARBAGE = [
    b"",
    b"{",
    b"[]",
    b'{"version":1}',
    b'{"version":2,"server":"s","known":{},"unapproved":{},"listed":{}}',
    b'{"version":1,"server":"s","known":[],"unapproved":{},"listed":{}}',
    b'{"version":1,"server":"s","known":{"a":[1]},"unapproved":{},"listed":{}}',
    b'{"version":1,"server":"s","known":{},"unapproved":{"v":["a"]},"listed":{}}',
    b'{"version":1,"server":"s","known":{},"unapproved":{},"listed":{"v":"a"}}',
    b"[" * 100_000,
    b"\xff\xfe",
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_of_a_pinned_server_whose_file_makes_no_sense_everything_is_withheld_until_it_is_approved(
    pins: PinStore, folder: Path, garbage: bytes
) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    (file,) = folder.glob("*.json")
    file.write_bytes(garbage)
    found = offers(a="one", b="two")
    later = PinStore(str(folder))
    assert later.withheld("s", found) == {"a", "b"}
    assert str(file) in (later.problem("s") or "")
    later.see("s", LEGACY, found, is_pinned=True)
    assert later.problem("s") is None
    assert later.withheld("s", found) == {"a", "b"}
    later.approve("s", later.changes("s"))
    assert later.withheld("s", found) == set()


@pytest.mark.parametrize("garbage", GARBAGE)
def test_of_any_other_such_a_file_is_begun_anew(pins: PinStore, folder: Path, garbage: bytes) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=False)
    (file,) = folder.glob("*.json")
    file.write_bytes(garbage)
    later = PinStore(str(folder))
    later.see("s", LEGACY, offers(a="two"), is_pinned=False)
    assert later.problem("s") is None
    assert later.changes("s") == []
    assert json.loads(file.read_bytes())["known"]["a"]


def test_a_file_that_cannot_be_read_is_left_as_it_is_and_withholds_everything(pins: PinStore, folder: Path) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    (file,) = folder.glob("*.json")
    file.unlink()
    # For whoever runs the tests, root included, a folder is no file.
    file.mkdir()
    later = PinStore(str(folder))
    later.see("s", LEGACY, offers(a="one"), is_pinned=True)
    assert later.withheld("s", offers(a="one")) == {"a"}
    assert later.problem("s")
    assert file.is_dir()


def test_a_folder_that_cannot_be_written_costs_a_word_in_the_log_and_no_protection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    occupied = tmp_path / "occupied"
    occupied.write_text("a file")
    pins = PinStore(str(occupied / "mcp"))
    for text in ("one", "two"):
        pins.see("s", LEGACY, offers(a=text), is_pinned=True)
    assert pins.withheld("s", offers(a="one")) == set()
    assert pins.withheld("s", offers(a="two")) == {"a"}
    assert caplog.text.count("cannot be written") == 1


def test_what_is_seen_while_the_command_line_writes_is_not_lost_on_this_daemon(pins: PinStore, folder: Path) -> None:
    pins.see("s", LEGACY, offers(a="one"), is_pinned=True)
    terminal = PinStore(str(folder))
    assert terminal._lock.acquire()
    pins.see("s", LEGACY, offers(a="two"), is_pinned=True)
    assert [change.tool for change in pins.changes("s")] == ["a"]
    terminal._lock.release()
    pins.see("s", LEGACY, offers(a="three"), is_pinned=True)
    assert [change.tool for change in PinStore(str(folder)).changes("s")] == ["a"]


def test_servers_whose_names_are_alike_have_files_of_their_own(pins: PinStore, folder: Path) -> None:
    names = ["a", "A", "a/b", "a_b", "..", "lock", "x" * 300, "é"]
    for name in names:
        pins.see(name, LEGACY, offers(**{f"t{len(name)}": name}), is_pinned=True)
    assert sorted(PinStore(str(folder)).servers()) == sorted(names)
    assert len({path.name.lower() for path in folder.glob("*.json")}) == len(names)
    assert all(os.path.dirname(path) == str(folder) for path in folder.glob("**/*.json"))

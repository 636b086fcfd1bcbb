"""Clients connected and disconnected: their files come back as they were, whatever happens in between."""

import json
from pathlib import Path
from typing import Any

import pytest

from hearth.clients import bridge_entries, discovery, launcher
from hearth.errors import ConfigError, FileAccessError, Refused
from hearth.host import edited_files
from hearth.paths import Places
from unit.clients.connected_files import (
    GIT,
    ORIGINAL,
    TIME,
    TREE,
    connect,
    copies,
    disconnect,
    kept,
    only_copy,
    path_in,
    table,
    tree,
)  # fmt: skip


def test_an_entry_is_replaced_by_the_bridge_to_its_server(file: Path) -> None:
    outcome = connect(file, git="git-2")
    entry = {"command": launcher.own_path(), "args": ["--server", "git-2"], "timeout": 5}
    assert tree(file) == TREE | {"mcpServers": {"git": entry, "time": TIME}}
    assert [(change.name, change.former) for change in outcome.changes] == [("git", GIT)]
    assert [entry.bridge_to for entry in discovery.read(table(file))] == ["git-2", None]


def test_what_is_not_the_default_daemon_stands_in_the_arguments(file: Path) -> None:
    bridge_entries.connect(table(file), {"git": "git"}, False, Places("work"))
    assert tree(file)["mcpServers"]["git"]["args"] == ["--profile", "work", "--server", "git"]


def test_one_entry_is_added_for_all_servers(file: Path) -> None:
    connect(file, whole=True)
    assert list(tree(file)["mcpServers"]) == ["git", "time", "hearth"]
    assert tree(file)["mcpServers"]["hearth"] == {"command": launcher.own_path(), "args": []}


def test_disconnected_every_byte_is_as_it_was_and_nothing_is_kept(file: Path, state: Path) -> None:
    connect(file, git="git", time="time", whole=True)
    assert bridge_entries.connected() == [table(file)]
    assert disconnect(file).is_exact
    assert file.read_bytes() == ORIGINAL.encode()
    assert kept(state) == []
    assert bridge_entries.connected() == []


def test_the_original_is_kept_for_this_user_only(file: Path, state: Path) -> None:
    connect(file, git="git")
    folder = state / "state" / "hearth" / "clients"
    assert folder.stat().st_mode & 0o777 == 0o700
    (copy,) = folder.glob("*.original")
    assert copy.read_bytes() == ORIGINAL.encode()
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_connected_twice_changes_nothing_more(file: Path) -> None:
    connect(file, git="git", whole=True)
    once = file.read_bytes(), file.stat().st_ino
    outcome = connect(file, git="git", whole=True)
    assert (file.read_bytes(), file.stat().st_ino) == once
    assert outcome.changes == []
    assert outcome.notes == ["git: leads to Hearth already", "hearth: leads to Hearth already"]


def test_a_dry_run_changes_nothing(file: Path, state: Path) -> None:
    outcome = bridge_entries.connect(table(file), {"git": "git"}, False, Places(), dry_run=True)
    assert [change.name for change in outcome.changes] == ["git"]
    assert file.read_bytes() == ORIGINAL.encode()
    assert kept(state) == []


def test_entries_that_are_switched_off_or_somebody_s_bridges_are_left(file: Path) -> None:
    bridge = {"command": "hearth", "args": ["bridge"]}
    file.write_text(json.dumps({"mcpServers": {"a": GIT | {"disabled": True}, "b": bridge}}))
    former = file.read_bytes()
    outcome = connect(file, a="a", b="b")
    assert outcome.notes == [
        "a: is switched off in the client, and was left as it is",
        "b: leads to Hearth already, and was written by somebody else",
    ]
    assert file.read_bytes() == former


def test_another_server_called_hearth_is_not_replaced(file: Path) -> None:
    file.write_text(json.dumps({"mcpServers": {"hearth": GIT}}))
    with pytest.raises(ConfigError, match="rename it"):
        connect(file, whole=True)


def test_an_entry_that_is_not_there_cannot_be_replaced(file: Path) -> None:
    with pytest.raises(ConfigError, match="has no entry 'nope'"):
        connect(file, nope="nope")


def test_a_bridge_of_ours_is_written_anew_when_hearth_has_moved(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(file, git="git")
    # A path that no first line of a script can hold: the entry names the interpreter itself.
    monkeypatch.setattr("sys.executable", "/else where/bin/python")
    connect(file, git="git")
    assert tree(file)["mcpServers"]["git"]["command"] == "/else where/bin/python"
    assert tree(file)["mcpServers"]["git"]["args"][:2] == ["-I", "-S"]
    assert disconnect(file).is_exact
    assert file.read_bytes() == ORIGINAL.encode()


# --- files that are made, links, permissions


def test_a_file_that_was_not_there_is_made_and_removed_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "mcp.json"
    assert connect(file, whole=True).is_made
    assert file.stat().st_mode & 0o777 == 0o600
    assert disconnect(file).is_removed
    assert not file.exists()


def test_a_made_file_that_the_client_uses_too_stays_without_our_entry(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    connect(file, whole=True)
    file.write_text(json.dumps(tree(file) | {"theme": "dark"}))
    disconnect(file)
    assert tree(file) == {"theme": "dark"}


def test_a_made_file_that_the_client_only_wrote_anew_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    connect(file, whole=True)
    file.write_text(json.dumps(tree(file)))
    assert disconnect(file).is_removed
    assert not file.exists()


def test_a_link_stays_one_and_the_mode_stays(file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to("mcp.json")
    connect(link, git="git")
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    # By either name it is the same file.
    disconnect(file)
    assert file.read_bytes() == ORIGINAL.encode()
    assert link.is_symlink()


def test_a_link_that_the_client_has_replaced_by_a_file_is_disconnected_all_the_same(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("mcp.json")
    connect(link, git="git")
    content = link.read_bytes()
    link.unlink()
    link.write_bytes(content)
    assert disconnect(link).is_exact
    assert link.read_bytes() == ORIGINAL.encode()


def test_a_file_that_may_not_be_written_is_left_and_nothing_is_kept(
    file: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests may be run by a user whom no mode keeps from writing.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(FileAccessError, match="permission denied"):
        connect(file, git="git")
    assert file.read_bytes() == ORIGINAL.encode()
    assert kept(state) == []


# --- somebody else changes the file, too


def test_what_the_client_saves_in_the_last_moment_is_never_overwritten(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, saves = edited_files.replace, iter(["once"])

    def save_first(path: str, data: bytes, is_due: Any) -> bool:
        if next(saves, None):
            file.write_text(json.dumps(TREE | {"theme": "light"}))
        return replace(path, data, is_due)

    monkeypatch.setattr("hearth.host.edited_files.replace", save_first)
    connect(file, git="git")
    assert tree(file)["theme"] == "light"
    assert discovery.read(table(file))[0].bridge_to == "git"
    disconnect(file)
    assert tree(file) == TREE | {"theme": "light"}


def test_a_file_that_is_saved_all_the_time_is_left(file: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, count = edited_files.replace, iter(range(9))

    def save_first(path: str, data: bytes, is_due: Any) -> bool:
        file.write_text(json.dumps(TREE | {"theme": next(count)}))
        return replace(path, data, is_due)

    monkeypatch.setattr("hearth.host.edited_files.replace", save_first)
    with pytest.raises(Refused, match="somebody else"):
        connect(file, git="git")
    assert tree(file)["mcpServers"] == TREE["mcpServers"]
    assert kept(state) == []


def test_other_parts_that_the_client_has_changed_stay_changed(file: Path) -> None:
    connect(file, git="git", whole=True)
    file.write_text(file.read_text().replace('"dark"', '"light"'))
    outcome = disconnect(file)
    assert file.read_text() == ORIGINAL.replace('"dark"', '"light"')
    assert (outcome.is_exact, outcome.notes) == (False, [])


def test_a_file_that_the_client_has_written_anew_gets_its_entries_back(file: Path) -> None:
    connect(file, git="git", time="time", whole=True)
    file.write_text(json.dumps(tree(file) | {"more": [1]}, indent="\t"))
    disconnect(file)
    assert tree(file) == TREE | {"more": [1]}


def test_what_a_person_told_the_client_about_a_bridge_holds_for_the_server(file: Path) -> None:
    connect(file, git="git")
    changed = tree(file)
    changed["mcpServers"]["git"] |= {"disabled": True, "env": {}}
    file.write_text(json.dumps(changed))
    disconnect(file)
    assert tree(file)["mcpServers"] == {"git": GIT | {"disabled": True}, "time": TIME}


def test_an_entry_that_somebody_changed_is_left_and_said(file: Path, state: Path) -> None:
    connect(file, git="git", time="time")
    changed = tree(file)
    changed["mcpServers"]["git"] = {"command": "mine"}
    file.write_text(json.dumps(changed))
    (note,) = disconnect(file).notes
    assert note.startswith("git: somebody has changed it")
    assert tree(file)["mcpServers"] == {"git": {"command": "mine"}, "time": TIME}
    # The file as it was is named, and still there.
    assert json.loads(Path(note.rpartition(": ")[2]).read_text()) == TREE
    del changed["mcpServers"]["git"]
    file.write_text(json.dumps(changed))
    disconnect(file)
    assert only_copy(state) == ORIGINAL


def test_an_entry_that_somebody_removed_stays_away_and_the_file_as_it_was_is_named(file: Path, state: Path) -> None:
    connect(file, git="git", time="time")
    changed = tree(file)
    del changed["mcpServers"]["git"]
    file.write_text(json.dumps(changed))
    removed, kept_in = disconnect(file).notes
    assert removed == "git: somebody has removed it"
    assert tree(file)["mcpServers"] == {"time": TIME}
    assert only_copy(state, kept_in) == ORIGINAL
    assert bridge_entries.connected() == []


def test_an_added_entry_that_somebody_removed_leaves_nothing_behind(file: Path, state: Path) -> None:
    connect(file, whole=True)
    # Saved by the client as well, whose settings may be others by now.
    file.write_text(ORIGINAL.replace("dark", "light"))
    assert disconnect(file).notes == ["hearth: somebody has removed it"]
    assert kept(state) == []


def test_a_file_that_somebody_removed_stays_away_and_is_kept(file: Path, state: Path) -> None:
    connect(file, git="git")
    file.unlink()
    gone, kept_in = disconnect(file).notes
    assert "is gone" in gone
    assert not file.exists()
    assert only_copy(state, kept_in) == ORIGINAL


def test_a_made_file_that_somebody_removed_leaves_nothing_behind(tmp_path: Path, state: Path) -> None:
    file = tmp_path / "new.json"
    connect(file, whole=True)
    file.unlink()
    assert len(disconnect(file).notes) == 1
    assert kept(state) == []


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_was_reset_is_left_and_the_former_one_is_kept(file: Path, state: Path, whole: bool) -> None:
    connect(file, whole, **({} if whole else {"git": "git"}))
    file.write_text("{}")
    kept_in = disconnect(file).notes[-1]
    assert file.read_text() == "{}"
    assert only_copy(state, kept_in) == ORIGINAL


@pytest.mark.parametrize("reset", [None, "{}", '{"mcpServers": {"git": {"command": "mine"}}}'])
def test_connected_again_after_a_reset_the_former_file_is_kept(file: Path, state: Path, reset: str | None) -> None:
    connect(file, git="git")
    if reset is None:
        file.unlink()
    else:
        file.write_text(reset)
    kept_in = connect(file, whole=True).notes[-1]
    disconnect(file)
    assert (file.read_text() if file.exists() else None) == reset
    assert ORIGINAL in copies(state)
    assert str(state) in kept_in and Path(path_in(kept_in)).read_bytes() == ORIGINAL.encode()


def test_tables_of_a_file_that_was_reset_are_disconnected_each_by_itself(tmp_path: Path, state: Path) -> None:
    file = tmp_path / ".claude.json"
    file.write_text(json.dumps({"projects": {"/p": {"mcpServers": {"git": GIT}}}, "mcpServers": {"git": GIT}}))
    former = file.read_text()
    user, local = table(file, "claude-code"), table(file, "claude-code", "projects", "/p", "mcpServers")
    for each in (user, local):
        bridge_entries.connect(each, {"git": "git"}, False, Places())
    file.write_text(json.dumps({"mcpServers": {"git": {"command": "mine"}}}))
    notes = [note for each in (user, local) for note in bridge_entries.disconnect(each).notes]
    assert former in copies(state)
    named = {path_in(note) for note in notes if str(state / "state") in note}
    assert all(Path(path).exists() for path in named), notes


def test_a_dry_run_sets_nothing_aside(file: Path, state: Path) -> None:
    connect(file, git="git")
    file.unlink()
    former = kept(state)
    bridge_entries.disconnect(table(file), dry_run=True)
    assert kept(state) == former


def test_a_file_that_somebody_brought_back_is_left_and_can_be_connected_again(file: Path, state: Path) -> None:
    connect(file, git="git")
    file.write_text(ORIGINAL)
    connect(file, time="time")
    disconnect(file)
    assert file.read_bytes() == ORIGINAL.encode()
    connect(file, git="git")
    file.write_text(ORIGINAL)
    disconnect(file)
    assert file.read_bytes() == ORIGINAL.encode()
    assert kept(state) == []


def test_an_entry_that_came_later_is_connected_later(file: Path) -> None:
    connect(file, git="git")
    file.write_text(file.read_text().replace('"theme": "dark"', '"theme": "light"'))
    connect(file, time="time")
    disconnect(file)
    assert file.read_text() == json.dumps(TREE | {"theme": "light"}, indent=2)


def test_a_broken_file_is_refused_and_left(file: Path, state: Path) -> None:
    connect(file, git="git")
    file.write_text("{")
    for deed in (lambda: connect(file, time="time"), lambda: disconnect(file)):
        with pytest.raises(ConfigError, match="is not valid JSON"):
            deed()
    assert file.read_text() == "{"
    assert len(kept(state)) == 2


def test_tables_of_one_file_are_disconnected_each_by_itself(tmp_path: Path) -> None:
    file = tmp_path / ".claude.json"
    file.write_text(
        json.dumps({"projects": {"/p": {"mcpServers": {"git": GIT}}}, "mcpServers": {"git": GIT}}, indent=4)
    )
    former = file.read_bytes()
    user, local = table(file, "claude-code"), table(file, "claude-code", "projects", "/p", "mcpServers")
    for each in (user, local):
        bridge_entries.connect(each, {"git": "git"}, False, Places())
    assert bridge_entries.connected() == [user, local]
    bridge_entries.disconnect(user)
    assert tree(file)["mcpServers"] == {"git": GIT}
    assert bridge_entries.connected() == [local]
    assert bridge_entries.disconnect(local).is_exact
    assert file.read_bytes() == former


def test_what_was_never_connected_is_left(file: Path) -> None:
    assert disconnect(file) == bridge_entries.TableOutcome(table(file), [], [])
    assert file.read_bytes() == ORIGINAL.encode()

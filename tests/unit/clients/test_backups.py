"""What is kept of connections and imports, and what comes back by it."""

import os
from pathlib import Path

import pytest

from hearth.clients import backups, bridge_entries
from hearth.clients.table import Table
from hearth.errors import ConfigError
from hearth.paths import Places
from unit.clients.connected_files import connect, kept, table

# --- what is kept


def test_a_change_that_was_never_made_is_not_undone(file: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = file.read_bytes()
    # As when the power fails between the two: the trace is there, the change is not.
    monkeypatch.setattr("hearth.host.edited_files.replace", lambda *_: True)
    connect(file, git="git")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "state"))
    assert kept(state) != []
    bridge_entries.disconnect(table(file))
    assert file.read_bytes() == former
    assert kept(state) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"path": 5, "original": null, "left": "", "splices": [1]}'])
def test_a_trace_that_makes_no_sense_is_named(file: Path, content: str) -> None:
    connect(file, git="git")
    Path(backups.place(str(file))).write_text(content)
    with pytest.raises(ConfigError, match="cannot be read"):
        bridge_entries.disconnect(table(file))


def test_a_damaged_trace_concerns_its_own_file_only(file: Path, tmp_path: Path) -> None:
    connect(file, git="git")
    Path(backups.place(str(file))).write_text("{")
    other = tmp_path / "other.json"
    assert connect(other, whole=True).is_made
    assert bridge_entries.connected() == [table(other)]
    (problem,) = bridge_entries.damaged()
    assert backups.place(str(file)) in problem
    assert bridge_entries.disconnect(table(other)).is_removed


def test_a_copy_that_is_not_what_it_was_is_not_brought_back(file: Path, state: Path) -> None:
    connect(file, git="git")
    (copy,) = (state / "state" / "hearth" / "clients").glob("*.original")
    copy.write_text("{}")
    with pytest.raises(ConfigError, match="not as it was written"):
        bridge_entries.disconnect(table(file))


@pytest.mark.parametrize("empty", ["{ }", "{\n\n}", "{ // none yet\n}", "null"])
def test_a_table_that_was_empty_in_its_own_way_is_so_again(tmp_path: Path, empty: str) -> None:
    file = tmp_path / ".claude.json"
    file.write_text(f'{{"theme": "dark", "projects": {{"/p": {{"mcpServers": {empty}}}}}, "mcpServers": {empty}}}')
    former = file.read_text()
    user, local = table(file, "claude-code"), table(file, "claude-code", "projects", "/p", "mcpServers")
    for each in (user, local):
        bridge_entries.connect(each, {}, True, Places())
    # Not as it was left, so that each is undone by itself.
    file.write_text(file.read_text().replace("dark", "light"))
    for each in (user, local):
        assert bridge_entries.disconnect(each).notes == []
    assert file.read_text() == former.replace("dark", "light")


# --- comments of Codex's file


CODEX = (
    "# mine\r\n[mcp_servers.git]   # by hand, do not touch  \r\ncommand = 'uvx' # gone while connected\r\n"
    "[mcp_servers.git.env] # of the variables\r\nA = '1'\r\n\r\n[tui] # last\r\nx = 1\r\n"
)


def test_a_comment_behind_the_header_of_a_table_stays_and_every_byte_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(CODEX.encode())
    codex = Table("codex", str(file), ("mcp_servers",), "user", None)
    outcome = bridge_entries.connect(codex, {"git": "git"}, False, Places())
    lines = file.read_bytes().decode().split("\r\n")
    assert lines[:2] == ["# mine", "[mcp_servers.git]   # by hand, do not touch  "]
    assert lines[2].startswith("command = ")
    assert lines[-3:] == ["[tui] # last", "x = 1", ""]
    assert [change.name for change in outcome.changes] == ["git"]
    # Saved by the client meanwhile: then the entry is brought back, and the rest stays.
    file.write_bytes(file.read_bytes().replace(b"x = 1", b"x = 2"))
    assert bridge_entries.connect(codex, {"git": "git"}, False, Places()).changes == []
    bridge_entries.disconnect(codex)
    assert file.read_bytes() == CODEX.replace("x = 1", "x = 2").encode()
    bridge_entries.connect(codex, {"git": "git"}, False, Places())
    assert bridge_entries.disconnect(codex).is_exact
    assert file.read_bytes() == CODEX.replace("x = 1", "x = 2").encode()


# --- under which name an entry was imported


def test_what_was_never_imported_is_not_known(state: Path) -> None:
    assert backups.imported(table(state / "mcp.json"), "git") is None


def test_a_name_is_remembered_by_client_file_and_table(state: Path) -> None:
    backups.remember([(table(state / "mcp.json"), "git", "git-2")])
    backups.remember([(table(state / "mcp.json", "cursor", "projects", "/p", "mcpServers"), "git", "git")])
    assert backups.imported(table(state / "mcp.json"), "git") == "git-2"
    assert backups.imported(table(state / "mcp.json", "cursor", "projects", "/p", "mcpServers"), "git") == "git"
    assert backups.imported(table(state / "other.json"), "git") is None


def test_the_same_file_by_another_name_is_the_same_file(state: Path) -> None:
    (state / "mcp.json").write_text("{}")
    (state / "link.json").symlink_to("mcp.json")
    backups.remember([(table(state / "mcp.json"), "git", "git-2")])
    assert backups.imported(table(state / "link.json"), "git") == "git-2"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', "\0"])
def test_a_file_that_makes_no_sense_is_begun_anew(state: Path, content: str) -> None:
    os.makedirs(backups.folder(), 0o700)
    path = Path(backups.folder(), "imported.json")
    path.write_text(content)
    assert backups.imported(table(state / "mcp.json"), "git") is None
    backups.remember([(table(state / "mcp.json"), "git", "git")])
    assert backups.imported(table(state / "mcp.json"), "git") == "git"
    assert path.stat().st_mode & 0o777 == 0o600

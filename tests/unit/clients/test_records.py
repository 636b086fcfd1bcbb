"""Under which name an entry was imported."""

import os
from pathlib import Path

import pytest

from hearth.clients import backups
from hearth.clients.table import Table


def table(path: Path, *keys: str) -> Table:
    return Table("cursor", str(path), keys or ("mcpServers",), "user", None)


def test_what_was_never_imported_is_not_known(state: Path) -> None:
    assert backups.imported(table(state / "mcp.json"), "git") is None


def test_a_name_is_remembered_by_client_file_and_table(state: Path) -> None:
    backups.remember(table(state / "mcp.json"), "git", "git-2")
    backups.remember(table(state / "mcp.json", "projects", "/p", "mcpServers"), "git", "git")
    assert backups.imported(table(state / "mcp.json"), "git") == "git-2"
    assert backups.imported(table(state / "mcp.json", "projects", "/p", "mcpServers"), "git") == "git"
    assert backups.imported(table(state / "other.json"), "git") is None


def test_the_same_file_by_another_name_is_the_same_file(state: Path) -> None:
    (state / "mcp.json").write_text("{}")
    (state / "link.json").symlink_to("mcp.json")
    backups.remember(table(state / "mcp.json"), "git", "git-2")
    assert backups.imported(table(state / "link.json"), "git") == "git-2"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', "\0"])
def test_a_file_that_makes_no_sense_is_begun_anew(state: Path, content: str) -> None:
    os.makedirs(backups.folder(), 0o700)
    path = Path(backups.folder(), "imported.json")
    path.write_text(content)
    assert backups.imported(table(state / "mcp.json"), "git") is None
    backups.remember(table(state / "mcp.json"), "git", "git")
    assert backups.imported(table(state / "mcp.json"), "git") == "git"
    assert path.stat().st_mode & 0o777 == 0o600

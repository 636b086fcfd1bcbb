"""Which journal has a daemon's log."""

import os
from pathlib import Path

import pytest

from hearth import paths
from hearth.cli import journal


@pytest.fixture(autouse=True)
def by_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is systemd's, and journalctl is there."""
    monkeypatch.setattr(journal, "_systemd_starts_it", lambda places: True)
    monkeypatch.setattr(journal.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def test_each_profile_has_its_unit_in_the_user_s_journal() -> None:
    asked = journal.command(paths.Places("work"), follow=True, lines=7)
    assert asked == ["journalctl", "--user", "--unit", "mcp@work.service", "--lines", "7", "--follow"]


@pytest.mark.skipif(os.name != "posix", reason="users have no numbers there")
def test_a_system_wide_daemon_has_its_unit_in_the_system_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_DIR", str(tmp_path))
    (tmp_path / f"{os.getuid()}.sock").touch()
    asked = journal.command(paths.Places(), follow=False, lines=50)
    assert asked == ["journalctl", "--unit", f"mcp-user@{os.getuid()}.service", "--lines", "50"]


def test_a_daemon_of_a_config_by_path_has_a_file() -> None:
    assert journal.command(paths.Places(config="/etc/x.toml"), follow=False, lines=1) is None

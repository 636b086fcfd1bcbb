"""Which journal has a daemon's log."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from hearth import paths
from hearth.cli.daemon import logs
from hearth.cli.daemon.logs import LogSelection


@pytest.fixture(autouse=True)
def by_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is systemd's, and journalctl is there."""
    monkeypatch.setattr(logs, "_systemd_starts_it", lambda places: True)
    monkeypatch.setattr(logs.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)


def test_each_profile_has_its_unit_in_the_user_s_journal() -> None:
    asked = logs.journal_command(paths.Places("work"), LogSelection(follow=True, lines=7))
    assert asked == ["journalctl", "--user", "--unit", "mcp@work.service", "--lines", "7", "--follow"]


@pytest.mark.skipif(os.name != "posix", reason="users have no numbers there")
def test_a_system_wide_daemon_has_its_unit_in_the_system_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SYSTEM_DIR", str(tmp_path))
    (tmp_path / f"{os.getuid()}.sock").touch()
    asked = logs.journal_command(paths.Places(), LogSelection(follow=False, lines=50))
    assert asked == ["journalctl", "--unit", f"mcp-user@{os.getuid()}.service", "--lines", "50"]


def test_a_daemon_of_a_config_by_path_has_a_file() -> None:
    assert logs.journal_command(paths.Places(config="/etc/x.toml"), LogSelection(follow=False, lines=1)) is None


def test_a_moment_is_given_to_journalctl_as_a_number_and_json_is_asked_for() -> None:
    asked = logs.journal_command(
        paths.Places(), LogSelection(follow=False, lines=9, begin=1_700_000_000.4, as_json=True)
    )
    assert asked is not None
    assert asked[-6:] == ["--lines", "9", "--since", "@1700000000", "--output", "json"]


def test_an_entry_of_the_journal_becomes_time_and_text() -> None:
    assert (
        json.loads(logs._journal_entry(b'{"__REALTIME_TIMESTAMP":"1700000000250000","MESSAGE":"up"}'))["text"] == "up"
    )
    found = json.loads(logs._journal_entry(b'{"__REALTIME_TIMESTAMP":"1700000000250000","MESSAGE":[104,105,255]}'))
    assert found["text"] == "hi\ufffd"
    assert datetime.fromisoformat(found["time"]).timestamp() == 1_700_000_000.25
    # Very long texts are printed as null.
    assert json.loads(logs._journal_entry(b'{"__REALTIME_TIMESTAMP":"1","MESSAGE":null}'))["text"] == ""

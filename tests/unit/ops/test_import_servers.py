"""`hearth import` that fails on its way: nothing is left of it, whichever step it was."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.main import main
from hearth.clients import backups
from hearth.clients.table import Table
from hearth.errors import Refused
from hearth.ops import edit_config
from hearth.secrets.vault import Vault

TOKEN = "ghp_" + "s3cr3t" * 6


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("XDG_", "HEARTH_", "CLAUDE", "CODEX", "GEMINI"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".cursor").mkdir()
    git = {"command": "uvx", "args": ["mcp-server-git"], "env": {"GITHUB_TOKEN": TOKEN}}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"git": git}}))
    return tmp_path


def imported(home: Path) -> str | None:
    return backups.imported(Table("cursor", str(home / ".cursor" / "mcp.json"), ("mcpServers",), "user", None), "git")


def config(home: Path) -> Path:
    return home / ".config" / "hearth" / "config.toml"


def test_what_was_imported_is_configured_stored_and_remembered(home: Path) -> None:
    assert main(["import", "--yes"]) == 0
    assert "[mcpServers.git]" in config(home).read_text()
    assert list(Vault("secrets").entries()) == ["github-token"]
    assert imported(home) == "git"


def test_where_names_cannot_be_kept_nothing_is_done(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(backups.folder()).parent.mkdir(parents=True, mode=0o700)
    Path(backups.folder()).write_text("in the way")
    assert main(["import", "--yes"]) == 1
    assert backups.folder() in capsys.readouterr().err
    assert not config(home).exists()
    assert list(Vault("secrets").entries()) == []


@pytest.mark.parametrize("former", [None, "other"])
def test_where_the_config_cannot_be_changed_nothing_is_done(
    home: Path, monkeypatch: pytest.MonkeyPatch, former: str | None
) -> None:
    table = Table("cursor", str(home / ".cursor" / "mcp.json"), ("mcpServers",), "user", None)
    if former:
        backups.remember(table, "git", former)

    def refuse(*_: Any, **__: Any) -> None:
        raise Refused("somebody else changes it")

    monkeypatch.setattr(edit_config, "change", refuse)
    assert main(["import", "--yes"]) == 5
    assert list(Vault("secrets").entries()) == []
    assert imported(home) == former


def test_the_daemon_is_told_of_every_config_that_was_changed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def tell(_: Any) -> str:
        told.append(config(home).exists())
        return "Told."

    monkeypatch.setattr(edit_config, "tell_daemon", tell)
    assert main(["import", "--yes"]) == 0
    assert main(["import", "--yes"]) == 0
    assert told == [True]

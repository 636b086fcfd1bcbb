"""`hearth import` that fails on its way leaves nothing, whichever step it was; and answers to VS Code's inputs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.main import main
from hearth.clients import backups
from hearth.clients.importer.placeholders import Kept, Secret, UnusablePlaceholder
from hearth.clients.table import Table
from hearth.errors import Refused
from hearth.ops import edit_config
from hearth.ops.import_servers import Answers
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


def cursor(home: Path) -> Table:
    return Table("cursor", str(home / ".cursor" / "mcp.json"), ("mcpServers",), "user", None)


def imported(home: Path) -> str | None:
    return backups.imported(cursor(home), "git")


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
    if former:
        backups.remember([(cursor(home), "git", former)])

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


# --- answers to inputs

INPUTS = """{"inputs": [
    {"type": "promptString", "id": "pw", "password": true},
    {"type": "promptString", "id": "region", "default": "eu"},
    {"type": "promptString", "id": "api-token"},
    {"type": "command", "id": "branch", "command": "git.branch"}
]}"""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    path = tmp_path / "mcp.json"
    path.write_text(INPUTS)
    return Table("vscode", str(path), ("servers",), "user", None)


def test_each_question_is_put_once(table: Table) -> None:
    asked = []

    def ask(question: object) -> str:
        asked.append(question)
        return "hunter2000"

    answers = Answers(ask)
    assert answers(table, "pw") == answers(table, "pw") == Secret("hunter2000", "pw")
    assert answers(table, "api-token") == Secret("hunter2000", "api-token")
    assert answers(table, "region") == "hunter2000"
    assert len(asked) == 3


def test_a_question_names_the_servers_and_the_client_that_want_to_know(table: Table) -> None:
    servers = {name: {"command": "x", "env": {"T": "${input:tok}"}} for name in ("a", "b")} | {"c": {"command": "x"}}
    inputs = [{"id": "tok", "description": "Tok:"}]
    Path(table.path).write_text(json.dumps({"inputs": inputs, "servers": servers}))
    answers = Answers(None, is_later=True)
    answers(table, "tok")
    assert [each.description for each in answers.pending] == ["Tok (a, b in VS Code)"]


def test_with_nobody_to_ask_the_default_counts_and_what_has_none_stays(table: Table) -> None:
    answers = Answers(None)
    assert answers(table, "region") == "eu"
    with pytest.raises(UnusablePlaceholder, match="asked for by VS Code"):
        answers(table, "pw")


@pytest.mark.parametrize("name", ["branch", "unknown"])
def test_what_nobody_here_can_answer_stays_whoever_there_is_to_ask(table: Table, name: str) -> None:
    with pytest.raises(UnusablePlaceholder, match=name):
        Answers(lambda _: "x")(table, name)


def test_for_a_plan_it_is_asked_later(table: Table) -> None:
    answers = Answers(None, is_later=True)
    assert answers(table, "pw") == Kept("${input:pw}")
    answers(table, "pw")
    assert [each.name for each in answers.pending] == ["pw"]


def test_a_file_that_is_broken_meanwhile_keeps_the_entry_where_it_is(table: Table) -> None:
    Path(table.path).write_text("{")
    with pytest.raises(UnusablePlaceholder):
        Answers(None)(table, "pw")

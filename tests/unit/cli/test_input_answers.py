"""What VS Code's inputs are answered with."""

import json
from pathlib import Path

import pytest

from hearth.clients.importer.placeholders import UnusablePlaceholder
from hearth.clients.importer.templates import Kept, Secret
from hearth.clients.table import Table
from hearth.ops.import_servers import Answers

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


def test_a_question_names_the_servers_and_the_client_that_want_to_know(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    servers = {name: {"command": "x", "env": {"T": "${input:tok}"}} for name in ("a", "b")} | {"c": {"command": "x"}}
    path.write_text(json.dumps({"inputs": [{"id": "tok", "description": "Tok:"}], "servers": servers}))
    answers = Answers(None, is_later=True)
    answers(Table("vscode", str(path), ("servers",), "user", None), "tok")
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

"""References as clients write them, when their entries are imported from a shell."""

from typing import Any

import pytest

from hearth.clients.importer.placeholders import Kept, Secret, UnusablePlaceholder
from hearth.clients.table import Table
from unit.clients.imports import FOLDER, Shell, entry, found, plan


def variables(client: str, value: str, folder: str | None = None, **environ: str) -> dict[str, str]:
    key = "environment" if client == "opencode" else "env"
    command: Any = ["uvx", "x"] if client == "opencode" else "uvx"
    made = plan(found("x", {"command": command, key: {"A": value}}, client, folder), **environ)
    env: dict[str, str] = entry(made)["env"]
    return env


@pytest.mark.parametrize(
    ("client", "written"),
    [
        ("claude-code", "${REGION}"),
        ("claude-code", "${REGION:-us}"),
        ("gemini", "$REGION"),
        ("gemini", "${REGION}"),
        ("cursor", "${env:REGION}"),
        ("vscode", "${env:REGION}"),
        ("windsurf", "${env:REGION}"),
        ("cline", "${env:REGION}"),
        ("opencode", "{env:REGION}"),
    ],
)
def test_a_variable_of_the_shell_is_resolved_as_each_client_writes_it(client: str, written: str) -> None:
    assert variables(client, f"<{written}>", REGION="eu") == {"A": "<eu>"}
    assert variables(client, f"x {written}", REGION="s3cr3t") == {"A": "x s3cr3t"}


@pytest.mark.parametrize("client", ["claude-code", "gemini"])
def test_a_variable_that_is_a_secret_is_stored(client: str) -> None:
    made = plan(found("git", {"command": "uvx", "env": {"A": "x ${MY_TOKEN}"}}, client), MY_TOKEN="hunter2000")
    assert entry(made)["env"] == {"A": "x ${keyring:my-token}"}
    assert {name: each.value for name, each in made.secrets.items()} == {"my-token": "hunter2000"}


@pytest.mark.parametrize(
    ("client", "written"),
    [("claude-code", "${HOST:-a.example}"), ("claude-code", "${HOST:-}"), ("gemini", "${HOST:-x}")],
)
def test_one_that_is_not_set_keeps_its_default(client: str, written: str) -> None:
    made = plan(found("x", {"command": "uvx", "env": {"A": written}}, client))
    assert entry(made)["env"] == {"A": written}
    assert made.servers[0].notes == []


def test_an_empty_variable_gives_way_to_its_default() -> None:
    assert variables("claude-code", "${HOST:-x}", HOST="") == {"A": "${HOST:-x}"}


def test_a_default_that_is_a_secret_is_stored() -> None:
    made = plan(found("x", {"command": "uvx", "env": {"A": "${MY_TOKEN:-hunter2000}"}}))
    assert entry(made)["env"] == {"A": "${keyring:my-token}"}


@pytest.mark.parametrize(
    ("client", "written"),
    [
        ("claude-code", "${TOKEN}"),
        ("gemini", "$TOKEN"),
        ("cursor", "${env:TOKEN}"),
        ("vscode", "${env:TOKEN}"),
        ("opencode", "{env:TOKEN}"),
    ],
)
def test_one_that_is_not_set_stays_and_is_said(client: str, written: str) -> None:
    key = "environment" if client == "opencode" else "env"
    command: Any = ["uvx"] if client == "opencode" else "uvx"
    made = plan(found("x", {"command": command, key: {"A": written}}, client))
    assert entry(made)["env"] == {"A": "${TOKEN}"}
    assert made.servers[0].notes[0].startswith("TOKEN is not set in this shell")


@pytest.mark.parametrize("client", ["claude-desktop", "zed", "codex"])
def test_a_client_that_resolves_nothing_means_what_it_writes(client: str) -> None:
    assert variables(client, "${HOME} $HOME {env:HOME}", HOME="/x") == {"A": "$${HOME} $HOME {env:HOME}"}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("claude-code", "$HOME {env:HOME}"),
        ("opencode", "$HOME {other:HOME} {env}"),
        ("gemini", "$1 $ {x}"),
        ("cursor", "$HOME"),
    ],
)
def test_what_is_no_reference_of_the_client_stays(client: str, text: str) -> None:
    assert variables(client, text, HOME="/x") == {"A": text}


def test_a_shells_own_text_is_passed_on_as_it_is() -> None:
    script = 'for f in *; do echo "${f%.*}"; done'
    made = entry(plan(found("x", {"command": "sh", "args": ["-c", script]})))
    assert made["args"] == ["-c", script.replace("${", "$${")]


def test_a_file_is_read_when_the_server_starts() -> None:
    assert variables("opencode", "{file:./key.txt}") == {"A": "${file:/home/me/key.txt}"}
    assert variables("opencode", "{file:~/key.txt}") == {"A": "${file:~/key.txt}"}
    assert variables("windsurf", "${file:/x/key}") == {"A": "${file:/x/key}"}


# --- Codex names variables


def test_codex_hands_on_variables_that_are_set() -> None:
    raw = {"command": "uvx", "env_vars": ["REGION", {"name": "MY_TOKEN"}, "GONE"], "env": {"B": "${REGION}"}}
    made = plan(found("x", raw, "codex"), REGION="eu", MY_TOKEN="hunter2000")
    assert entry(made)["env"] == {"B": "$${REGION}", "REGION": "eu", "MY_TOKEN": "${keyring:my-token}"}
    assert made.servers[0].notes == ["GONE is handed on by the client and is not set in this shell: it is left out"]


def test_codex_sends_the_value_of_a_variable() -> None:
    raw = {
        "url": "https://example.com/mcp",
        "bearer_token_env_var": "MY_TOKEN",
        "http_headers": {"X-A": "${B}"},
        "env_http_headers": {"X-Region": "REGION"},
    }
    made = plan(found("x", raw, "codex"), REGION="eu", MY_TOKEN="hunter2000")
    sent = {"X-A": "$${B}", "X-Region": "eu", "Authorization": "Bearer ${keyring:my-token}"}
    assert entry(made)["headers"] == sent
    unset = plan(found("x", raw, "codex"), REGION="eu")
    assert entry(unset)["headers"]["Authorization"] == "Bearer ${MY_TOKEN}"
    assert unset.servers[0].notes[0].startswith("MY_TOKEN is not set in this shell")


def test_what_a_container_takes_from_its_environment_is_handed_on() -> None:
    args = ["run", "-i", "--rm", "-e", "MY_TOKEN", "--env", "REGION", "-e", "A=1", "-e", "OWN", "-e", "GONE", "image"]
    raw = {"command": "docker", "args": args, "env": {"OWN": "2"}}
    made = plan(found("x", raw), MY_TOKEN="hunter2000", REGION="eu", OWN="3")
    assert entry(made)["args"] == args
    assert entry(made)["env"] == {"MY_TOKEN": "${keyring:my-token}", "REGION": "eu", "OWN": "2"}
    assert made.servers[0].notes == ["GONE is handed on by the client and is not set in this shell: it is left out"]


# --- editors


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("${workspaceFolder}/x", "${workspaceFolder}/x"),
        ("${workspaceRoot}", "${workspaceFolder}"),
        ("${workspaceFolder:shop}", "${workspaceFolder}"),
        ("${userHome}/x", "/home/me/x"),
        ("a${pathSeparator}b${/}c", "a/b/c"),
        ("${other}", "$${other}"),
    ],
)
def test_what_an_editor_knows_of_its_folders(written: str, kept: str) -> None:
    assert variables("vscode", written) == {"A": kept}


def test_in_a_projects_file_the_folder_is_known() -> None:
    for written in ("${workspaceFolder}", "${workspaceFolder:shop}"):
        assert variables("vscode", written, FOLDER) == {"A": FOLDER}
    assert variables("cursor", "${workspaceFolderBasename}", FOLDER) == {"A": "shop"}
    assert variables("claude-code", "${CLAUDE_PROJECT_DIR:-.}", FOLDER) == {"A": FOLDER}


def test_the_folder_of_this_shell_is_not_the_clients() -> None:
    assert variables("claude-code", "${PWD}", PWD="/somewhere") == {"A": "${PWD}"}


@pytest.mark.parametrize("written", ["${config:a.b}", "${command:pick}", "${workspaceFolderBasename}"])
def test_what_only_an_editor_can_tell_keeps_the_entry_where_it_is(written: str) -> None:
    made = plan(found("x", {"command": "uvx", "args": [written]}, "vscode"))
    assert made.servers == []
    assert written in made.left[0].reason


# --- inputs


def test_an_input_is_asked_for(shell: Shell) -> None:
    def answer(table: Table, name: str) -> str | Secret:
        assert table.client == "vscode"
        return Secret("hunter2000", name) if name == "github-token" else "eu"

    shell.answer = answer
    raw = {"command": "uvx", "args": ["${input:region}"], "env": {"T": "x ${input:github-token}"}}
    made = shell.plan(found("github", raw, "vscode"))
    assert entry(made) == {"command": "/usr/bin/uvx", "args": ["eu"], "env": {"T": "x ${keyring:github-token}"}}


def test_an_answer_that_is_no_password_but_looks_like_a_secret_is_stored(shell: Shell) -> None:
    shell.answer = lambda table, name: "hunter2000"
    made = shell.plan(found("x", {"command": "uvx", "env": {"API_KEY": "${input:key}"}}, "vscode"))
    assert entry(made)["env"] == {"API_KEY": "${keyring:x-api-key}"}


def test_without_anybody_to_ask_the_entry_stays() -> None:
    made = plan(found("x", {"command": "uvx", "env": {"A": "${input:key}"}}, "vscode"))
    assert made.servers == []
    assert "${input:key}" in made.left[0].reason


def test_an_input_that_is_still_to_be_asked_for_stands_in_the_plan(shell: Shell) -> None:
    shell.answer = lambda table, name: Kept(f"${{input:{name}}}")
    assert entry(shell.plan(found("x", {"command": "uvx", "args": ["${input:a}"]}, "vscode")))["args"] == ["${input:a}"]


def test_an_input_that_nobody_can_give_leaves_no_secret_behind(shell: Shell) -> None:
    def answer(table: Table, name: str) -> Secret:
        if name == "b":
            raise UnusablePlaceholder("nobody")
        return Secret("hunter2000", name)

    shell.answer = answer
    made = shell.plan(found("x", {"command": "uvx", "args": ["${input:a}", "${input:b}"]}, "vscode"))
    assert made.servers == []
    assert made.secrets == {}


# --- files of variables


def test_a_file_of_variables_is_read_and_gives_way_to_the_entrys_own() -> None:
    shell = Shell(REGION="eu")
    shell.files = {"/home/me/.env": {"API_KEY": "hunter2000", "A": "1", "B": "2 ${REGION}"}}
    made = shell.plan(found("x", {"command": "uvx", "envFile": "${userHome}/.env", "env": {"A": "own"}}, "vscode"))
    assert entry(made)["env"] == {"API_KEY": "${keyring:x-api-key}", "A": "own", "B": "2 $${REGION}"}
    assert made.servers[0].notes == []


def test_a_file_of_variables_in_a_project_is_found_from_its_folder(shell: Shell) -> None:
    shell.files = {f"{FOLDER}/.env": {"A": "1"}}
    for written in ("${workspaceFolder}/.env", ".env"):
        made = shell.plan(found("x", {"command": "uvx", "envFile": written}, "vscode", FOLDER))
        assert entry(made)["env"] == {"A": "1"}


def test_a_file_of_variables_that_cannot_be_read_is_said() -> None:
    raw = {"command": "uvx", "envFile": "/gone/.env"}
    assert plan(found("x", raw, "vscode")).servers[0].notes == ["/gone/.env does not exist"]
    raw = {"command": "uvx", "envFile": "${workspaceFolder}/.env"}
    assert "envFile depends on the folder" in plan(found("x", raw, "vscode")).servers[0].notes[0]

"""`hearth import` as typed, with files as clients have them."""

import functools
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cli_home import HEARTH, Home, scratch_home
from e2e.terminal import Terminal

TOKEN = "ghp_" + "s3cr3t" * 6
OTHER = "hunter2-s3cr3t"
CLAUDE = {
    "numStartups": 3,
    "mcpServers": {
        "github": {
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-github"],
            "env": {"GITHUB_TOKEN": TOKEN},
        },
        "docs": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"},
        },
        "browser": {"command": "npx", "args": ["@playwright/mcp"]},
    },
    "projects": {"/srv/shop": {"mcpServers": {"build": {"command": "./mcp-build"}}}},
}
CODEX = f"""\
# mine
[mcp_servers.github]
command = "npx"
args = ["@modelcontextprotocol/server-github"]
env = {{ GITHUB_TOKEN = "{TOKEN}" }}

[mcp_servers.browser]
command = "uvx"
args = ["other-browser"]
"""
VSCODE = {
    "inputs": [
        {"type": "promptString", "id": "api-key", "description": "Key of the shop", "password": True},
        {"type": "pickString", "id": "region", "description": "Region", "options": ["eu", "us"], "default": "eu"},
    ],
    "servers": {"shop": {"command": "npx", "args": ["shop", "${input:region}"], "env": {"A": "x ${input:api-key}"}}},
}


@pytest.fixture
def home() -> Iterator[Home]:
    for home in scratch_home():
        home.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
        yield home


def write(home: Home, name: str, content: Any) -> str:
    path = os.path.join(home.home, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content, indent=2))
    return path


def config(home: Home) -> str:
    return read(os.path.join(home.home, ".config", "hearth", "config.toml")).decode()


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def files_with(home: Home, text: str) -> list[str]:
    found = []
    for folder, _, names in os.walk(home.folder):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and text.encode() in read(path):
                found.append(os.path.relpath(path, home.home))
    return sorted(found)


def test_servers_of_all_clients_come_together_without_their_secrets(home: Home) -> None:
    claude, codex = write(home, ".claude.json", CLAUDE), write(home, ".codex/config.toml", CODEX)
    before = [read(path) for path in (claude, codex)]
    done = home.run("import", "--yes", DOCS_TOKEN=OTHER)
    assert done.returncode == 0, done.stderr
    assert "browser        one per session (a browser keeps its open pages)" in done.stdout
    assert "build          one per folder" in done.stdout
    assert "from Claude Code, Codex" in done.stdout
    text = config(home)
    assert 'env = { GITHUB_TOKEN = "${keyring:github-token}" }' in text
    assert 'headers = { Authorization = "Bearer ${keyring:docs-token}" }' in text
    assert '[mcpServers.browser-codex]\ncommand = "uvx"' in text
    assert 'cwd = "/srv/shop"' in text
    assert "s3cr3t" not in done.stdout + done.stderr + text
    assert [read(path) for path in (claude, codex)] == before
    values = ".local/state/hearth/vault/secrets.values.json"
    assert files_with(home, TOKEN) == sorted([".claude.json", ".codex/config.toml", values])
    assert files_with(home, OTHER) == [values]
    assert stat.S_IMODE(os.stat(os.path.join(home.home, values)).st_mode) == 0o600
    again = home.json("import", "--yes", "--json")
    assert again["servers"] == []
    assert {each["name"] for each in again["present"]} == {"github", "docs", "browser", "browser-codex", "build"}
    assert config(home) == text


def test_a_projects_file_is_read_only_when_asked_for(home: Home) -> None:
    os.makedirs(os.path.join(home.home, ".claude"))
    path = write(home, "shop/.mcp.json", {"mcpServers": {"shop": {"command": "./serve"}}})
    command = [HEARTH, "import", "--dry-run"]
    run = functools.partial(
        subprocess.run, env=home.environment, cwd=os.path.dirname(path), capture_output=True, text=True, timeout=30
    )
    assert "shop/.mcp.json is this project's" in run(command).stdout
    (server,) = json.loads(run([*command, "--scope", "project", "--json"]).stdout)["servers"]
    assert server["entry"] == {"command": "./serve", "cwd": os.path.dirname(path), "isolation": "workspace"}


def test_a_dry_run_and_a_refusal_change_nothing(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    before = sorted(os.listdir(home.home))
    shown = home.run("import", "--dry-run")
    assert shown.returncode == 0
    assert "      https://example.com/mcp\n" in shown.stdout
    assert "      ./mcp-build (in /srv/shop)\n" in shown.stdout
    assert "-y @modelcontextprotocol/server-github\n" in shown.stdout
    document = home.json("import", "--dry-run", "--json")
    assert [each["name"] for each in document["servers"]] == ["github", "docs", "browser", "build"]
    assert document["imported"] is False
    assert "s3cr3t" not in json.dumps(document)
    assert "say --yes" in home.fails(5, "import")
    assert sorted(os.listdir(home.home)) == before


def test_clients_are_chosen_and_a_broken_file_keeps_no_other_back(home: Home) -> None:
    write(home, ".claude.json", '{"mcpServers": ')
    write(home, ".codex/config.toml", CODEX)
    assert "2 added" in home.ok("import", "codex", "--yes")
    everything = home.run("import", "--yes")
    assert everything.returncode == 0
    assert ".claude.json" in everything.stderr
    wrong = home.run("import", "codx")
    assert wrong.returncode == 2
    assert "Did you mean 'codex'?" in wrong.stderr


@pytest.mark.parametrize(
    ("name", "content", "servers"),
    [
        ("x/mcp.json", {"mcpServers": {"a": {"command": "true"}, "b": {"httpUrl": "https://x.example"}}}, ["a", "b"]),
        ("x/vs.json", {"servers": {"a": {"type": "stdio", "command": "true"}}}, ["a"]),
        ("x/codex.toml", '[mcp_servers.a]\ncommand = "true"\n', ["a"]),
    ],
)
def test_a_file_that_is_named_is_imported(home: Home, name: str, content: Any, servers: list[str]) -> None:
    path = write(home, name, content)
    assert [each["name"] for each in home.json("import", path, "--yes", "--json")["servers"]] == servers


@pytest.mark.parametrize("content", ["{", '{"a": 1}', None])
def test_a_file_without_servers_is_refused(home: Home, content: str | None) -> None:
    path = os.path.join(home.home, "x.json") if content is None else write(home, "x.json", content)
    assert "x.json" in home.fails(2, "import", path, "--yes")


def test_what_an_editor_asks_for_is_asked_here(home: Home) -> None:
    write(home, ".config/Code/User/mcp.json", VSCODE)
    assert "${input:api-key} is asked for by VS Code" in home.run("import", "--yes").stdout
    terminal = Terminal([HEARTH, "import"], home.environment)
    terminal.read_until("Import them? [Y/n]: ")
    assert "To be asked for: Region (shop in VS Code), Key of the shop (shop in VS Code)." in terminal.seen
    terminal.type("\n")
    terminal.read_until("Region (shop in VS Code) (eu, us) [eu]: ")
    terminal.type("us\n")
    terminal.read_until("Key of the shop (shop in VS Code): ")
    terminal.type(OTHER + "\n")
    assert terminal.finish() == 0
    assert OTHER not in terminal.seen
    assert 'args = ["shop", "us"]\nenv = { A = "x ${keyring:shop-api-key}" }' in config(home)


def test_no_is_no(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    terminal = Terminal([HEARTH, "import"], home.environment)
    terminal.read_until("Import them? [Y/n]: ")
    terminal.type("n\n")
    assert terminal.finish() == 5
    assert not os.path.exists(os.path.join(home.home, ".config", "hearth"))


def test_a_config_that_cannot_be_written_leaves_no_secret_behind(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    # A link to where no file can be.
    os.makedirs(os.path.join(home.home, ".config", "hearth"))
    os.symlink("/dev/full/config.toml", os.path.join(home.home, ".config", "hearth", "config.toml"))
    done = home.run("import", "--yes")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert files_with(home, TOKEN) == [".claude.json"]


def test_without_any_client_it_says_what_was_looked_for(home: Home) -> None:
    assert "No MCP client was found; looked for Claude Code" in home.ok("import", PATH="/nowhere")

"""`hearth import` as typed, with files as clients have them."""

import functools
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import cli_home
from e2e.cli_home import Home, read, scratch_home

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
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    return cli_home.write(os.path.join(home.home, name), text)


def config(home: Home) -> str:
    return read(os.path.join(home.home, ".config", "hearth", "config.toml"))


def files_with(home: Home, text: str) -> list[str]:
    paths = (path for path in Path(home.folder).rglob("*") if path.is_file())
    return sorted(os.path.relpath(path, home.home) for path in paths if text.encode() in path.read_bytes())


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
    folder = os.path.dirname(write(home, "shop/.mcp.json", {"mcpServers": {"shop": {"command": "./serve"}}}))
    run = functools.partial(home.run_in, folder, "import", "--dry-run")
    assert "shop/.mcp.json is this project's" in run().stdout
    (server,) = json.loads(run("--scope", "project", "--json").stdout)["servers"]
    assert server["entry"] == {"command": "./serve", "cwd": folder, "isolation": "workspace"}


def test_a_dry_run_and_a_refusal_change_nothing(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    before = sorted(os.listdir(home.home))
    shown = home.ok("import", "--dry-run")
    assert "      https://example.com/mcp\n" in shown
    assert "      ./mcp-build (in /srv/shop)\n" in shown
    assert "-y @modelcontextprotocol/server-github\n" in shown
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
    assert "Did you mean 'codex'?" in home.fails(2, "import", "codx")


@pytest.mark.parametrize(
    ("name", "content", "servers"),
    [
        ("x/mcp.json", {"mcpServers": {"a": {"command": "true"}, "b": {"httpUrl": "https://x.example"}}}, ["a", "b"]),
        ("x/vs.json", {"servers": {"a": {"type": "stdio", "command": "true"}}}, ["a"]),
        ("x/codex.toml", '[mcp_servers.a]\ncommand = "true"\n', ["a"]),
    ],
)
def test_a_file_that_is_named_is_imported(home: Home, name: str, content: Any, servers: list[str]) -> None:
    document = home.json("import", write(home, name, content), "--yes", "--json")
    assert [each["name"] for each in document["servers"]] == servers


@pytest.mark.parametrize("content", ["{", '{"a": 1}', None])
def test_a_file_without_servers_is_refused(home: Home, content: str | None) -> None:
    path = os.path.join(home.home, "x.json") if content is None else write(home, "x.json", content)
    assert "x.json" in home.fails(2, "import", path, "--yes")


def test_what_an_editor_asks_for_is_asked_here(home: Home) -> None:
    write(home, ".config/Code/User/mcp.json", VSCODE)
    assert "${input:api-key} is asked for by VS Code" in home.run("import", "--yes").stdout
    answers = {
        "Import them? [Y/n]: ": "\n",
        "Region (shop in VS Code) (eu, us) [eu]: ": "us\n",
        "Key of the shop (shop in VS Code): ": f"{OTHER}\n",
    }
    seen = home.at_terminal(0, "import", answers=answers)
    assert "To be asked for: Region (shop in VS Code), Key of the shop (shop in VS Code)." in seen.partition("[Y/n]")[0]
    assert OTHER not in seen
    assert 'args = ["shop", "us"]\nenv = { A = "x ${keyring:shop-api-key}" }' in config(home)


def test_no_is_no(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    home.at_terminal(5, "import", answers={"Import them? [Y/n]: ": "n\n"})
    assert not os.path.exists(os.path.join(home.home, ".config", "hearth"))


def test_a_config_that_cannot_be_written_leaves_no_secret_behind(home: Home) -> None:
    write(home, ".claude.json", CLAUDE)
    # A link to where no file can be.
    folder = os.path.join(home.home, ".config", "hearth")
    os.makedirs(folder)
    os.symlink("/dev/full/config.toml", os.path.join(folder, "config.toml"))
    done = home.run("import", "--yes")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert files_with(home, TOKEN) == [".claude.json"]


def test_without_any_client_it_says_what_was_looked_for(home: Home) -> None:
    assert "No MCP client was found; looked for Claude Code" in home.ok("import", PATH="/nowhere")

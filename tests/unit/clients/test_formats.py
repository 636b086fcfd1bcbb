"""Entries of every client, in Hearth's words; and bridges, in every client's."""

from typing import Any

import pytest

from hearth.clients import formats
from hearth.clients.table import KINDS

COMMAND = ["/venv/bin/python", "-I", "-S", "/venv/lib/hearth/bridge/main.py", "--server", "git"]

READ: list[tuple[str, Any, dict[str, Any]]] = [
    ("plain", {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}},
     {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}),
    ("claude-code", {"type": "http", "url": "https://a", "headers": {"X": "${X}"}},
     {"url": "https://a", "headers": {"X": "${X}"}}),
    ("claude-code", {"type": "sse", "url": "https://a"}, {"url": "https://a", "transport": "sse"}),
    ("gemini", {"httpUrl": "https://a"}, {"url": "https://a", "transport": "http"}),
    ("gemini", {"url": "https://a/sse", "timeout": 5, "trust": True}, {"url": "https://a/sse"}),
    ("windsurf", {"serverUrl": "https://a"}, {"url": "https://a"}),
    ("cline", {"type": "streamableHttp", "url": "https://a", "autoApprove": []},
     {"url": "https://a", "transport": "http"}),
    ("zed", {"source": "custom", "command": "a", "args": [], "env": {}}, {"command": "a"}),
    ("zed", {"command": {"path": "a", "args": ["b"], "env": {"C": "d"}}},
     {"command": "a", "args": ["b"], "env": {"C": "d"}}),
    ("opencode", {"type": "local", "command": ["bun", "x", "y"], "environment": {"A": "{env:A}"}},
     {"command": "bun", "args": ["x", "y"], "env": {"A": "{env:A}"}}),
    ("opencode", {"type": "remote", "url": "https://a", "oauth": {"clientId": "c", "scope": "r w"}},
     {"url": "https://a", "oauth": {"client_id": "c", "scopes": ["r", "w"]}}),
    ("codex",
     {"url": "https://a", "bearer_token_env_var": "T", "http_headers": {"X": "1"}, "env_http_headers": {"Y": "V"}},
     {"url": "https://a", "headers": {"X": "1", "Y": "${V}", "Authorization": "Bearer ${T}"}}),
    ("codex", {"command": "a", "env_vars": ["T", {"name": "U", "source": "local"}], "cwd": "/x"},
     {"command": "a", "env": {"T": "${T}", "U": "${U}"}, "cwd": "/x"}),
    ("plain", {"url": "https://a", "requestInit": {"headers": {"X": "1"}}},
     {"url": "https://a", "headers": {"X": "1"}}),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "raw", "entry"), READ)
def test_an_entry_in_hearth_s_words(dialect: str, raw: dict[str, Any], entry: dict[str, Any]) -> None:
    assert formats.read(dialect, raw) == (entry, False, None, [])


@pytest.mark.parametrize("raw", [{"command": "a", "disabled": True}, {"command": "a", "enabled": False}])
def test_an_entry_that_is_switched_off(raw: dict[str, Any]) -> None:
    assert formats.read("plain", raw).disabled


@pytest.mark.parametrize(
    ("raw", "phrase"),
    [
        ("npx", "is not a table of settings"),
        (None, "is not a table of settings"),
        ({}, "has neither a command nor a url"),
        ({"enabled": False}, "has neither a command nor a url"),
        ({"source": "extension", "settings": {}}, "is started by an extension of the client, not by a command"),
        ({"command": "a", "envFile": ".env"}, "'envFile' means nothing to Hearth"),
        ({"command": 5}, "'command' is not what it should be"),
        ({"command": ["a", 5]}, "'command' is not what it should be"),
        ({"command": "a", "args": "b"}, "'args' is not what it should be"),
        ({"url": "https://a", "oauth": {"callbackPort": 5}}, "'oauth.callbackPort' means nothing to Hearth"),
    ],
)
def test_what_is_not_understood_is_noted(raw: object, phrase: str) -> None:
    assert phrase in formats.read("zed", raw).notes


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("words", "server"), [(["--server", "git"], "git"), ([], ""), (["--server=a b"], "a b")])
def test_a_bridge_is_known_again_in_every_dialect(name: str, words: list[str], server: str) -> None:
    entry = formats.bridge(KINDS[name].dialect, COMMAND[:4] + words)
    assert formats.read(KINDS[name].dialect, entry)[1:] == (False, server, [])


@pytest.mark.parametrize(
    ("command", "args", "server"),
    [
        ("hearth", ["bridge"], ""),
        ("C:\\x\\hearth.exe", ["bridge", "--server", "git"], "git"),
        ("uvx", ["--from", "mcp-hearth", "hearth", "bridge", "--server", "git"], "git"),
        ("C:\\x\\python.exe", ["-I", "-S", "C:\\x\\Lib\\site-packages\\hearth\\bridge\\main.py"], ""),
        ("hearth", ["serve"], None),
        ("/home/me/.local/state/hearth/hearth-bridge", ["--profile", "x", "--server", "git"], "git"),
        ("/usr/lib/mcp-hearth/hearth-bridge", [], ""),
        ("/v/bin/python", ["-IS", "/home/me/.local/state/hearth/hearth-bridge"], ""),
        ("/opt/other/hearth-bridge", [], None),
        ("python", ["my-hearth/bridge/main.py.txt"], None),
        ("hearthstone", ["bridge"], None),
    ],
)
def test_a_bridge_is_known_however_it_is_started(command: str, args: list[str], server: str | None) -> None:
    assert formats.bridge_to({"command": command, "args": args}) == server


def test_a_bridge_keeps_what_is_between_the_client_and_any_server() -> None:
    raw = {
        "type": "http", "url": "https://a", "headers": {"A": "b"}, "env": {"A": "b"}, "cwd": "/x", "timeout": 5,
        "autoApprove": ["a"], "disabled": False, "trust": True, "includeTools": ["x"],
    }  # fmt: skip
    assert formats.bridge("vscode", COMMAND, raw) == {
        "type": "stdio", "command": COMMAND[0], "args": COMMAND[1:], "timeout": 5, "autoApprove": ["a"],
        "disabled": False, "trust": True, "includeTools": ["x"],
    }  # fmt: skip


def test_opencode_s_bridge_is_one_list() -> None:
    former = {"type": "remote", "url": "https://a", "enabled": True, "oauth": {}}
    assert formats.bridge("opencode", COMMAND, former) == {"type": "local", "command": COMMAND, "enabled": True}


@pytest.mark.parametrize(
    ("dialect", "tree", "keys"),
    [
        ("gemini", {"mcp": {"excluded": ["git"]}}, ("mcpServers",)),
        ("gemini", {"excludeMCPServers": ["git"]}, ("mcpServers",)),
        ("claude-code", {"projects": {"/p": {"disabledMcpServers": ["git"]}}}, ("projects", "/p", "mcpServers")),
    ],
)
def test_a_server_may_be_switched_off_beside_its_entry(dialect: str, tree: dict[str, Any], keys: tuple[str]) -> None:
    assert formats.is_disabled_beside(dialect, tree, keys, "git")
    assert not formats.is_disabled_beside(dialect, tree, keys, "time")
    assert not formats.is_disabled_beside("plain", tree, keys, "git")

"""What may be secret in an entry of a client: nothing of it is shown, wherever it stands."""

import json
from typing import Any

import pytest

from hearth.cli.clients import client_changes
from hearth.clients.bridge_entries import EntryChange, TableOutcome
from hearth.clients.table import Table

BODY = "s3cr3t" * 6
GITHUB = f"ghp_{BODY}"
# One of each kind that importing knows by its beginning.
TOKENS = [
    f"sk-ant-api03-{BODY}",
    f"sk_live_{BODY}",
    GITHUB,
    f"github_pat_{BODY}",
    f"glpat-{BODY}",
    f"xoxb-{BODY}",
    "AKIAS3CR3TS3CR3TS3CR",
    f"AIza{BODY}",
    f"eyJ{BODY}.{BODY}.{BODY}",
    f"npm_{BODY}",
    f"hf_{BODY}",
    f"lin_api_{BODY}",
    f"tvly-{BODY}",
    f"SG.{BODY}.{BODY}",
]
# Where one may stand; the rest is shown.
PLACES: list[dict[str, Any]] = [
    {"command": "npx", "args": ["server", "TOKEN"]},
    {"command": "npx", "args": ["--header", "X-Thing: TOKEN"]},
    {"command": "npx", "args": ["--header=X-Thing: TOKEN"]},
    {"command": "npx", "args": ["-H", "X-Thing:TOKEN"]},
    {"command": "npx", "args": ["${GH:-TOKEN}"]},
    {"command": "npx", "args": ["--opt=${GH:-TOKEN}"]},
    {"command": "npx", "args": ["${GH:-${OTHER:-TOKEN}}"]},
    {"command": "npx", "args": ["-e", "THING=TOKEN"]},
    {"command": "npx server TOKEN"},
    {"command": ["npx", "server", "TOKEN"]},
    {"command": "npx", "env": {"THING": "TOKEN"}},
    {"command": "npx", "env": {"GH_TOKEN": "${GH:-TOKEN}"}},
    {"command": "npx", "env": {"THING": "${GH:-TOKEN}"}},
    {"command": "npx", "environment": {"THING": "${USER} TOKEN"}},
    {"url": "https://x", "headers": {"Authorization": "${SCHEME:-Bearer} TOKEN"}},
    {"url": "https://x", "headers": {"Authorization": "Bearer ${GH:-TOKEN}"}},
    {"url": "https://x", "headers": {"X-Thing": "${SCHEME} TOKEN"}},
    {"url": "https://x", "http_headers": {"X-Thing": "TOKEN"}},
    {"url": "https://x/mcp?thing=TOKEN"},
    {"url": "https://x/${PART:-TOKEN}/mcp"},
    {"command": "npx", "settings": {"thing": ["TOKEN", {"deep": "TOKEN"}]}},
    {"command": "npx", "note": "TOKEN"},
]


def shown(entry: dict[str, Any]) -> str:
    table = Table("cursor", "/home/a/.cursor/mcp.json", ("mcpServers",), "user", None)
    change = EntryChange("git", json.dumps(entry), None, entry, None)
    return "\n".join(client_changes.diff(TableOutcome(table, [change], [])))


@pytest.mark.parametrize("place", PLACES, ids=json.dumps)
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_is_not_shown_wherever_it_stands(place: dict[str, Any], token: str) -> None:
    text = shown(json.loads(json.dumps(place).replace("TOKEN", token).replace(f"GH_{token}", "GH_TOKEN")))
    assert "***" in text
    assert "s3cr3t" not in text.lower()


@pytest.mark.parametrize(
    ("entry", "secret"),
    [
        # Of no known kind, but where only a secret would be.
        ({"headers": {"Authorization": "${SCHEME:-Bearer} hunter2x"}}, "hunter2x"),
        ({"headers": {"Authorization": "Bearer ${A}.hunter2x"}}, "hunter2x"),
        ({"env": {"PASSWORD": "${A:-admin}"}}, "admin"),
        ({"args": ["${DB_PASSWORD:-admin}"]}, "admin"),
        ({"args": ["--header", "X-Thing: hunter2x"]}, "hunter2x"),
        ({"env": {"THING": "${USER}:4bcd3fgh1jklmn0p"}}, "4bcd3fgh1jklmn0p"),
    ],
)
def test_what_is_where_only_a_secret_would_be_is_not_shown(entry: dict[str, Any], secret: str) -> None:
    assert secret not in shown(entry)


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github", "--root=/srv/data", "C:\\x"]},
        {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}},
        {"url": "https://example.com/mcp", "headers": {"Authorization": "${SCHEME:-Bearer} ${env:GITHUB_TOKEN}"}},
        {"env": {"GITHUB_TOKEN": "{env:GITHUB_TOKEN}", "DEBUG": "${DEBUG:-true}", "ROOT": "${HOME}/data"}},
    ],
)
def test_what_is_no_secret_is_shown(entry: dict[str, Any]) -> None:
    assert "***" not in shown(entry)

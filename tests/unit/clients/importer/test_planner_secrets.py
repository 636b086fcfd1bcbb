"""Secrets on their way into Hearth: found, named, shared, never shown."""

import json

import pytest

from hearth.clients.importer import placeholders, planner
from hearth.clients.importer.placeholders import plain
from unit.clients.imports import Shell, entry, found, plan

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
TOKENS = {
    "openai": "sk-proj-" + "aB3" * 12,
    "github": "ghp_" + "a1" * 18,
    "github-fine": "github_pat_" + "11ABC_" * 8,
    "gitlab": "glpat-" + "x1y2" * 5,
    "slack": "xoxb-1234567890-abcdefghij",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "jwt": JWT,
    "google": "AIza" + "Sy1" * 12,
    "stripe": "sk_live_" + "a1B2" * 6,
}


def values(made: planner.ImportPlan) -> dict[str, str]:
    return {name: each.value for name, each in made.secrets.items()}


def assert_hidden(made: planner.ImportPlan, *secrets: str) -> None:
    """They are nowhere but where they are to be stored."""
    shown = json.dumps([server.entry for server in made.servers]) + repr(
        [(server.name, server.notes, server.reason, server.secrets) for server in made.servers]
    )
    shown += repr(made.secrets) + repr([left.reason for left in made.left])
    for secret in secrets:
        assert secret not in shown


@pytest.mark.parametrize(
    ("server", "variable", "secret"),
    [
        ("github", "GITHUB_TOKEN", "github-token"),
        ("github", "GITHUB_PERSONAL_ACCESS_TOKEN", "github-personal-access-token"),
        ("my-github", "GITHUB_TOKEN", "github-token"),
        ("exa", "API_KEY", "exa-api-key"),
        ("exa", "EXA_API_KEY", "exa-api-key"),
        ("db", "PGPASSWORD", "pgpassword"),
        ("search", "EXA_API_KEY", "exa-api-key"),
        ("db", "password", "db-password"),
        ("x", "accessToken", "x-access-token"),
        ("3d", "TOKEN", "secret-3d-token"),
        ("db", "MYSQL_PASS", "mysql-pass"),
        ("mail", "SMTP_PASS", "smtp-pass"),
        ("db", "DB_PASS", "db-pass"),
        ("db", "PASS", "db-pass"),
        ("db", "dbPass", "db-pass"),
        ("ssh", "passphrase", "ssh-passphrase"),
        ("db", "DB_PWD", "db-pwd"),
        ("blob", "AZURE_STORAGE_CONNECTION_STRING", "azure-storage-connection-string"),
    ],
)
def test_a_variable_that_is_a_secret_by_its_name_gets_a_readable_one(server: str, variable: str, secret: str) -> None:
    made = plan(found(server, {"command": "uvx", "env": {variable: "hunter2000"}}))
    assert entry(made)["env"] == {variable: f"${{keyring:{secret}}}"}
    assert values(made) == {secret: "hunter2000"}
    assert made.servers[0].secrets == [secret]
    assert_hidden(made, "hunter2000")


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
def test_a_token_is_known_by_its_shape_wherever_it_stands(token: str) -> None:
    raw = {"command": "uvx", "args": ["--x", token, f"--y={token}", f"z {token} z"], "env": {"PLAIN": token}}
    made = plan(found("x", raw))
    (name,) = values(made)
    reference = f"${{keyring:{name}}}"
    expected = ["--x", reference, f"--y={reference}", f"z {reference} z"]
    assert entry(made) == {"command": "/usr/bin/uvx", "args": expected, "env": {"PLAIN": reference}}
    assert_hidden(made, token)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AUTH_MODE", "none"),
        ("MAX_TOKENS", "4096"),
        ("SESSION_TIMEOUT", "30"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json"),
        ("SSH_KEY", "~/.ssh/id_ed25519"),
        ("API_KEY", ""),
        ("API_KEY", "abc"),
        ("USE_TOKEN", "true"),
        ("AUTH_URL", "https://example.com/login"),
        ("LOG_LEVEL", "debug"),
        ("REGION", "eu-central-1"),
        ("PROJECT", "0a1b2c3d"),
        ("QUERY", "https://example.com/search?q=words"),
        ("PASSTHROUGH", "some-header"),
        ("BYPASS", "example-host"),
        ("COMPASS", "north-north-west"),
    ],
)
def test_what_is_no_secret_stays_readable(name: str, value: str) -> None:
    made = plan(found("x", {"command": "uvx", "env": {name: value}}))
    assert entry(made)["env"] == {name: value}
    assert values(made) == {}


@pytest.mark.parametrize(
    ("args", "expected", "stored"),
    [
        (["--api-key", "s3cr3tvalue"], ["--api-key", "${keyring:x-api-key}"], {"x-api-key": "s3cr3tvalue"}),
        (["--token=s3cr3tvalue"], ["--token=${keyring:x-token}"], {"x-token": "s3cr3tvalue"}),
        (["-e", "API_KEY=s3cr3tvalue"], ["-e", "API_KEY=${keyring:x-api-key}"], {"x-api-key": "s3cr3tvalue"}),
        (
            ["--header", "Authorization: Bearer s3cr3tvalue"],
            ["--header", "Authorization: Bearer ${keyring:x-token}"],
            {"x-token": "s3cr3tvalue"},
        ),
        (["--header", "X-Api-Key:s3cr3tvalue"], ["--header", "X-Api-Key:${keyring:x-api-key}"], None),
        (
            ["postgresql://me:s3cr3t!@db.example/shop"],
            ["postgresql://me:${keyring:x-password}@db.example/shop"],
            {"x-password": "s3cr3t!"},
        ),
        (["--key-file", "/home/me/k.pem"], ["--key-file", "/home/me/k.pem"], {}),
        (["--no-auth", "--port", "8080"], ["--no-auth", "--port", "8080"], {}),
        (["--token", "--verbose"], ["--token", "--verbose"], {}),
        (["-k", "s3cr3tvalue"], ["-k", "${keyring:x-key}"], {"x-key": "s3cr3tvalue"}),
        (["-p", "s3cr3tvalue"], ["-p", "${keyring:x-password}"], {"x-password": "s3cr3tvalue"}),
        (["-t", "s3cr3tvalue"], ["-t", "${keyring:x-token}"], {"x-token": "s3cr3tvalue"}),
        (["-p", "8080", "-t", "stdio"], ["-p", "8080", "-t", "stdio"], {}),
        (["-p", "my-project", "-k", "/etc/key.pem"], ["-p", "my-project", "-k", "/etc/key.pem"], {}),
        (["-k", "https://example.com"], ["-k", "https://example.com"], {}),
        (["a:b", "https://example.com/x:y", "C:\\key"], ["a:b", "https://example.com/x:y", "C:\\key"], {}),
    ],
)
def test_secrets_among_arguments_are_found_by_what_comes_before_them(
    args: list[str], expected: list[str], stored: dict[str, str] | None
) -> None:
    made = plan(found("x", {"command": "uvx", "args": args}))
    assert entry(made)["args"] == expected
    assert stored is None or values(made) == stored
    assert_hidden(made, "s3cr3t")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.com/mcp?api_key=s3cr3tvalue&x=1", "https://example.com/mcp?api_key=${keyring:x-api-key}&x=1"),
        ("https://me:s3cr3tvalue@example.com/", "https://me:${keyring:x-password}@example.com/"),
        (
            "https://mcp.example.com/s/s3cr3t0Mzk4ZTQtMDY0OS00/mcp",
            "https://mcp.example.com/s/${keyring:x-url-token}/mcp",
        ),
        ("https://example.com/mcp?project=shop", "https://example.com/mcp?project=shop"),
        (
            "https://example.com/v1/very-long-but-plain-words/mcp",
            "https://example.com/v1/very-long-but-plain-words/mcp",
        ),
    ],
)
def test_secrets_in_an_address_are_found(url: str, expected: str) -> None:
    made = plan(found("x", {"url": url}))
    assert entry(made)["url"] == expected
    assert_hidden(made, "s3cr3t")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Authorization", "Bearer s3cr3tvalue", "Bearer ${keyring:x-token}"),
        ("authorization", "Basic bWU6czNjcjN0", "Basic ${keyring:x-token}"),
        ("Authorization", "s3cr3tvalue", "${keyring:x-token}"),
        ("X-API-Key", "s3cr3tvalue", "${keyring:x-api-key}"),
        ("Accept", "application/json", "application/json"),
        ("X-Region", "eu", "eu"),
    ],
)
def test_of_a_header_the_scheme_stays(name: str, value: str, expected: str) -> None:
    made = plan(found("x", {"url": "https://example.com/mcp", "headers": {name: value}}))
    assert entry(made)["headers"] == {name: expected}
    assert_hidden(made, "s3cr3t", "bWU6")


def test_the_secret_of_a_login_is_one() -> None:
    oauth = {"clientId": "abc", "clientSecret": "s3cr3tvalue", "scopes": ["read"]}
    made = plan(found("x", {"type": "http", "url": "https://example.com/mcp", "oauth": oauth}))
    assert entry(made)["oauth"] == {
        "client_id": "abc",
        "client_secret": "${keyring:x-oauth-client-secret}",
        "scopes": ["read"],
    }
    assert_hidden(made, "s3cr3t")


def test_equal_values_share_one_secret() -> None:
    one = {"command": "uvx", "args": ["one"], "env": {"GITHUB_TOKEN": "hunter2000"}}
    other = {"command": "uvx", "args": ["other"], "env": {"GH_TOKEN": "hunter2000"}}
    made = plan(found("github", one), found("gh", other, "codex"))
    assert values(made) == {"github-token": "hunter2000"}
    assert made.secrets["github-token"].servers == ["github", "gh"]


def test_a_name_that_is_taken_by_another_value_gets_a_number(shell: Shell) -> None:
    one = {"command": "uvx", "args": ["one"], "env": {"GITHUB_TOKEN": "hunter2000"}}
    other = {"command": "uvx", "args": ["other"], "env": {"GITHUB_TOKEN": "hunter3000"}}
    shell.secrets = {"github-token": "stored before"}
    made = shell.plan(found("github", one), found("github", other, "codex"))
    assert values(made) == {"github-token-2": "hunter2000", "github-token-3": "hunter3000"}


def test_a_secret_that_is_stored_already_is_not_stored_again(shell: Shell) -> None:
    shell.secrets = {"github-token": "hunter2000"}
    made = shell.plan(found("github", {"command": "uvx", "env": {"GITHUB_TOKEN": "hunter2000"}}))
    assert entry(made)["env"] == {"GITHUB_TOKEN": "${keyring:github-token}"}
    assert not made.secrets["github-token"].is_new


def test_a_secret_beside_a_reference_that_stays_is_found() -> None:
    made = plan(found("x", {"command": "uvx", "env": {"DB": "postgres://${USERNAME}:s3cr3tvalue@${HOST:-db}/x"}}))
    assert entry(made)["env"] == {"DB": "postgres://${USERNAME}:${keyring:x-password}@${HOST:-db}/x"}
    assert_hidden(made, "s3cr3t")


def test_a_private_key_is_one_secret() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\ndef\n-----END OPENSSH PRIVATE KEY-----\n"
    assert values(plan(found("x", {"command": "uvx", "env": {"DEPLOY": key}}))) == {"deploy": key}


def test_what_is_taken_apart_is_what_was_there() -> None:
    for text in ("a https://u:pw@h/x?token=abcdefgh&y=1 b", f"{JWT} {JWT}", "", "plain", "\0"):
        pieces = placeholders.url((text,))
        assert "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) == text
    assert plain(placeholders.url(("plain",))) == "plain"

"""Which values are taken for secrets."""

import base64

import pytest

from hearth import secret_patterns
from hearth.clients.importer import placeholders
from hearth.clients.importer.placeholders import Secret
from hearth.config import show
from hearth.masking import Mask
from hearth.ops import import_servers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("MODE", word) for word in ("true", "False", "production", "debug", "8080", "1.2.3", "127.0.0.1", "de_DE")),
        *(("FOLDER", path) for path in ("/usr/bin:/bin", "/home/me/x", "~/x", "./x", "C:\\x", "/root")),
        ("API", "https://api.example.com/v1"),
        ("API", "http://localhost:3000/"),
        ("DAY", "2026-11-16"),
    ],
)
def test_plain_values_are_left_alone_unless_their_name_sounds_secret(name: str, value: str) -> None:
    assert list(secret_patterns.of_variable(name, value)) == []
    assert value in secret_patterns.of_variable(f"{name}_TOKEN", value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "hunter2"),
        ("X", "/wJalrXUtnFEMI+bPxRfiCYEXAMPLEKEY"),
        ("X", "https://hooks.example.com/services/T000/B000/XXXXXXXX"),
        ("X", "123456"),
        ("PASSWORD", "test"),
        ("GITHUB_PAT", "main"),
    ],
)
def test_what_may_be_a_secret_is_taken_for_one(name: str, value: str) -> None:
    assert value in secret_patterns.of_variable(name, value)


def test_the_password_in_an_address_is_a_secret_of_its_own() -> None:
    found = set(secret_patterns.of_variable("DATABASE_URL", "postgres://me:hunter%232@db/x?sslkey=abc/def"))
    assert {"hunter%232", "hunter#2", "me:hunter#2", "abc/def"} <= found
    assert "me" not in found


def test_headers_hide_what_follows_the_scheme_and_what_base64_hides() -> None:
    assert set(secret_patterns.of_header("Authorization", "Bearer abc.def")) == {"Bearer abc.def", "abc.def"}
    basic = base64.b64encode(b"me:hunter2").decode()
    assert {basic, "me:hunter2", "hunter2"} <= set(secret_patterns.of_header("Authorization", f"Basic {basic}"))
    assert list(secret_patterns.of_header("Accept", "application/json, text/event-stream")) == []
    assert list(secret_patterns.of_header("X-Api-Key", "test")) == ["test"]


def test_a_password_in_the_address_is_hidden_as_the_header_that_it_becomes() -> None:
    mask = Mask(secret_patterns.of_url("https://me:hunter2@host/mcp"))
    assert mask("Authorization: Basic " + base64.b64encode(b"me:hunter2").decode()) == "Authorization: Basic ***=="


def test_arguments_are_secret_by_the_name_before_them() -> None:
    arguments = ["--token", "aaaa", "--key=bbbb", "API_TOKEN=cccc", "Authorization: Bearer dddd", "-v", "plain"]
    assert list(secret_patterns.of_arguments(arguments)) == ["aaaa", "bbbb", "cccc", "Bearer dddd"]
    assert "hunter2" in secret_patterns.of_arguments(["postgres://me:hunter2@db/x"])


def test_an_address_is_shown_without_what_makes_it_secret() -> None:
    url = "https://host/api/s/0a1b2c3d4e5f6a7b8c9d/mcp?x=y"
    assert secret_patterns.masked_url(url) == "https://host/api/s/***/mcp?x=***"
    assert "0a1b2c3d4e5f6a7b8c9d" in secret_patterns.of_url(url)
    assert (
        secret_patterns.masked_url("http://h/?a=${B}&c=${D:-e}&f=${keyring:g}")
        == "http://h/?a=${B}&c=***&f=${keyring:g}"
    )
    assert secret_patterns.masked_url("https://host/some-longer-path-of-words/mcp") == (
        "https://host/some-longer-path-of-words/mcp"
    )


SAME = [
    *("MYSQL_PASS", "SMTP_PASS", "DB_PASS", "PASS", "DB_PWD", "passphrase", "dbPass", "PGPASSWORD", "API_KEY"),
    *("GITHUB_TOKEN", "CLIENT_SECRET", "AUTH_COOKIE", "AZURE_STORAGE_CONNECTION_STRING"),
]


@pytest.mark.parametrize("name", SAME)
def test_a_name_that_sounds_secret_does_so_to_everybody(name: str) -> None:
    """To whoever masks what is shown, and to whoever takes secrets out of files."""
    assert "hunter2000" in secret_patterns.of_arguments([f"--{name}", "hunter2000"])
    assert "hunter2000" in secret_patterns.of_arguments([f"{name}=hunter2000"])
    assert secret_patterns.is_secret(name, "hunter2000")
    assert import_servers.literal_secrets({"env": {name: "hunter2000"}}) == [("env", name)]
    assert placeholders.named(name, ("hunter2000",)) == (Secret("hunter2000", name),)


ARGUMENTS = [
    ["hearth-role-" + "s3cr3t_" * 6],
    ["-k", "s3cr3tvalue"],
    ["ghp_" + "s3cr3t" * 6],
    ["--x=sk-" + "s3cr3t" * 6],
    ["--pass", "s3cr3tvalue"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_what_an_import_takes_out_of_arguments_is_masked_where_it_is_shown(arguments: list[str]) -> None:
    hidden = placeholders.arguments([(each,) for each in arguments])
    assert any(isinstance(piece, Secret) for text in hidden for piece in text)
    assert not any("s3cr3t" in each for each in show.masked_arguments(tuple(arguments)))
    assert any("s3cr3t" in each for each in secret_patterns.of_arguments(arguments))
    assert "args" in import_servers.literal_places({"args": arguments})


def test_short_options_are_shown_where_their_value_is_plain() -> None:
    arguments = ("-p", "8080", "-k", "/etc/key.pem", "-t", "stdio", "-p", "my-project", "x")
    assert show.masked_arguments(arguments) == list(arguments)


def test_literal_secrets_are_found_beside_references_and_references_are_none() -> None:
    entry = {
        "env": {"DB_PASS": "${keyring:db-pass}", "PLAIN": "x", "TOKEN": "hunter2000"},
        "headers": {"Authorization": "Bearer ${API_TOKEN}", "X": "${A} ghp_" + "a1" * 18},
        "args": ["--token", "${TOKEN}"],
        "url": "https://me:hunter2000@example.com/${PATH}",
    }
    assert import_servers.literal_places(entry) == ["env.TOKEN", "headers.X", "url"]

"""Which values are taken for secrets."""

import base64

import pytest

from hearth import secrecy
from hearth.masking import Mask


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
    assert list(secrecy.of_variable(name, value)) == []
    assert value in secrecy.of_variable(f"{name}_TOKEN", value)


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
    assert value in secrecy.of_variable(name, value)


def test_the_password_in_an_address_is_a_secret_of_its_own() -> None:
    found = set(secrecy.of_variable("DATABASE_URL", "postgres://me:hunter%232@db/x?sslkey=abc/def"))
    assert {"hunter%232", "hunter#2", "me:hunter#2", "abc/def"} <= found
    assert "me" not in found


def test_headers_hide_what_follows_the_scheme_and_what_base64_hides() -> None:
    assert set(secrecy.of_header("Authorization", "Bearer abc.def")) == {"Bearer abc.def", "abc.def"}
    basic = base64.b64encode(b"me:hunter2").decode()
    assert {basic, "me:hunter2", "hunter2"} <= set(secrecy.of_header("Authorization", f"Basic {basic}"))
    assert list(secrecy.of_header("Accept", "application/json, text/event-stream")) == []
    assert list(secrecy.of_header("X-Api-Key", "test")) == ["test"]


def test_a_password_in_the_address_is_hidden_as_the_header_that_it_becomes() -> None:
    mask = Mask(secrecy.of_url("https://me:hunter2@host/mcp"))
    assert mask("Authorization: Basic " + base64.b64encode(b"me:hunter2").decode()) == "Authorization: Basic ***=="


def test_arguments_are_secret_by_the_name_before_them() -> None:
    arguments = ["--token", "aaaa", "--key=bbbb", "API_TOKEN=cccc", "Authorization: Bearer dddd", "-v", "plain"]
    assert list(secrecy.of_arguments(arguments)) == ["aaaa", "bbbb", "cccc", "Bearer dddd"]
    assert "hunter2" in secrecy.of_arguments(["postgres://me:hunter2@db/x"])


def test_an_address_is_shown_without_what_makes_it_secret() -> None:
    url = "https://host/api/s/0a1b2c3d4e5f6a7b8c9d/mcp?x=y"
    assert secrecy.masked_url(url) == "https://host/api/s/***/mcp?x=***"
    assert "0a1b2c3d4e5f6a7b8c9d" in secrecy.of_url(url)
    assert secrecy.masked_url("http://h/?a=${B}&c=${D:-e}&f=${keyring:g}") == "http://h/?a=${B}&c=***&f=${keyring:g}"
    assert secrecy.masked_url("https://host/some-longer-path-of-words/mcp") == (
        "https://host/some-longer-path-of-words/mcp"
    )

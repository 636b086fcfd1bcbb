"""Which values are hidden, and in which forms."""

import base64
import gc
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth import masking
from hearth.masking import Mask

SECRET = 'pä/ss w+ord"1'


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_hidden_however_it_is_written(written: str) -> None:
    shown = Mask([SECRET])(f"before {written} after {written}")
    assert re.sub("[\"'=]", "", shown) == "before *** after ***"


def test_of_two_secrets_the_longer_one_goes_first() -> None:
    assert Mask(["abcd", "abcdefgh"])("abcdefgh abcd") == "*** ***"


def test_each_line_of_a_secret_is_hidden() -> None:
    mask = Mask(["-----BEGIN-----\nMIIEvQIBADAN\nBgkqhkiG9w0B\n-----END-----\n"])
    assert mask("it said: MIIEvQIBADAN") == "it said: ***"


def test_the_beginning_of_a_secret_at_the_end_of_a_cut_text_is_hidden() -> None:
    mask = Mask(["ghp_0123456789abcdef"])
    assert mask("token ghp_0123456") == "token ***"
    assert mask("token ghp_0123456\N{REPLACEMENT CHARACTER}") == "token ***\N{REPLACEMENT CHARACTER}"
    assert mask("token ghp_012") == "token ghp_012"
    assert mask("token ghp_01234567 more") == "token ghp_01234567 more"


def test_what_is_too_short_to_be_a_secret_is_left_alone() -> None:
    assert Mask(["1", "abc", ""])("1 abc") == "1 abc"


def test_everywhere_counts_each_mask_for_as_long_as_somebody_holds_it() -> None:
    one, two = Mask(["first-secret"]), Mask(["second-secret"])
    assert masking.everywhere("first-secret second-secret") == "*** ***"
    del two
    gc.collect()
    assert masking.everywhere("first-secret second-secret") == "*** second-secret"
    assert one("second-secret") == "second-secret"


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
    assert list(masking.of_variable(name, value)) == []
    assert value in masking.of_variable(f"{name}_TOKEN", value)


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
    assert value in masking.of_variable(name, value)


def test_the_password_in_an_address_is_a_secret_of_its_own() -> None:
    found = set(masking.of_variable("DATABASE_URL", "postgres://me:hunter%232@db/x?sslkey=abc/def"))
    assert {"hunter%232", "hunter#2", "me:hunter#2", "abc/def"} <= found
    assert "me" not in found


def test_headers_hide_what_follows_the_scheme_and_what_base64_hides() -> None:
    assert set(masking.of_header("Authorization", "Bearer abc.def")) == {"Bearer abc.def", "abc.def"}
    basic = base64.b64encode(b"me:hunter2").decode()
    assert {basic, "me:hunter2", "hunter2"} <= set(masking.of_header("Authorization", f"Basic {basic}"))
    assert list(masking.of_header("Accept", "application/json, text/event-stream")) == []
    assert list(masking.of_header("X-Api-Key", "test")) == ["test"]


def test_a_password_in_the_address_is_hidden_as_the_header_that_it_becomes() -> None:
    mask = Mask(masking.of_url("https://me:hunter2@host/mcp"))
    assert mask("Authorization: Basic " + base64.b64encode(b"me:hunter2").decode()) == "Authorization: Basic ***=="


def test_arguments_are_secret_by_the_name_before_them() -> None:
    arguments = ["--token", "aaaa", "--key=bbbb", "API_TOKEN=cccc", "Authorization: Bearer dddd", "-v", "plain"]
    assert list(masking.of_arguments(arguments)) == ["aaaa", "bbbb", "cccc", "Bearer dddd"]
    assert "hunter2" in masking.of_arguments(["postgres://me:hunter2@db/x"])


def test_an_address_is_shown_without_what_makes_it_secret() -> None:
    url = "https://host/api/s/0a1b2c3d4e5f6a7b8c9d/mcp?x=y"
    assert masking.masked_url(url) == "https://host/api/s/***/mcp?x=***"
    assert "0a1b2c3d4e5f6a7b8c9d" in masking.of_url(url)
    assert masking.masked_url("https://host/some-longer-path-of-words/mcp") == (
        "https://host/some-longer-path-of-words/mcp"
    )


@given(st.text(min_size=4, max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_text_shows_a_secret(secret: str, before: str, after: str) -> None:
    mask = Mask([secret])
    shown = mask(before + secret + after)
    # Asterisks could only make it whole again if it had some itself.
    assert secret not in shown or "*" in secret

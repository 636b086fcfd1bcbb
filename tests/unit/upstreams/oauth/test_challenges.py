"""What a refusal says of the login that it wants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.upstreams.oauth.metadata import parse_challenge, parse_scopes

METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("header", "place", "wanted", "error"),
    [
        (f'Bearer resource_metadata="{METADATA}", scope="files:read"', METADATA, ("files:read",), None),
        (f'Bearer error="insufficient_scope",\t scope="a b a",resource_metadata="{METADATA}"', METADATA, ("a", "b"),
         "insufficient_scope"),
        ("Bearer", None, (), None),
        ('bearer realm="a, b", scope=one', None, ("one",), None),
        (f'Basic realm="x", Bearer resource_metadata="{METADATA}"', METADATA, (), None),
        (f'Bearer resource_metadata="{METADATA}", Basic realm="y", scope="not mine"', METADATA, (), None),
        ('Bearer realm="a \\"quoted\\" word", error="invalid_token"', None, (), "invalid_token"),
        ('Bearer scope="first", Bearer scope="second"', None, ("first",), None),
        ("Negotiate YII=, Bearer scope=x", None, ("x",), None),
        (None, None, (), None),
    ],
)  # fmt: skip
def test_a_header_is_understood(header: str | None, place: str | None, wanted: tuple[str, ...], error: str) -> None:
    found = parse_challenge(header)
    assert (found.resource_metadata, found.scopes, found.error) == (place, wanted, error)


def test_a_token_is_wanted_by_who_says_so_and_by_who_says_nothing() -> None:
    assert (
        parse_challenge("Bearer").is_for_tokens
        and parse_challenge(None).is_for_tokens
        and parse_challenge("Basic x, Bearer").is_for_tokens
    )
    assert not parse_challenge('Basic realm="x"').is_for_tokens


@given(st.text())
def test_nothing_in_a_header_breaks_it(text: str) -> None:
    parse_challenge(text)


def test_scopes_that_no_request_could_carry_are_left_out() -> None:
    assert parse_scopes('read "write" back\\slash ünder ok') == ("read", "ok")
    assert parse_scopes(["read"]) == ()

"""Where servers describe themselves, and what is believed of it.

What a refusal says of the login that it wants.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import LoginFailed
from hearth.upstreams.oauth import metadata
from hearth.upstreams.oauth.metadata import parse_challenge, parse_scopes

SERVER = "https://mcp.example.com/public/mcp"
ISSUER = "https://auth.example.com"
DOCUMENT: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "code_challenge_methods_supported": ["plain", "S256"],
}


def test_a_server_describes_itself_at_its_path_and_then_at_the_root() -> None:
    well_known = "https://mcp.example.com/.well-known/oauth-protected-resource"
    assert metadata.resource_places(f"{SERVER}?key=x") == [f"{well_known}/public/mcp", well_known]
    assert metadata.resource_places("https://MCP.example.com/") == [well_known]


def test_an_authorization_server_is_looked_for_in_the_order_of_the_specification() -> None:
    assert metadata.authority_places(f"{ISSUER}/tenant1") == [
        f"{ISSUER}/.well-known/oauth-authorization-server/tenant1",
        f"{ISSUER}/.well-known/openid-configuration/tenant1",
        f"{ISSUER}/tenant1/.well-known/openid-configuration",
    ]
    for issuer in (ISSUER, f"{ISSUER}/"):
        assert metadata.authority_places(issuer) == [
            f"{ISSUER}/.well-known/oauth-authorization-server",
            f"{ISSUER}/.well-known/openid-configuration",
        ]


@pytest.mark.parametrize(
    ("resource", "is_right"),
    [
        (SERVER, True),
        (f"{SERVER}/", True),
        ("https://mcp.example.com", True),
        ("https://mcp.example.com/", True),
        ("https://mcp.example.com/public", True),
        ("HTTPS://MCP.example.com/public/mcp", True),
        ("https://mcp.example.com/pub", False),
        ("https://mcp.example.com/public/mcp/more", False),
        ("https://mcp.example.com:444/public/mcp", False),
        ("http://mcp.example.com/public/mcp", False),
        ("https://evil.example/public/mcp", False),
        ("https://mcp.example.com.evil.example/public/mcp", False),
        (f"{SERVER}#x", False),
        ("https://[", False),
        (None, False),
        (["https://mcp.example.com"], False),
    ],
)
def test_a_description_is_believed_of_the_server_itself(resource: object, is_right: bool) -> None:
    document = {"resource": resource, "authorization_servers": [ISSUER]}
    if is_right:
        assert metadata.read_resource(document, SERVER, near=False).resource == resource
    else:
        with pytest.raises(LoginFailed, match="would be for another"):
            metadata.read_resource(document, SERVER, near=False)


@pytest.mark.parametrize(
    ("url", "near", "is_safe"),
    [
        ("https://a.example", False, True),
        ("http://a.example", False, False),
        ("http://a.example", True, False),
        ("http://127.0.0.1:8000", True, True),
        ("http://localhost/x", True, True),
        ("http://[::1]:1/x", True, True),
        # A server elsewhere has no business with who listens here.
        ("http://127.0.0.1:8000", False, False),
        ("https://127.0.0.1:8000", False, False),
        ("http://127.0.0.1.evil.example", True, False),
        ("file:///etc/passwd", True, False),
        ("https://a.example/ x", False, False),
        ("https://", False, False),
        (7, False, False),
    ],
)
def test_where_a_token_may_be_sent(url: object, near: bool, is_safe: bool) -> None:
    assert metadata.is_safe(url, near) is is_safe


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"issuer": f"{ISSUER}/"}, "calls itself"),
        ({"issuer": ISSUER.upper()}, "calls itself"),
        ({"issuer": None}, "calls itself nothing"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": "S256"}, "PKCE"),
        ({"token_endpoint": None}, "token_endpoint"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"token_endpoint": "http://127.0.0.1/token"}, "token_endpoint"),
    ],
)
def test_an_authorization_server_that_does_not_fit_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(LoginFailed, match=words):
        metadata.read_authority({**DOCUMENT, **change}, ISSUER, near=False)


def test_an_authorization_server_is_read() -> None:
    more = {
        "registration_endpoint": "http://plain.example/register",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "scopes_supported": ["read", 7, "offline_access"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    found = metadata.read_authority({**DOCUMENT, **more}, ISSUER, near=False)
    assert (found.registration_endpoint, found.revocation_endpoint) == (None, f"{ISSUER}/revoke")
    assert found.scopes == ("read", "offline_access")
    assert found.takes_documents and found.names_itself and found.methods is None


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

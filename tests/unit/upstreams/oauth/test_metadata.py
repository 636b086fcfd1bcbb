"""Where servers describe themselves, and what is believed of it.

What a refusal says of the login that it wants. Addresses on the way to a token are judged by where their names lead.
"""

import asyncio
import socket
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import LoginFailed
from hearth.upstreams.oauth import metadata
from hearth.upstreams.oauth.metadata import AddressPolicy, kind_of, parse_challenge, parse_scopes

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


# --- addresses

NAMES = {
    "mcp.example": ["93.184.215.14"],
    "login.example": ["93.184.215.15", "2606:2800:21f::1"],
    "rebound.example": ["127.0.0.1"],
    "half.example": ["93.184.215.15", "169.254.169.254"],
    "corp.example": ["10.1.2.3"],
    "idp.corp.example": ["10.9.9.9"],
    "localhost": ["127.0.0.1", "::1"],
    "nowhere.example": [],
}


async def look_up(host: str) -> list[str]:
    return NAMES.get(host, [host])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("93.184.215.14", "public"),
        ("2606:2800:21f::1", "public"),
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "loopback"),  # noqa: S104 - a connection to it reaches this machine
        ("::", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("240.0.0.1", "private"),
    ],
)
def test_an_address_is_classified(address: str, kind: str) -> None:
    assert kind_of(address) == kind


@pytest.mark.parametrize(
    ("server", "place"),
    [
        ("https://mcp.example/mcp", "https://rebound.example/"),
        ("https://mcp.example/mcp", "https://half.example/"),
        ("https://mcp.example/mcp", "https://corp.example/"),
        ("https://mcp.example/mcp", "https://169.254.169.254/latest"),
        ("https://mcp.example/mcp", "https://[::1]/"),
        ("https://mcp.example/mcp", "https://[::ffff:10.0.0.1]/"),
        ("http://localhost/mcp", "https://corp.example/"),
        ("https://corp.example/mcp", "https://rebound.example/"),
    ],
)
async def test_a_server_elsewhere_does_not_lead_into_this_network(server: str, place: str) -> None:
    with pytest.raises(LoginFailed, match=r"`oauth\.issuer`"):
        await AddressPolicy([server], look_up).check(place)


@pytest.mark.parametrize(
    ("trusted", "place"),
    [
        (["https://mcp.example/mcp"], "https://login.example/"),
        (["https://mcp.example/mcp"], "https://nowhere.example/"),
        (["http://localhost/mcp"], "http://127.0.0.1:99/"),
        (["https://corp.example/mcp"], "https://idp.corp.example/"),
        (["https://mcp.example/mcp", "https://corp.example/"], "https://corp.example/token"),
        (["https://mcp.example/mcp", "https://corp.example/"], "https://idp.corp.example/token"),
    ],
)
async def test_a_server_in_this_network_leads_to_its_own_kind(trusted: list[str], place: str) -> None:
    await AddressPolicy(trusted, look_up).check(place)


async def test_a_name_that_leads_elsewhere_after_the_lookup_gets_nothing() -> None:
    """The lookup says a public address, the connection ends up on this machine: nothing is sent to it."""

    async def says_public(host: str) -> list[str]:
        return NAMES["login.example"]

    received = bytearray()
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read())
        writer.close()
        ended.set()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, family=socket.AF_INET)
    port = listening.sockets[0].getsockname()[1]
    policy = AddressPolicy(["https://mcp.example/mcp"], says_public)
    async with listening, httpx.AsyncClient(event_hooks={"request": [policy.guard]}, trust_env=False) as web:
        with pytest.raises(LoginFailed, match=r"127\.0\.0\.1"):
            await web.get(f"http://localhost:{port}/token?secret")
        await asyncio.wait_for(ended.wait(), 30)
    assert bytes(received) == b""


async def test_a_host_that_the_user_has_written_is_asked() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    policy = AddressPolicy([f"http://127.0.0.1:{port}/mcp"])
    async with listening, httpx.AsyncClient(event_hooks={"request": [policy.guard]}, trust_env=False) as web:
        assert (await web.get(f"http://127.0.0.1:{port}/")).status_code == 204

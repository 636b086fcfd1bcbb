"""Addresses on the way to a token are judged by where their names lead."""

import asyncio
import socket

import httpx
import pytest

from hearth.errors import LoginFailed
from hearth.upstreams.oauth.address_policy import AddressPolicy, kind_of

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

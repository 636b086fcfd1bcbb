"""Servers behind a url on all kinds of ways: TLS with an authority of one's own, proxies, Unix sockets."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hearth.config import ServerSpec
from hearth.upstreams.http.client_setup import open_client
from support.certificates import Authority
from support.http.conversation import refused, talking, until
from support.other_users import fake_daemon, stranger
from support.requirements import needs_program
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite
from support.sites.old import OldSite
from support.sites.tunnel import ForwardProxy, TunnelProxy
from support.sites.web import Request, Site

# Whatever the machine has set must not decide these tests.
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a path that is short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="h", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


async def _call(url: str, **entry: object) -> None:
    async with talking(url, **entry) as talk:
        assert await talk.call("echo", text="x") == "x"


# --- TLS


@pytest.mark.parametrize("make", [LegacySite, ModernSite, OldSite])
async def test_an_authority_of_ones_own_is_trusted_by_its_file(
    make: type[Site], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(place)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with make(tls=authority.context) as site:
        assert site.url.startswith("https://")
        await _call(site.url)


async def test_an_authority_of_ones_own_is_trusted_by_its_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(place)
    (place / "trusted").mkdir()
    shutil.copy(authority.file, place / "trusted")
    subprocess.run([needs_program("openssl"), "rehash", place / "trusted"], check=True)
    monkeypatch.setenv("SSL_CERT_DIR", str(place / "trusted"))
    with LegacySite(tls=authority.context) as site:
        await _call(site.url)


async def test_an_unknown_authority_is_not_trusted(place: Path) -> None:
    with LegacySite(tls=Authority(place).context) as site:
        await refused(site.url, r"a certificate that is not trusted \(.*\); .* SSL_CERT_FILE")
        assert site.requests == []


async def test_a_certificate_for_another_host_is_not_trusted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(place, "DNS:elsewhere.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with LegacySite(tls=authority.context) as site:
        await refused(site.url, "a certificate that is not trusted")


async def test_a_server_without_tls_is_not_mistaken_for_one_with_it() -> None:
    class Plain(LegacySite):
        async def receive(self, reader: asyncio.StreamReader) -> Request:
            await reader.read(100)
            raise ConnectionError("that is no HTTP")

    with Plain() as site:
        await refused(site.url.replace("http:", "https:"), "cannot be reached")


async def test_a_file_of_certificates_that_is_not_there_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(place / "nothing.pem"))
    await refused("https://127.0.0.1:1/mcp", "SSL_CERT_FILE or SSL_CERT_DIR names cannot be read")


# --- proxies


async def test_requests_go_through_the_proxy_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with ForwardProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        await _call("http://server.example/mcp")
        assert {request.headers["host"] for request in proxy.requests} == {"server.example"}
        assert {request.target for request in proxy.requests} == {"http://server.example/mcp"}


async def test_a_proxy_tunnels_what_is_encrypted(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(place)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with TunnelProxy() as proxy, LegacySite(tls=authority.context) as site:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        await _call(site.url)
        assert set(proxy.tunnels) == {f"127.0.0.1:{site.port}"}


async def test_what_needs_no_proxy_goes_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with LegacySite() as site:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await _call(site.url)


async def test_a_proxy_that_refuses_or_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with TunnelProxy() as proxy:
        proxy.refuses = True
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        await refused("https://server.example/mcp", "through the proxy .*HTTP_PROXY and HTTPS_PROXY")
    await refused("https://server.example/mcp", "cannot be reached")


@pytest.mark.parametrize(("value", "sentence"), [("socks5://127.0.0.1:1", "SOCKS"), ("nonsense://x", "not an address")])
async def test_a_proxy_that_cannot_be_used_is_named(value: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", value)
    await refused("http://server.example/mcp", sentence)


async def test_a_stream_is_watched_by_the_kernel() -> None:
    with LegacySite(gives_sessions=False) as site:
        client = open_client("far", ServerSpec(name="far", url=site.url))
        async with await client.send("GET", {"Accept": "text/event-stream"}) as response:
            response.keep_alive()
            sock = response._inner.extensions["network_stream"].get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        await client.close()


# --- Unix sockets


@pytest.mark.parametrize("make", [LegacySite, ModernSite, OldSite])
async def test_a_server_on_a_unix_socket_is_reached_past_any_proxy(
    make: type[Site], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with make(unix=str(place / "s.sock")) as site:
        assert site.url.startswith(f"unix:{place}/s.sock")
        await _call(site.url)
        assert {request.headers["host"] for request in site.requests} == {"localhost"}


async def test_a_path_of_its_own_may_follow_the_sockets(place: Path) -> None:
    with LegacySite(unix=str(place / "s.sock"), path="/deep/down?x=1") as site:
        assert site.url == f"unix:{place}/s.sock:/deep/down?x=1"
        await _call(site.url)


async def test_a_socket_that_is_not_there_says_so(place: Path) -> None:
    await refused(f"unix:{place}/none.sock", "cannot be reached .No such file or directory.")


@pytest.mark.root
@pytest.mark.parametrize("mode", [0o777, 0o755])
async def test_nothing_is_sent_to_a_socket_that_another_user_could_put_there(place: Path, mode: int) -> None:
    """In /tmp, which every user can write to, also a folder of the other user's own may be a planted one."""
    user = stranger()
    inside = place / "inside"
    inside.mkdir()
    os.chown(inside, user.pw_uid, -1)
    for folder in (place, inside):
        folder.chmod(mode)
    with fake_daemon(inside / "s.sock", place / "heard") as fake:
        await refused(f"unix:{fake.path}", f"user {user.pw_uid} listens on {fake.path}, and /tmp can be written to by")
        await until(fake.heard, "the connection is accepted")
        fake.settle()
        assert set(fake.heard()) == {ord("+")}


@pytest.mark.root
async def test_a_server_of_another_user_is_asked_where_only_root_and_that_user_could_put_it() -> None:
    user = stranger()
    folder = Path(tempfile.mkdtemp(prefix="hearth-test-", dir="/run"))
    try:
        (folder / "s").mkdir()
        os.chown(folder / "s", user.pw_uid, -1)
        folder.chmod(0o755)
        answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        with fake_daemon(folder / "s" / "s.sock", folder / "heard", answer) as fake:
            await refused(f"unix:{fake.path}", "404")
            assert b"POST /mcp" in fake.heard()
    finally:
        shutil.rmtree(folder)

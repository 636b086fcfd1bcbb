"""Requests in a row on one connection, with a server that answers when it is told to."""

import asyncio
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hearth.daemon.http import uvicorn_protocol
from hearth.daemon.http.app import HttpApp
from hearth.daemon.http.connection import HttpConnection
from hearth.daemon.http.uvicorn_protocol import load_settings
from hearth.host.posix.peers import Peer

GET = b"GET /%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
ENDLESS_BYTES = 16 << 20


class Site:
    """As much of an app as a connection asks for. An answer is sent when `go` is set."""

    def __init__(self) -> None:
        config = SimpleNamespace(http_request_timeout=0, message_limit=1000, http_hosts=(), http_origins=())
        self.services = SimpleNamespace(config=config)
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.go = asyncio.Event()
        self.is_lost = asyncio.Event()

    def lost(self, _: HttpConnection) -> None:
        self.is_lost.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        self.is_asked.set()
        # As whoever reads a body does.
        await receive()
        await self.go.wait()
        body = scope["path"].encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


class Visit:
    """A connection, and its client's end of it."""

    def __init__(self) -> None:
        self.site = Site()
        self.client, self._server = socket.socketpair()
        self.client.setblocking(False)

    async def open(self) -> None:
        loaded = load_settings(self.site)
        self.wire = HttpConnection(cast(HttpApp, self.site), loaded, Peer(None, 0, -1))
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.wire, self._server)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def read(self) -> bytes:
        """Everything until the server says no more."""
        said = b""
        while data := await asyncio.get_running_loop().sock_recv(self.client, 65536):
            said += data
        return said


@pytest.fixture
async def visit() -> AsyncIterator[Visit]:
    found = Visit()
    with found.client:
        await found.open()
        yield found


async def test_who_goes_on_sending_behind_a_request_without_an_answer_is_not_read_any_more(visit: Visit) -> None:
    block = GET % 1 * 1000
    await visit.send(GET % 1)
    await visit.site.is_asked.wait()
    with pytest.raises(TimeoutError):
        for _ in range(ENDLESS_BYTES // len(block)):
            await asyncio.wait_for(visit.send(block), 0.5)
    assert len(visit.site.asked) == 1 and not visit.wire.pipeline
    # Nor when the first are answered: the others take their turn.
    visit.site.go.set()
    while len(visit.site.asked) < 2000:
        await asyncio.get_running_loop().sock_recv(visit.client, 65536)
        assert not visit.wire.pipeline


async def test_requests_in_a_row_are_answered_in_their_order(visit: Visit) -> None:
    visit.site.go.set()
    paths = [f"/{number}" for number in range(3000)]
    last = (GET % 3000).replace(b"Host", b"Connection: close\r\nHost")
    sending = asyncio.create_task(visit.send(b"".join(GET % number for number in range(3000)) + last))
    said = await visit.read()
    await sending
    assert visit.site.asked == [*paths, "/3000"] and said.count(b"HTTP/1.1 200") == 3001


async def test_a_client_that_goes_is_noticed_although_another_request_waits(visit: Visit) -> None:
    await visit.send(GET % 1 + GET % 2)
    await visit.site.is_asked.wait()
    visit.client.close()
    await visit.site.is_lost.wait()
    visit.site.go.set()
    await asyncio.sleep(0)
    assert visit.site.asked == ["/1"] and visit.wire.cycle.disconnected and not visit.wire._held


async def test_who_is_dismissed_gets_one_answer_and_nothing_else_is_read(visit: Visit) -> None:
    await visit.send(GET % 1 * 100)
    await visit.site.is_asked.wait()
    visit.wire.dismiss()
    visit.site.go.set()
    assert (await visit.read()).count(b"HTTP/1.1 200") == 1
    assert visit.site.asked == ["/1"] and not visit.wire._held


@pytest.mark.parametrize("size", [1, 2_000_000])
async def test_a_refusal_reaches_who_reads_it_only_after_everything_is_sent(size: int, visit: Visit) -> None:
    await visit.send(b"GET / HTTP/9.9\r\n\r\n" + b" " * size)
    said = await visit.read()
    assert said.startswith(b"HTTP/1.1 400 ") and b"Invalid HTTP version" in said
    visit.client.close()
    await visit.site.is_lost.wait()


@pytest.mark.parametrize("limit", ["LINGER_SECONDS", "LINGER_BYTES"])
async def test_nobody_is_heard_out_for_ever(monkeypatch: pytest.MonkeyPatch, limit: str, visit: Visit) -> None:
    if limit == "LINGER_SECONDS":
        monkeypatch.setattr(uvicorn_protocol, limit, 0.1)
    await visit.send(b"nonsense\r\n\r\n")
    if limit == "LINGER_BYTES":
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(40):
                await visit.send(b" " * 1_000_000)
    await visit.site.is_lost.wait()


async def test_a_daemon_that_goes_out_hears_nobody_out(visit: Visit) -> None:
    await visit.send(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
    await visit.site.is_asked.wait()
    visit.wire.refuse(503, "it is time")
    said = await visit.read()
    assert said.startswith(b"HTTP/1.1 503 ") and b"\r\nretry-after: 1\r\n" in said
    assert not visit.site.is_lost.is_set()
    visit.wire.close()
    await visit.site.is_lost.wait()

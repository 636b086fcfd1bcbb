"""`hearth bridge --to` when the server, the way to it or the client misbehaves: every request has one answer."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from process.remote_bridge import RemoteBridge, bridge_to
from support.clients import ENVELOPE, PREFIX, text_of
from support.kernel import until
from support.scripted_daemon import readable
from support.sites.legacy import LegacySite, content
from support.sites.modern import ModernSite
from support.sites.web import Reply, Request, Site


class Wicked(Site):
    """A server of the modern era with nothing to list, that does to a method what the test says."""

    def __init__(self, **doings: Callable[[Request, Reply], Any]) -> None:
        super().__init__()
        self.doings = {f"x/{name}": doing for name, doing in doings.items()}

    async def serve(self, request: Request, reply: Reply) -> None:
        await self.doings.get(request.message["method"], answer)(request, reply)

    @property
    def asked(self) -> list[Request]:
        """The requests of the client."""
        return [request for request in self.requests if request.message["method"].startswith("x/")]


async def answer(request: Request, reply: Reply) -> None:
    method = request.message["method"]
    result = {"resultType": "complete", "seen": method}
    if method == "server/discover":
        result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"completions": {}}, "ttlMs": 0}  # type: ignore[dict-item]
    await reply.json({"jsonrpc": "2.0", "id": request.message["id"], "result": result})


def seen(bridge: RemoteBridge, method: str = "x/ping") -> bool:
    """Whether the server answers a method of its own."""
    return bool(bridge.ask(method, _modern=True)["result"]["seen"] == method)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def error_of(message: dict[str, Any]) -> str:
    assert message["error"]["code"] == -32603
    return message["error"]["message"]


# --- the way to the server


def test_a_server_that_is_away_is_told_and_found_again() -> None:
    with LegacySite() as site:
        site.close()
        with bridge_to(site.url) as bridge:
            sentence = error_of(bridge.ask("tools/list", _modern=True))
            assert "cannot be reached (Connection refused)" in sentence and "--to" in sentence
            site.open()
            bridge.open()
            assert text_of(bridge.call("echo", text="back")) == "back"


def test_a_request_waits_for_a_server_that_is_restarting() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        site.close()
        id = bridge.begin("tools/call", name="echo", arguments={"text": "waited"})
        assert bridge.is_silent()
        site.open()
        assert text_of(bridge.answer_to(id)) == "waited"
        assert len(site.seen("tools/call")) == 1


def test_a_socket_that_is_not_there_is_named() -> None:
    with bridge_to("unix:/nowhere/at/all.sock") as bridge:
        sentence = error_of(bridge.ask("tools/list", _modern=True))
        assert "to:unix:/nowhere/at/all.sock" in sentence and "cannot be reached (No such file" in sentence
        assert error_of(bridge.ask("tools/list", _modern=True))
        assert bridge.leave() == []


def test_a_host_that_has_no_address_is_named() -> None:
    with bridge_to("http://nobody.invalid/mcp") as bridge:
        assert "http://nobody.invalid cannot be reached" in error_of(bridge.ask("tools/list", _modern=True))


def test_something_that_is_no_http_is_told() -> None:
    class Mail(Wicked):
        async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                await reader.read(10)
                writer.write(b"220 mail.example ESMTP\r\n\r\n")
                await writer.drain()

    with Mail() as site, bridge_to(site.url) as bridge:
        assert "broke the connection" in error_of(bridge.ask("tools/list", _modern=True))


def test_a_request_that_is_cancelled_before_the_server_says_anything_is_given_up() -> None:
    closed = []

    async def hang(request: Request, reply: Reply) -> None:
        await reply.gone.wait()
        closed.append(request)

    with Wicked(hang=hang) as site, bridge_to(site.url) as bridge:
        id = bridge.begin("x/hang", _modern=True)
        until(lambda: site.asked, "it is asked")
        bridge.cancel(id)
        until(lambda: closed, "the connection was closed")
        assert seen(bridge)
        assert bridge.leave() == []


# --- the server's answers


def test_a_message_that_is_spread_over_lines_reaches_the_client_on_one() -> None:
    async def pretty(request: Request, reply: Reply) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"a": "x"}}, indent=2)
        await reply.send(200, body.replace("\n", "\r\n").encode(), "application/json; charset=utf-8")

    async def spread(request: Request, reply: Reply) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": {"b": "y"}}, indent=2)
        await reply.stream()
        await reply.raw(b"\xef\xbb\xbf" + b"".join(b"data: %b\r\n" % line.encode() for line in body.split("\n")))
        await reply.raw(b"\r\n")
        await reply.end()

    with Wicked(pretty=pretty, spread=spread) as site, bridge_to(site.url) as bridge:
        assert bridge.ask("x/pretty", _modern=True)["result"]["a"] == "x"
        assert bridge.ask("x/spread", _modern=True)["result"]["b"] == "y"


def test_a_second_answer_is_dropped() -> None:
    async def twice(request: Request, reply: Reply) -> None:
        await reply.stream()
        for number in range(2):
            await reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": {"number": number}})
        await reply.event({"jsonrpc": "2.0", "id": 99, "result": {}})
        await reply.end()

    with Wicked(twice=twice) as site, bridge_to(site.url) as bridge:
        assert bridge.ask("x/twice", _modern=True)["result"]["number"] == 0
        assert seen(bridge)
        assert bridge.leave() == []


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b"{]", "application/json", "no answer to what it was asked"),
        (b'{"jsonrpc":"2.0","id":77,"result":{}}', "application/json", "no answer to what it was asked"),
        (b'{"jsonrpc":"2.0","method":"x"}', "application/json", "no answer to what it was asked"),
        (b"", "", "with nothing instead of JSON"),
        (b"\x1f\x8b", "application/octet-stream", "application/octet-stream instead of JSON"),
    ],
)
def test_what_is_no_answer_becomes_an_error(body: bytes, kind: str, words: str) -> None:
    async def odd(request: Request, reply: Reply) -> None:
        await reply.send(200, body, kind)

    with Wicked(odd=odd) as site, bridge_to(site.url) as bridge:
        assert words in error_of(bridge.ask("x/odd", _modern=True))
        assert seen(bridge)


def test_an_event_over_the_limit_is_an_error_and_the_next_is_not() -> None:
    async def huge(request: Request, reply: Reply) -> None:
        await reply.stream()
        await reply.raw(b"data: " + b"x" * (1 << 20))
        for _ in range(64):
            await reply.raw(b"x" * (1 << 20))
        await reply.raw(b"\n\n")
        await reply.end()

    with Wicked(huge=huge) as site, bridge_to(site.url) as bridge:
        assert "over the limit" in error_of(bridge.ask("x/huge", _modern=True))
        assert seen(bridge)


def test_a_large_answer_passes() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        text = "ä" * 2_000_000
        assert text_of(bridge.call_modern("echo", text=text)) == text


def test_a_server_that_asks_to_wait_is_asked_again() -> None:
    times = 0

    async def later(request: Request, reply: Reply) -> None:
        nonlocal times
        times += 1
        if times == 1:
            await reply.send(429, b"", Retry_After="1")
        else:
            await answer(request, reply)

    async def never(request: Request, reply: Reply) -> None:
        await reply.send(503, b"", Retry_After="3600")

    with Wicked(later=later, never=never) as site, bridge_to(site.url) as bridge:
        assert seen(bridge, "x/later")
        assert "HTTP 503" in error_of(bridge.ask("x/never", _modern=True))
        assert len(site.asked) == 3


def test_redirects_are_followed_at_home_and_nowhere_else() -> None:
    other = f"http://127.0.0.1:{free_port()}/mcp"

    class Moving(Wicked):
        async def serve(self, request: Request, reply: Reply) -> None:
            if request.message["method"] == "x/away":
                await reply.send(307, b"", Location=other)
            elif request.target == "/mcp":
                await reply.send(308, b"", Location="/new/mcp?a=1")
            else:
                await answer(request, reply)

    with Moving() as site, bridge_to(site.url, "--header", "X-Key: s3cret") as bridge:
        assert seen(bridge)
        assert site.requests[-1].target == "/new/mcp?a=1"
        sentence = error_of(bridge.ask("x/away", _modern=True))
        assert "which is not followed: put the new address after --to" in sentence and "s3cret" not in sentence


def test_a_redirect_for_the_moment_is_followed_for_one_request() -> None:
    class Elsewhere(Wicked):
        """Two questions are sent to another place for the moment, which has moved for good; the third is not."""

        async def serve(self, request: Request, reply: Reply) -> None:
            if request.target == "/moment":
                await reply.send(308, b"", Location="/after")
            elif request.target == "/mcp" and len(self.requests) < 6:
                await reply.send(302 if len(self.requests) == 1 else 307, b"", Location="/moment")
            else:
                await answer(request, reply)

    with Elsewhere() as site, bridge_to(site.url) as bridge:
        # The handshake is the first.
        for _ in range(2):
            assert seen(bridge)
        assert [request.target for request in site.requests] == ["/mcp", "/moment", "/after"] * 2 + ["/mcp"]


def test_a_kept_connection_that_ended_is_replaced() -> None:
    with Wicked() as site, bridge_to(site.url) as bridge:
        for _ in range(3):
            assert seen(bridge, "x/call")
            for writer in list(site._writers):
                site._loop.call_soon_threadsafe(writer.close)
            until(lambda: not site._writers, "the server has closed it")
        assert len(site.asked) == 3


# --- the client's pace

WITH_LOGS = {"_meta": {**ENVELOPE, f"{PREFIX}logLevel": "debug"}}


class Flooding(Wicked):
    """Says something on a stream for as long as it is read; `said` counts."""

    said = 0
    is_closed = False

    async def serve(self, request: Request, reply: Reply) -> None:
        if request.message.get("method") != "x/flood":
            await answer(request, reply)
            return
        await reply.stream()
        notice = {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "info", "data": "x" * 10_000},
        }
        while not reply.gone.is_set():
            await reply.event(notice)
            self.said += 1
            await asyncio.sleep(0)
        self.is_closed = True


def resident_bytes(bridge: RemoteBridge) -> int:
    with open(f"/proc/{bridge.child.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def is_still(count: Callable[[], int]) -> bool:
    before = count()
    with contextlib.suppress(AssertionError):
        until(lambda: count() != before, "it goes on", 0.5)
    return count() == before


def test_a_client_that_does_not_read_stops_the_stream_and_can_still_cancel() -> None:
    with Flooding() as site, bridge_to(site.url) as bridge:
        id = bridge.begin("x/flood", _modern=True, **WITH_LOGS)
        until(lambda: is_still(lambda: site.said) and site.said > 10, "the stream stands still")
        assert resident_bytes(bridge) < 60 << 20
        bridge.cancel(id)
        until(lambda: site.is_closed, "the stream was closed")
        # What had been read is delivered; then nothing more comes of it.
        assert seen(bridge)


def test_a_client_that_stops_reading_for_good_is_no_reason_not_to_end() -> None:
    with Flooding() as site, bridge_to(site.url, extra={"HEARTH_BRIDGE_EOF_GRACE": "0.2"}) as bridge:
        bridge.begin("x/flood", _modern=True, **WITH_LOGS)
        until(lambda: is_still(lambda: site.said) and site.said > 10, "the stream stands still")
        bridge.end_input()
        assert bridge.wait() == 0


def test_a_client_that_is_gone_ends_it() -> None:
    with Flooding() as site, bridge_to(site.url) as bridge:
        bridge.begin("x/flood", _modern=True, **WITH_LOGS)
        assert readable(bridge.output, 10)
        bridge.output.close()
        assert bridge.wait() == 0


def test_many_requests_at_once_are_each_answered_once() -> None:
    with ModernSite() as site, bridge_to(site.url) as bridge:
        ids = [bridge.begin("tools/call", _modern=True, name="echo", arguments={"text": "x"}) for _ in range(500)]
        rest = bridge.leave()
        assert sorted(message["id"] for message in rest) == ids
        assert all(message["result"]["content"] == content("x")["content"] for message in rest)


def test_a_crowd_of_requests_that_hang_holds_up_neither_a_cancellation_nor_an_answer_to_the_server() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        bridge.open()
        asking = bridge.begin("tools/call", name="ask", arguments={})
        question = bridge.next_called("elicitation/create")
        hanging = [bridge.begin("tools/call", name="hang", arguments={}) for _ in range(200)]
        until(lambda: len(site.seen("tools/call")) >= 128, "as many as may be are asked")
        bridge.send(
            {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}
        )
        assert text_of(bridge.answer_to(asking)) == "hello Ada"
        bridge.cancel(hanging[0])
        until(lambda: site.withdrawn, "the server was told")
        for id in hanging[1:]:
            bridge.cancel(id)
        assert text_of(bridge.call("echo", text="free again")) == "free again"
        # Those that had not been asked yet never are.
        assert len(site.seen("tools/call")) < 202


def test_a_flood_before_the_handshake_is_done_waits_for_it() -> None:
    with LegacySite() as site, bridge_to(site.url) as bridge:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        calls = ({"name": "echo", "arguments": {"text": "x"}} for _ in range(300))
        bridge.send(
            {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            *({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call} for id, call in enumerate(calls)),
        )
        assert len([message for message in bridge.leave() if "result" in message]) == 301

"""Servers behind a url in trouble: each costs its own callers a sentence that says what to do, and tells no secret."""

import asyncio
import gzip
import json
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hearth.errors import UpstreamBusy
from support.http.conversation import Talk, bounded, refused, talking, until, visiting
from support.sites.legacy import LegacySite, content
from support.sites.modern import ModernSite
from support.sites.web import Reply, Request, Site

SECRET = "hunter2-in-a-header"


@pytest.fixture
def site() -> Iterator[LegacySite]:
    with LegacySite() as found:
        yield found


class StatusSite(Site):
    """Answers everything with one status."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__()
        self.status = status
        self.headers = headers

    async def serve(self, request: Request, reply: Reply) -> None:
        await reply.send(self.status, b"secret words", **self.headers)


# --- starting


@pytest.mark.parametrize("era", ["auto", "legacy", "modern"])
@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "Authorization in `headers`"),
        (403, "check `headers`"),
        (407, "HTTP_PROXY"),
        (429, "too many requests"),
        (500, "its own log"),
        (503, "not available"),
    ],
)
async def test_a_start_that_is_refused_says_what_to_do(era: str, status: int, advice: str) -> None:
    with StatusSite(status) as web:
        assert "secret" not in await refused(web.url, f"HTTP {status}: .*{advice}", era)
        assert len(web.seen("POST")) == 1


@pytest.mark.parametrize("transport", ["auto", "http", "sse"])
async def test_a_server_that_does_not_run_says_so(transport: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sentence = r"127\.0\.0\.1:.*cannot be reached \(Connection refused\)"
    await refused(f"http://127.0.0.1:{port}/secret/mcp?token=secret", sentence, transport=transport)


async def test_a_server_that_hangs_up_says_so() -> None:
    class Rude(Site):
        async def serve(self, request: Request, reply: Reply) -> None:
            reply.break_off()

    with Rude() as rude:
        await refused(rude.url, "broke the connection")


async def test_a_server_that_is_silent_to_the_modern_question_is_asked_in_the_old_way() -> None:
    class Silent(LegacySite):
        async def _session(self, request, reply):  # type: ignore[no-untyped-def]
            if request.method == "POST" and request.message.get("method") == "server/discover":
                await reply.gone.wait()
                return None
            return await super()._session(request, reply)

    with Silent() as silent:
        talk = Talk(silent.url, start_timeout=0.2)
        await talk.connection.open()
        discovering, unanswered = talk.request("server/discover")
        _, answer = talk.request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        assert (await bounded(answer.future)).result is not None
        talk.connection.forget(discovering)
        assert unanswered.times == 0
        await talk.connection.stop()


# --- answers that are none


@pytest.mark.parametrize(
    ("status", "sentence"),
    [(401, "Authorization"), (403, "check `headers`"), (413, "too large"), (502, "cannot reach it")],
)
async def test_a_call_that_is_refused_says_why_and_costs_nobody_else(
    site: LegacySite, status: int, sentence: str
) -> None:
    async with talking(site.url) as talk:
        said = await talk.problem("answer", status=status)
        assert f"HTTP {status}" in said
        assert sentence in said
        assert "secret" not in said
        assert await talk.call("echo", text="on") == "on"
        assert len(site.seen("initialize")) == 1


@pytest.mark.parametrize("status", [400, 404, 422, 500])
async def test_an_error_of_json_rpc_in_a_refusal_is_the_answer(site: LegacySite, status: int) -> None:
    async with talking(site.url) as talk:
        message = await bounded(talk.begin("refuse", status=status)[1].future)
        assert json.loads(message.error or b"") == {"code": -32602, "message": "not like this"}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((200, b"<html>", "text/html"), "with text/html instead of JSON"),
        ((202, b"", ""), "HTTP 202 with nothing"),
        ((200, b"{]", "application/json"), "no answer to what it was asked"),
        ((200, b'{"jsonrpc":"2.0","id":4711,"result":{}}', "application/json"), "no answer to what it was asked"),
        ((200, b"[]", "application/json"), "no answer to what it was asked"),
        ((200, b"\xff\xfe", "application/json"), "no answer to what it was asked"),
        ((304, b"", ""), "HTTP 304"),
    ],
)
async def test_what_is_no_answer_fails_its_call(answer: tuple[int, bytes, str], sentence: str) -> None:
    class Odd(LegacySite):
        async def _tool_page(self, session, message, reply):  # type: ignore[no-untyped-def]
            await reply.send(*answer)

    async with visiting(Odd()) as (_, talk):
        assert sentence in await talk.problem("page")
        assert await talk.call("echo", text="on") == "on"


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_over_the_limit_fails_its_call_and_is_not_read(streams: bool) -> None:
    async with visiting(LegacySite(streams=streams)) as (_, talk):
        assert "over the limit of 1048576 bytes (message_limit)" in await talk.problem("spell", bytes=30_000_000)
        assert len(await talk.call("spell", bytes=900_000)) == 900_000


async def test_a_line_without_an_end_is_cut_off() -> None:
    class Endless(LegacySite):
        async def _tool_spell(self, session, message, reply):  # type: ignore[no-untyped-def]
            await reply.stream()
            await reply.raw(b"data: ")
            while not reply.gone.is_set():
                await reply.raw(b"x" * 65536)
                await asyncio.sleep(0)

    async with visiting(Endless(), limits=(100_000, 100_000)) as (_, talk):
        assert "over the limit of 100000 bytes" in await talk.problem("spell")
        assert await talk.call("echo", text="on") == "on"


async def test_a_compressed_answer_is_read() -> None:
    class Small(LegacySite):
        async def _tool_echo(self, session, message, reply, text=""):  # type: ignore[no-untyped-def]
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": content(text)}
            packed = gzip.compress(json.dumps(answer).encode())
            await reply.send(200, packed, "application/json", Content_Encoding="gzip")

    async with visiting(Small()) as (_, talk):
        assert await talk.call("echo", text="packed") == "packed"


async def test_a_server_that_does_not_read_is_busy() -> None:
    class Deaf(LegacySite):
        deaf = False

        async def receive(self, reader: asyncio.StreamReader) -> Request:
            if self.deaf:
                await asyncio.Event().wait()
            return await super().receive(reader)

    async with visiting(Deaf(), limits=(2**26, 2**16)) as (site, talk):
        await until(lambda: site.listening, "the stream is open")
        site.deaf = True
        talk.begin("echo", text="x" * 20_000_000)
        with pytest.raises(UpstreamBusy, match="upstream_queue_limit"):
            talk.begin("echo", text="y")


async def test_a_server_that_asks_and_takes_no_answers_is_not_answered_for_ever() -> None:
    class Curious(LegacySite):
        async def _tool_report(self, session, message, reply):  # type: ignore[no-untyped-def]
            await reply.stream()
            for number in range(2000):
                await reply.event({"jsonrpc": "2.0", "id": f"ping-{number}", "method": "ping"})
            await self._result(reply, message, content("asked"))

        async def serve(self, request: Request, reply: Reply) -> None:
            if request.method == "POST" and "method" not in request.message:
                await reply.gone.wait()
            else:
                await super().serve(request, reply)

    async with visiting(Curious(), limits=(2**20, 2**16)) as (_, talk):
        assert await talk.call("report") == "asked"
        assert len(talk.connection._tasks) < 50  # type: ignore[attr-defined]


class Fickle(LegacySite):
    """Takes the next request with that method, and hangs up without a word."""

    fickle_about = ""

    async def serve(self, request: Request, reply: Reply) -> None:
        if request.method == "POST" and request.message.get("method") == self.fickle_about:
            self.fickle_about = ""
            reply.break_off()
        else:
            await super().serve(request, reply)


@pytest.mark.parametrize("method", ["tools/list", "resources/subscribe"])
async def test_what_may_be_asked_twice_is_when_a_kept_connection_ends_under_it(method: str) -> None:
    async with visiting(Fickle()) as (site, talk):
        site.fickle_about = method
        await talk.ask(method, uri="a:b")
        assert len(site.seen(method)) == 2


async def test_what_is_told_is_told_again_when_a_kept_connection_ends_under_it() -> None:
    with Fickle() as site:
        site.fickle_about = "notifications/initialized"
        async with talking(site.url) as talk:
            assert await talk.call("echo", text="x") == "x"
            assert len(site.seen("notifications/initialized")) == 2


async def test_a_tool_is_never_called_twice() -> None:
    async with visiting(Fickle()) as (site, talk):
        site.fickle_about = "tools/call"
        assert "may or may not have been done" in await talk.problem("echo", text="x")
        assert len(site.seen("tools/call")) == 1


# --- redirects


class Moved(LegacySite):
    """Redirects from /old and /mcp to `target`."""

    target = ""
    status = 307

    async def serve(self, request: Request, reply: Reply) -> None:
        if request.target != self.path:
            await reply.send(self.status, Location=self.target)
        else:
            await super().serve(request, reply)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_on_the_same_server_is_followed_and_kept(status: int) -> None:
    with Moved(path="/mcp/") as moved:
        moved.target, moved.status = "/mcp/", status
        async with talking(moved.url.replace("/mcp/", "/mcp"), headers={"Authorization": SECRET}) as talk:
            assert await talk.call("echo", text="x") == "x"
        assert {request.headers["authorization"] for request in moved.requests} == {SECRET}
        assert len([request for request in moved.requests if request.target == "/mcp"]) == 1


@pytest.mark.parametrize("transport", ["auto", "http", "sse"])
@pytest.mark.quick
async def test_a_redirect_to_another_server_is_not_followed(site: LegacySite, transport: str) -> None:
    with Moved(path="/here") as moved:
        moved.target = site.url
        sentence = f"redirects to http://127.0.0.1:{site.port}, which is not followed"
        await refused(moved.url.replace("/here", "/mcp"), sentence, transport=transport)
        assert site.requests == []


@pytest.mark.parametrize("target", ["/loop", "http://[/", "https://:x/"])
async def test_a_redirect_to_nowhere_ends(target: str) -> None:
    with Moved(path="/here") as moved:
        moved.target = target
        await refused(moved.url.replace("/here", "/mcp"), "redirects")
        assert len(moved.requests) <= 5


# --- headers


@pytest.mark.parametrize("make", [LegacySite, ModernSite])
async def test_the_entrys_headers_go_with_every_request_and_into_no_log(
    make: type[LegacySite], caplog: pytest.LogCaptureFixture
) -> None:
    class AnyPath(make):  # type: ignore[valid-type, misc]
        async def serve(self, request: Request, reply: Reply) -> None:
            await super().serve(request._replace(target=request.target.partition("?")[0]), reply)

    given = {"Authorization": f"Bearer {SECRET}", "X-Other": "1", "Accept": "nonsense"}
    with AnyPath() as site, caplog.at_level(logging.DEBUG):
        async with talking(site.url + "?token=secret-in-the-address", headers=given) as talk:
            await talk.call("echo", text="x")
            await talk.problem("lose")
        for request in site.requests:
            assert request.headers["authorization"] == f"Bearer {SECRET}"
            assert request.headers["x-other"] == "1"
        for secret in (SECRET, "secret-in-the-address", "session-1"):
            assert secret not in caplog.text


@pytest.mark.parametrize("value", ["caf\u00e9 \u2603 hunter2", "hunter2\x7f\x00"])
async def test_a_header_that_cannot_be_sent_is_named_without_its_value(site: LegacySite, value: str) -> None:
    assert "hunter2" not in await refused(site.url, "a header of its entry has a character", headers={"X-Key": value})


# --- what it costs who has none


def test_nothing_of_http_is_loaded_before_a_server_needs_it() -> None:
    script = (
        "import sys, hearth.upstreams.http, hearth.upstreams.http.connection\n"
        "print([name for name in ('httpx', 'httpcore', 'anyio', 'h11', 'certifi') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

"""Servers behind a url, modern era: no session, headers that repeat the body, cancelling by closing."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hearth.errors import UpstreamError
from hearth.mcp import http_headers
from support.http.conversation import META, Answer, Talk, as_bytes, bounded, talking, text_of, until, visiting
from support.sites.legacy import LegacySite
from support.sites.modern import ModernSite
from support.sites.web import Reply, Request

LOGGED = {"level": "info", "data": "at it"}


@pytest.fixture
def site() -> Iterator[ModernSite]:
    with ModernSite() as found:
        yield found


@pytest.fixture
async def talk(site: ModernSite) -> AsyncIterator[Talk]:
    async with talking(site.url) as found:
        yield found


def learn(talk: Talk, tools: list[dict[str, object]]) -> None:
    """What an owner does with every list of tools."""
    talk.connection.learn_headers(
        {str(tool["name"]): http_headers.index(as_bytes(tool["inputSchema"])) for tool in tools}
    )


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("dual", [True, False])
async def test_a_server_is_greeted_called_and_left_without_a_session(streams: bool, dual: bool) -> None:
    async with visiting(ModernSite(streams=streams, dual=dual)) as (site, talk):
        assert talk.era == "modern"
        assert await talk.call("echo", text="é\n") == "é\n"
        assert (await talk.ask("resources/read", uri="file:///ä b"))["contents"][0]["text"] == "read"
    # Nobody asked for a session: the answer to the first question was enough.
    assert site.seen("initialize") == []
    assert site.seen("DELETE") == []


async def test_a_session_that_comes_behind_the_modern_answer_is_given_back() -> None:
    class Slow(ModernSite):
        async def _server_discover(self, request, message, reply):  # type: ignore[no-untyped-def]
            while not self.seen("initialize"):
                await asyncio.sleep(0.005)
            await super()._server_discover(request, message, reply)

        async def _initialize(self, request, reply):  # type: ignore[no-untyped-def]
            while not self.seen("tools/call"):
                await asyncio.sleep(0.005)
            await super()._initialize(request, reply)

    async with visiting(Slow(dual=True), start_timeout=0.2) as (site, talk):
        assert talk.era == "modern"
        assert await talk.call("echo", text="x") == "x"
        await until(lambda: site.deleted, "the session is ended")
    assert site.deleted == ["session-1"]


@pytest.mark.parametrize("era", ["legacy", "any legacy"])
async def test_a_server_of_both_eras_is_used_in_the_one_that_is_asked_for(era: str) -> None:
    async with visiting(ModernSite(dual=True), era) as (site, talk):
        assert talk.era == "legacy"
        assert await talk.call("echo", text="x") == "x"
    assert site.deleted == ["session-1"]
    assert site.seen("server/discover") == []


@pytest.mark.parametrize("echoes", [True, False])
async def test_a_server_that_is_greeted_in_the_wrong_era_first_is_understood(echoes: bool) -> None:
    class Absent(ModernSite):
        async def _error(self, reply, message, *problem):  # type: ignore[no-untyped-def]
            await super()._error(reply, message if echoes else {"id": None}, *problem)

    async with visiting(Absent(), "any legacy") as (site, talk):
        assert talk.era == "modern"
        assert await talk.call("echo", text="x") == "x"
    assert [request.message["method"] for request in site.requests] == ["initialize", "server/discover", "tools/call"]


async def test_an_error_of_the_modern_era_proves_it() -> None:
    with ModernSite(supported=("2027-01-01",)) as site:
        talk = Talk(site.url)
        await talk.connection.open()
        _, answer = talk.request("server/discover")
        message = await bounded(answer.future)
        assert json.loads(message.error or b"")["code"] == -32022
        await talk.connection.stop()


async def test_what_comes_on_a_requests_stream_is_known_to_be_caused_by_it(talk: Talk) -> None:
    number, answer = talk.begin("report")
    assert text_of(await answer.future) == "reported"
    assert answer.progress == [1]
    assert talk.notices == [("notifications/message", LOGGED, number)]


async def test_cancelling_closes_the_stream_and_says_nothing(site: ModernSite, talk: Talk) -> None:
    number, answer = talk.begin("hang")
    await until(lambda: talk.notices, "the call is under way")
    talk.connection.cancel(number, b'"enough"')
    await until(lambda: site.closed, "the stream is closed")
    assert answer.times == 0
    assert site.seen("notifications/cancelled") == []
    assert await talk.call("echo", text="on") == "on"


async def test_stopping_closes_every_stream() -> None:
    async with visiting(ModernSite()) as (_, talk):
        calls = [talk.begin("hang") for _ in range(3)]
        await until(lambda: len(talk.notices) == 3, "the calls are under way")
    for _, answer in calls:
        with pytest.raises(UpstreamError, match="was stopped"):
            await answer.future


async def test_no_notification_is_sent_at_all() -> None:
    async with visiting(ModernSite()) as (site, talk):
        talk.connection.notify("notifications/roots/list_changed")
        assert await talk.call("echo", text="x") == "x"
    assert {request.message["method"] for request in site.requests} == {"server/discover", "tools/call"}


# --- headers


async def test_arguments_go_into_headers_where_the_tool_asks_for_it(site: ModernSite, talk: Talk) -> None:
    learn(talk, (await talk.ask("tools/list"))["tools"])
    assert await talk.call("locate", region="us-west1") == "us-west1"
    assert await talk.call("locate", region="Zürich, ∀") == "Zürich, ∀"
    assert await talk.call("locate") == "None"
    assert len(site.seen("tools/call")) == 3


async def test_a_header_that_the_server_misses_is_learned_and_the_call_repeated_once(
    site: ModernSite, talk: Talk
) -> None:

    def refresh(method: str) -> None:
        assert method == "notifications/tools/list_changed"
        _, answer = talk.request("tools/list")
        answer.future.add_done_callback(lambda done: learn(talk, json.loads(done.result().result)["tools"]))

    learn(talk, (await talk.ask("tools/list"))["tools"])
    talk.on_notice = refresh
    site.header = "Place"
    number, answer = talk.begin("locate", region="here")
    assert text_of(await bounded(answer.future)) == "here"
    assert answer.times == 1
    assert [found.message["id"] for found in site.seen("tools/call")] == [number, number]


async def test_a_header_that_the_server_misses_for_ever_is_the_callers_error(site: ModernSite, talk: Talk) -> None:
    talk.on_notice = lambda method: talk.connection.learn_headers({})
    message = await bounded(talk.begin("locate", region="here")[1].future)
    assert json.loads(message.error or b"")["code"] == -32020
    assert len(site.seen("tools/call")) == 2
    assert talk.lost_count == 0


# --- streams that stay open


def listen(talk: Talk) -> tuple[int, Answer]:
    answer = Answer()
    params = {"_meta": META, "notifications": {"toolsListChanged": True}}
    return talk.connection.request_stream(b'"subscriptions/listen"', as_bytes(params), answer), answer


async def test_a_subscription_is_a_stream_that_stays_open(site: ModernSite, talk: Talk) -> None:
    number, answer = listen(talk)
    await until(lambda: talk.notices, "it is acknowledged")
    site.tell("notifications/tools/list_changed")
    await until(lambda: len(talk.notices) == 2, "the notice is there")
    assert talk.notices[1] == ("notifications/tools/list_changed", {}, number)
    assert talk.connection.in_flight == 0
    talk.connection.cancel(number)
    await until(lambda: site.closed, "the stream is closed")
    assert answer.times == 0


class SlowSubscriptions(ModernSite):
    """Server that acknowledges no subscription before `granted` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.granted = asyncio.Event()

    async def _subscriptions_listen(self, request: Request, message: Any, reply: Reply) -> None:
        await self.granted.wait()
        await super()._subscriptions_listen(request, message, reply)

    async def grant(self) -> None:
        self.granted.set()


async def test_a_call_does_not_overtake_the_subscription_before_it() -> None:
    async with visiting(SlowSubscriptions()) as (site, talk):
        params = {"_meta": META, "notifications": {"resourceSubscriptions": ["note://board"]}}
        talk.connection.request_stream(b'"subscriptions/listen"', as_bytes(params), Answer())
        _, answer = talk.begin("echo", text="behind it")
        # No call holds this one back: when it is there, the call before it would be there, too.
        listen(talk)
        await until(lambda: len(site.seen("subscriptions/listen")) == 2, "both subscriptions are there")
        assert site.seen("tools/call") == []
        site.do(site.grant())
        assert (await bounded(answer.future)).result is not None


async def test_a_subscription_that_ends_is_answered_or_fails(site: ModernSite, talk: Talk) -> None:
    _, first = listen(talk)
    await until(lambda: site.listens, "it listens")
    site.hang_up(properly=True)
    assert (await bounded(first.future)).result is not None
    _, second = listen(talk)
    await until(lambda: site.listens, "it listens again")
    site.hang_up(properly=False)
    with pytest.raises(UpstreamError, match="broke the connection"):
        await bounded(second.future)


async def test_a_broken_stream_is_not_taken_up_again() -> None:
    async with visiting(ModernSite()) as (site, talk):
        assert "may or may not have been done" in await talk.problem("lose")
        assert await talk.call("echo", text="on") == "on"
    assert site.seen("GET") == []


# --- another server in its place


async def test_an_unknown_method_is_answered_and_the_conversation_goes_on(talk: Talk) -> None:
    message = await bounded(talk.request("tasks/list")[1].future)
    assert json.loads(message.error or b"")["code"] == -32601
    assert await talk.call("echo", text="on") == "on"
    assert talk.lost_count == 0


@pytest.mark.parametrize(("tool", "status"), [("answer", 404), ("answer", 400), ("forbid", 400)])
async def test_a_server_that_no_longer_knows_the_modern_era_is_lost(tool: str, status: int) -> None:
    async with visiting(ModernSite()) as (_, talk):
        _, answer = talk.begin(tool, status=status)
        await until(lambda: talk.endings, "the conversation is over")
        assert answer.times == 1
        assert talk.lost_count == 1
        with pytest.raises(UpstreamError):
            talk.begin("echo")


async def test_a_modern_server_in_the_place_of_a_legacy_one_is_noticed() -> None:
    class Modern(ModernSite):
        def __enter__(self):  # type: ignore[no-untyped-def]
            self._thread.start()
            return self

        def _check(self, request, message, meta):  # type: ignore[no-untyped-def]
            # A legacy request has none of the headers.
            return -32020, "no headers"

        async def serve(self, request, reply):  # type: ignore[no-untyped-def]
            if request.method == "POST" and "id" in request.message:
                await self._serve(request, request.message, reply)
            else:
                await reply.send(405)

    with LegacySite(listens=False) as legacy, Modern() as modern:
        port = legacy.port
        async with talking(f"http://127.0.0.1:{port}/mcp") as talk:
            assert talk.era == "legacy"
            legacy.close()
            modern.port = port
            modern.open()
            _, answer = talk.begin("echo", text="x")
            await until(lambda: talk.endings, "the conversation is over")
            assert answer.times == 1

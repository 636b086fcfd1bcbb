"""Servers behind a url on the HTTP+SSE of 2024-11-05: asked for by name, or found where nothing newer is."""

import pytest

from hearth.errors import UpstreamError
from process.http_talk import Talk, bounded, run, talking, text_of, until
from process.sites.old import OldSite

TRANSPORTS = pytest.mark.parametrize("transport", ["auto", "sse"])


@TRANSPORTS
@pytest.mark.parametrize("era", ["auto", "any legacy", "legacy"])
def test_a_server_is_greeted_listed_called_and_left(transport: str, era: str) -> None:
    async def body() -> None:
        async with talking(site.url, era, transport=transport) as talk:
            assert talk.era == "legacy"
            assert talk.version == "2024-11-05"
            assert len((await talk.ask("tools/list"))["tools"]) > 5
            calls = [talk.begin("echo", text=str(turn)) for turn in range(30)]
            assert [text_of(await answer.future) for _, answer in calls] == [str(turn) for turn in range(30)]
            await talk.call("report")
            assert talk.notices == [("notifications/message", {"level": "info", "data": "at it"}, None)]
        assert talk.endings == ["server 'far' was stopped"]

    with OldSite() as site:
        run(body())
        assert site.opened == 1
        assert len([found for found in site.seen("initialize") if found.target != "/sse"]) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415])
def test_a_refused_post_leads_to_the_old_transport(status: int) -> None:
    async def body() -> None:
        async with talking(site.url) as talk:
            assert await talk.call("echo", text="x") == "x"

    with OldSite(posts_at_sse=status) as site:
        run(body())


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_refused_caller_leads_nowhere(status: int) -> None:
    async def body() -> None:
        with pytest.raises(UpstreamError, match=f"HTTP {status}"):
            async with talking(site.url):
                pass

    with OldSite(posts_at_sse=status) as site:
        run(body())
        assert site.opened == 0


def test_the_old_transport_is_not_tried_where_the_new_one_is_asked_for() -> None:
    async def body() -> None:
        with pytest.raises(UpstreamError, match="HTTP 405"):
            async with talking(site.url, transport="http"):
                pass

    with OldSite() as site:
        run(body())
        assert site.opened == 0


def test_a_server_that_speaks_neither_transport_is_told_of_both() -> None:
    async def body() -> None:
        with pytest.raises(UpstreamError, match=r"HTTP 405: .*; nor is it the old HTTP\+SSE: .*HTTP 404"):
            async with talking(site.url):
                pass

    class Neither(OldSite):
        async def _open_stream(self, request, reply):  # type: ignore[no-untyped-def]
            await reply.send(404)

    with Neither() as site:
        run(body())


def test_questions_come_without_their_cause_and_are_answered() -> None:
    async def body() -> None:
        async with talking(site.url) as talk:
            assert await talk.call("ask") == "ask"
            assert talk.questions == [("sampling/createMessage", None)]

    with OldSite() as site:
        run(body())


def test_cancelling_tells_the_server() -> None:
    async def body() -> None:
        async with talking(site.url) as talk:
            number, answer = talk.begin("hang")
            assert await talk.call("echo", text="x") == "x"
            talk.connection.cancel(number)
            await until(lambda: len(site.told) == 2, "the server is told")
            assert site.told[1]["params"] == {"requestId": number}
            assert answer.times == 0

    with OldSite() as site:
        run(body())


def test_the_conversation_ends_with_the_stream() -> None:
    async def body() -> None:
        async with talking(site.url) as talk:
            _, answer = talk.begin("hang")
            assert await talk.call("echo", text="x") == "x"
            site.break_streams()
            with pytest.raises(UpstreamError, match="broke the connection"):
                await bounded(answer.future)
            await until(lambda: talk.endings, "the owner is told")
            assert talk.lost_count == 1
            with pytest.raises(UpstreamError):
                talk.begin("echo")

    with OldSite() as site:
        run(body())


def test_a_message_that_is_not_taken_fails_at_once() -> None:
    async def body() -> None:
        async with talking(site.url) as talk:
            await until(lambda: site.told, "it is initialized")
            site.taken = 503
            assert "HTTP 503" in await talk.problem("echo", text="x")
            site.taken = 200
            assert await talk.call("echo", text="y") == "y"

    with OldSite() as site:
        run(body())


@TRANSPORTS
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/messages", "https://example.com/", "//example.com/x"])
def test_messages_are_never_sent_to_another_server(endpoint: str, transport: str) -> None:
    async def body() -> None:
        with pytest.raises(UpstreamError, match="another server"):
            async with talking(site.url, transport=transport):
                pass

    with OldSite(endpoint=endpoint) as site:
        run(body())


@pytest.mark.parametrize("endpoint", ["messages?session={}", "http://127.0.0.1:{port}/messages?session={{}}"])
def test_the_other_address_may_be_relative_or_whole(endpoint: str) -> None:
    async def body() -> None:
        site._endpoint = endpoint.format("{}", port=site.port)
        async with talking(site.url, transport="sse") as talk:
            assert await talk.call("echo", text="x") == "x"

    with OldSite() as site:
        run(body())


def test_a_failed_start_leaves_nothing_behind() -> None:
    async def body() -> None:
        talk = Talk(site.url, transport="sse")
        with pytest.raises(UpstreamError, match="ended its event stream"):
            await bounded(talk.connection.open())
        assert talk.endings == []

    class Short(OldSite):
        async def _open_stream(self, request, reply):  # type: ignore[no-untyped-def]
            await reply.stream()
            await reply.end()

    with Short() as site:
        run(body())

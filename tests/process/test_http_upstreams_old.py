"""Servers behind a url on the HTTP+SSE of 2024-11-05: asked for by name, or found where nothing newer is."""

import pytest

from hearth.errors import UpstreamError
from support.http.conversation import Talk, bounded, refused, talking, text_of, until, visiting
from support.sites.old import OldSite

TRANSPORTS = pytest.mark.parametrize("transport", ["auto", "sse"])


@TRANSPORTS
@pytest.mark.parametrize("era", ["auto", "any legacy", "legacy"])
async def test_a_server_is_greeted_listed_called_and_left(transport: str, era: str) -> None:
    async with visiting(OldSite(), era, transport=transport) as (site, talk):
        assert talk.era == "legacy"
        assert talk.version == "2024-11-05"
        assert len((await talk.ask("tools/list"))["tools"]) > 5
        calls = [talk.begin("echo", text=str(turn)) for turn in range(30)]
        assert [text_of(await answer.future) for _, answer in calls] == [str(turn) for turn in range(30)]
        await talk.call("report")
        assert talk.notices == [("notifications/message", {"level": "info", "data": "at it"}, None)]
    assert talk.endings == ["server 'far' was stopped"]
    assert site.opened == 1
    assert len([found for found in site.seen("initialize") if found.target != "/sse"]) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 406, 415])
async def test_a_refused_post_leads_to_the_old_transport(status: int) -> None:
    async with visiting(OldSite(posts_at_sse=status)) as (_, talk):
        assert await talk.call("echo", text="x") == "x"


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_refused_caller_leads_nowhere(status: int) -> None:
    with OldSite(posts_at_sse=status) as site:
        await refused(site.url, f"HTTP {status}")
        assert site.opened == 0


async def test_the_old_transport_is_not_tried_where_the_new_one_is_asked_for() -> None:
    with OldSite() as site:
        await refused(site.url, "HTTP 405", transport="http")
        assert site.opened == 0


async def test_a_server_that_speaks_neither_transport_is_told_of_both() -> None:
    class Neither(OldSite):
        async def _open_stream(self, request, reply):  # type: ignore[no-untyped-def]
            await reply.send(404)

    with Neither() as site:
        await refused(site.url, r"HTTP 405: .*; nor is it the old HTTP\+SSE: .*HTTP 404")


async def test_questions_come_without_their_cause_and_are_answered() -> None:
    async with visiting(OldSite()) as (_, talk):
        assert await talk.call("ask") == "ask"
        assert talk.questions == [("sampling/createMessage", None)]


async def test_cancelling_tells_the_server() -> None:
    async with visiting(OldSite()) as (site, talk):
        number, answer = talk.begin("hang")
        assert await talk.call("echo", text="x") == "x"
        talk.connection.cancel(number)
        await until(lambda: len(site.told) == 2, "the server is told")
        assert site.told[1]["params"] == {"requestId": number}
        assert answer.times == 0


async def test_the_conversation_ends_with_the_stream() -> None:
    async with visiting(OldSite()) as (site, talk):
        _, answer = talk.begin("hang")
        assert await talk.call("echo", text="x") == "x"
        site.break_streams()
        with pytest.raises(UpstreamError, match="broke the connection"):
            await bounded(answer.future)
        await until(lambda: talk.endings, "the owner is told")
        assert talk.lost_count == 1
        with pytest.raises(UpstreamError):
            talk.begin("echo")


async def test_a_message_that_is_not_taken_fails_at_once() -> None:
    async with visiting(OldSite()) as (site, talk):
        await until(lambda: site.told, "it is initialized")
        site.taken = 503
        assert "HTTP 503" in await talk.problem("echo", text="x")
        site.taken = 200
        assert await talk.call("echo", text="y") == "y"


@TRANSPORTS
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/messages", "https://example.com/", "//example.com/x"])
async def test_messages_are_never_sent_to_another_server(endpoint: str, transport: str) -> None:
    with OldSite(endpoint=endpoint) as site:
        await refused(site.url, "another server", transport=transport)


@pytest.mark.parametrize("endpoint", ["messages?session={}", "http://127.0.0.1:{port}/messages?session={{}}"])
async def test_the_other_address_may_be_relative_or_whole(endpoint: str) -> None:
    with OldSite() as site:
        site._endpoint = endpoint.format("{}", port=site.port)
        async with talking(site.url, transport="sse") as talk:
            assert await talk.call("echo", text="x") == "x"


async def test_a_failed_start_leaves_nothing_behind() -> None:
    class Short(OldSite):
        async def _open_stream(self, request, reply):  # type: ignore[no-untyped-def]
            await reply.stream()
            await reply.end()

    with Short() as site:
        talk = Talk(site.url, transport="sse")
        with pytest.raises(UpstreamError, match="ended its event stream"):
            await bounded(talk.connection.open())
        assert talk.endings == []

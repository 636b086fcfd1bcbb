"""Servers behind a url, legacy era: sessions, streams that break and are taken up again, and who said what."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from hearth.errors import UpstreamError
from support.http.conversation import Talk, talking, text_of, until, visiting
from support.sites.legacy import LegacySite, Session, told

LOGGED = {"level": "info", "data": "at it"}


@pytest.fixture
def site() -> Iterator[LegacySite]:
    with LegacySite() as found:
        yield found


@pytest.fixture
async def talk(site: LegacySite) -> AsyncIterator[Talk]:
    async with talking(site.url) as found:
        yield found


@pytest.mark.parametrize("era", ["any modern", "any legacy", "legacy"])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("gives_sessions", [True, False])
async def test_a_server_is_greeted_listed_called_and_left(era: str, streams: bool, gives_sessions: bool) -> None:
    async with visiting(LegacySite(streams=streams, gives_sessions=gives_sessions), era) as (site, talk):
        assert talk.era == "legacy"
        assert len((await talk.ask("tools/list"))["tools"]) > 5
        assert await talk.call("echo", text="é\n") == "é\n"
    assert talk.endings == ["server 'far' was stopped"]
    assert talk.lost_count == 0
    assert site.deleted == (["session-1"] if gives_sessions else [])
    assert len(site.seen("initialize")) == 1


async def test_a_server_is_asked_for_its_era_before_it_is_given_a_session() -> None:
    async with visiting(LegacySite()) as (site, _):
        pass
    assert [request.message["method"] for request in site.requests[:2]] == ["server/discover", "initialize"]


async def test_a_server_that_gives_a_session_to_a_stranger_gets_it_back() -> None:
    class Generous(LegacySite):
        async def _session(self, request, reply):  # type: ignore[no-untyped-def]
            if request.method == "POST" and request.message.get("method") == "server/discover":
                self.sessions["stray"] = Session("stray", "")
                await reply.json({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no"}},
                                 400, Mcp_Session_Id="stray")  # fmt: skip
                return None
            if request.headers.get("mcp-session-id") == "stray":
                return self.sessions["stray"]
            return await super()._session(request, reply)

    async with visiting(Generous()) as (site, talk):
        assert await talk.call("echo", text="1") == "1"
        await until(lambda: "stray" in site.deleted, "the stray session is ended")


async def test_what_comes_on_a_requests_stream_is_known_to_be_caused_by_it(talk: Talk) -> None:
    number, answer = talk.begin("report")
    other, second = talk.begin("report")
    assert text_of(await answer.future) == text_of(await second.future) == "reported"
    assert (answer.progress, second.progress) == ([1], [1])
    assert sorted((cause or 0) for method, params, cause in talk.notices if params == LOGGED) == [number, other]


async def test_questions_are_answered_while_their_calls_wait(talk: Talk) -> None:
    calls = [talk.begin("ask") for _ in range(5)]
    assert [text_of(await answer.future) for _, answer in calls] == ["hello Ada"] * 5
    assert sorted(talk.questions) == sorted(("elicitation/create", number) for number, _ in calls)


async def test_a_slow_stream_delays_nobody(talk: Talk) -> None:
    slow = [talk.begin("hang") for _ in range(20)]
    assert await talk.call("echo", text="quick") == "quick"
    assert not any(answer.future.done() for _, answer in slow)


async def test_the_server_speaks_by_itself_on_a_stream_of_its_own(site: LegacySite, talk: Talk) -> None:
    await until(lambda: site.listening, "the stream is open")
    site.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await until(lambda: talk.notices, "the notice is there")
    assert talk.notices == [("notifications/tools/list_changed", None, None)]


async def test_the_servers_own_stream_is_opened_again_after_the_last_event(site: LegacySite, talk: Talk) -> None:
    await until(lambda: site.listening, "the stream is open")
    site.say({"jsonrpc": "2.0", "method": "notifications/one"}, id="event-a")
    await until(lambda: talk.notices, "the notice is there")
    site.break_listeners()
    await until(lambda: len(site.seen("GET")) == 2, "the stream is opened again")
    assert "last-event-id" not in site.seen("GET")[0].headers
    assert site.seen("GET")[1].headers["last-event-id"] == "event-a"


async def test_what_may_have_been_missed_between_two_streams_is_looked_up(site: LegacySite, talk: Talk) -> None:
    await until(lambda: site.listening, "the stream is open")
    site.say({"jsonrpc": "2.0", "method": "notifications/one"})
    await until(lambda: talk.notices, "the notice is there")
    site.break_listeners()
    await until(lambda: len(talk.notices) == 3, "the lists are known to be old")
    assert [method for method, _, _ in talk.notices[1:]] == [
        "notifications/tools/list_changed",
        "notifications/resources/list_changed",
    ]


async def test_a_server_without_a_stream_of_its_own_is_asked_for_it_once() -> None:
    async with visiting(LegacySite(listens=False)) as (site, talk):
        await until(lambda: site.seen("GET"), "it was asked")
        for _ in range(3):
            assert await talk.call("echo", text="x") == "x"
        assert len(site.seen("GET")) == 1


@pytest.mark.parametrize(("tool", "text"), [("drop", "resumed"), ("poll", "polled")])
async def test_a_stream_that_ends_before_its_answer_is_taken_up_again(tool: str, text: str) -> None:
    async with visiting(LegacySite(listens=False)) as (site, talk):
        await until(lambda: site.seen("GET"), "the server's own stream was refused")
        number, answer = talk.begin(tool)
        assert text_of(await answer.future) == text
        assert answer.times == 1
        assert {cause for _, params, cause in talk.notices if params == LOGGED} == {number}
        assert [found.headers.get("last-event-id") for found in site.seen("GET")] == [None, f"event-{number}"]


async def test_a_stream_that_nothing_can_be_had_of_again_fails_its_request_only(talk: Talk) -> None:
    assert "may or may not have been done" in await talk.problem("lose")
    assert "may or may not have been done" in await talk.problem("silent")
    assert await talk.call("echo", text="still there") == "still there"


async def test_a_stream_left_open_after_its_answer_costs_nothing(talk: Talk) -> None:
    number, answer = talk.begin("linger")
    assert text_of(await answer.future) == "answered"
    await until(lambda: talk.notices, "what came behind the answer")
    assert talk.notices == [("notifications/message", LOGGED, number)]
    assert talk.connection.in_flight == 0


@pytest.mark.parametrize("streams", [True, False])
async def test_batches_are_taken_apart(streams: bool) -> None:
    async with visiting(LegacySite(version="2025-03-26", streams=streams)) as (_, talk):
        number, answer = talk.begin("batch")
        assert text_of(await answer.future) == "batched"
        assert talk.notices == [("notifications/message", LOGGED, number)]


async def test_garbage_on_a_stream_costs_only_itself(talk: Talk) -> None:
    assert await talk.call("garbage") == "after all"


# --- sessions that end


async def test_an_expired_session_is_renewed_and_the_request_repeated_once() -> None:
    async with visiting(LegacySite()) as (site, talk):
        await until(lambda: site.listening, "the stream is open")
        await talk.ask("logging/setLevel", level="debug")
        await talk.ask("resources/subscribe", uri="a:b")
        await talk.ask("resources/subscribe", uri="a:c")
        await talk.ask("resources/unsubscribe", uri="a:c")
        site.expire()
        assert await talk.call("echo", text="again") == "again"
        assert len(site.seen("initialize")) == 2
        first, second = site.seen("initialize")
        assert first.message["params"] == second.message["params"]
        assert len(told(site, "notifications/initialized")) == 1
        # What the old session had been told is said again, and the lists may be others.
        assert [found.message["params"] for found in site.seen("logging/setLevel")] == [{"level": "debug"}] * 2
        assert [found.message["params"]["uri"] for found in site.seen("resources/subscribe")] == ["a:b", "a:c", "a:b"]
        assert [method for method, _, cause in talk.notices] == [
            "notifications/tools/list_changed",
            "notifications/resources/list_changed",
        ]
        await until(lambda: site.listening, "the stream is open again")
    assert talk.endings == ["server 'far' was stopped"]
    assert site.deleted == ["session-2"]


async def test_many_requests_on_an_expired_session_get_one_new_session(site: LegacySite, talk: Talk) -> None:
    site.expire()
    calls = [talk.begin("echo", text=str(turn)) for turn in range(30)]
    assert [text_of(await answer.future) for _, answer in calls] == [str(turn) for turn in range(30)]
    assert len(site.seen("initialize")) == 2


async def test_a_session_that_is_wanted_all_of_a_sudden_is_begun() -> None:
    async with visiting(LegacySite(gives_sessions=False)) as (site, talk):
        assert await talk.call("echo", text="1") == "1"
        site._gives_sessions = True
        assert await talk.call("echo", text="2") == "2"
        assert len(site.seen("initialize")) == 2


async def test_a_session_that_expires_again_at_once_fails_the_request() -> None:
    class Forgetful(LegacySite):
        async def _tool_echo(self, session, message, reply, text=""):  # type: ignore[no-untyped-def]
            await reply.send(404)

    async with visiting(Forgetful()) as (site, talk):
        assert "HTTP 404" in await talk.problem("echo", text="x")
        assert len(site.seen("initialize")) == 2
        assert len(site.seen("tools/call")) == 2


async def test_a_server_that_was_restarted_is_found_again_by_the_stream_that_it_broke(
    site: LegacySite, talk: Talk
) -> None:
    await until(lambda: site.listening, "the stream is open")
    site.close()
    site.expire()
    assert "cannot be reached" in await talk.problem("echo", text="x")
    site.open()
    await until(lambda: site.listening, "the stream is open again, in a new session")
    assert await talk.call("echo", text="back") == "back"
    assert len(site.seen("initialize")) == 2
    assert talk.lost_count == 0


async def test_a_server_that_refuses_a_new_session_is_lost() -> None:
    class Once(LegacySite):
        async def _initialize(self, request, reply):  # type: ignore[no-untyped-def]
            if len(self.seen("initialize")) == 1:
                await super()._initialize(request, reply)
            else:
                await reply.json(
                    {"jsonrpc": "2.0", "id": request.message["id"], "error": {"code": -32600, "message": "no more"}}
                )

    async with visiting(Once()) as (site, talk):
        site.expire()
        assert "refuses a new one" in await talk.problem("echo", text="x")
        await until(lambda: talk.endings, "the conversation is over")
        assert talk.lost_count == 1
        with pytest.raises(UpstreamError, match="refuses a new one"):
            talk.begin("echo")
        assert "refuses a new one" in str(await talk.connection.why_lost())


# --- cancelling


async def test_cancelling_tells_the_server_and_closes_the_stream(site: LegacySite, talk: Talk) -> None:
    number, answer = talk.begin("hang")
    await until(lambda: talk.notices, "the call is under way")
    talk.connection.cancel(number, b'"enough"')
    await until(lambda: site.withdrawn, "the server is told")
    assert site.withdrawn == [{"requestId": number, "reason": "enough"}]
    assert answer.times == 0
    assert await talk.call("echo", text="on") == "on"


async def test_a_request_that_never_left_is_cancelled_without_a_word(site: LegacySite, talk: Talk) -> None:
    number, answer = talk.begin("echo", text="x")
    talk.connection.cancel(number)
    assert await talk.call("echo", text="y") == "y"
    assert answer.times == 0
    assert [found.message["params"]["arguments"]["text"] for found in site.seen("tools/call")] == ["y"]
    assert site.withdrawn == []
    await until(lambda: not talk.connection._asked, "nothing is kept of it")  # type: ignore[attr-defined]


async def test_a_dropped_connection_is_no_cancellation(site: LegacySite, talk: Talk) -> None:
    await talk.problem("lose")
    assert await talk.call("drop") == "resumed"
    assert site.withdrawn == []


async def test_stopping_with_calls_in_flight_fails_them_and_ends_the_session() -> None:
    async with visiting(LegacySite()) as (site, talk):
        calls = [talk.begin("hang") for _ in range(3)]
        await until(lambda: len(talk.notices) == 3, "the calls are under way")
    for _, answer in calls:
        with pytest.raises(UpstreamError, match="was stopped"):
            await answer.future
        assert answer.times == 1
    assert site.deleted == ["session-1"]


async def test_stopping_a_server_that_does_not_answer_is_bounded() -> None:
    class Mute(LegacySite):
        async def _delete(self, request, reply):  # type: ignore[no-untyped-def]
            await reply.gone.wait()

    async with visiting(Mute()) as (site, talk):
        assert await talk.call("echo", text="x") == "x"
    assert len(site.seen("DELETE")) == 1


async def test_notifications_arrive_in_the_order_they_were_told_in(site: LegacySite, talk: Talk) -> None:
    for turn in range(20):
        talk.connection.notify("notifications/x", b'{"turn":%d}' % turn)
    await until(lambda: len(told(site, "notifications/x")) == 20, "all have come")
    assert [message["params"]["turn"] for message in told(site, "notifications/x")] == list(range(20))


async def test_more_requests_than_are_asked_at_once_wait_for_their_turn(talk: Talk) -> None:
    calls = [talk.begin("echo", text=str(turn)) for turn in range(300)]
    assert [text_of(await answer.future) for _, answer in calls] == [str(turn) for turn in range(300)]
    await asyncio.sleep(0)

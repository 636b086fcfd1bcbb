"""What servers ask of their own accord, of exactly whom it is meant for, or of nobody; and what ends a question.

Messages and notices of servers, to exactly whom they are meant for, or to nobody.

Whose elicitation by URL it is that a server announces as complete.

Questions to modern clients, and what is learned from a server that asks.
"""

import asyncio
import logging
from pathlib import Path

import pytest

from hearth.hub import server_messages
from hearth.hub.server_messages import VISITS_LIMIT, UrlVisits
from hearth.mcp import versions
from hearth.upstreams.connection import GARBAGE_REPORTS
from unit.conversations import Recorded, until
from unit.hub.server_messages_stage import ALL, ELICIT, FORM, ROOTS, SAMPLE, Stage
from unit.hub.stage import client, instance, server


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# --- questions to legacy clients


async def test_a_question_reaches_the_session_that_caused_it_and_its_answer_the_server(stage: Stage) -> None:
    (member, sink), (_, others) = stage.client(), stage.client()
    call = stage.call(member)
    stage.ask()
    question = await stage.question(sink)
    assert (question["method"], question["params"]) == (ELICIT, FORM)
    assert call.waits_for_client
    stage.reply(member, question, result={"action": "accept", "content": {}})
    assert await stage.answer() == {"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {}}}
    await until(lambda: not call.waits_for_client and not stage.relay._open, "the call goes on")
    assert (len(stage.connection.answers), others.said) == (1, [])


async def test_a_server_that_repeats_its_question_without_end_is_logged_a_few_times(
    caplog: pytest.LogCaptureFixture, stage: Stage
) -> None:
    member, sink = stage.client()
    stage.call(member)
    with caplog.at_level(logging.WARNING):
        for _ in range(GARBAGE_REPORTS + 3):
            stage.ask()
    assert [record.getMessage() for record in caplog.records] == [
        "not MCP: a second question by the same id is not answered"
    ] * GARBAGE_REPORTS
    stage.reply(member, await stage.question(sink), result={"action": "decline"})
    assert (await stage.answer())["result"] == {"action": "decline"}


async def test_a_client_s_error_is_the_server_s(stage: Stage) -> None:
    member, sink = stage.asked()
    stage.reply(member, await stage.question(sink), error={"code": -1, "message": "no"})
    assert (await stage.answer())["error"] == {"code": -1, "message": "no"}


async def test_an_answer_that_is_none_is_an_error_to_the_server(stage: Stage) -> None:
    member, sink = stage.asked()
    stage.reply(member, await stage.question(sink), result={"action": "maybe"})
    assert (await stage.answer())["error"]["code"] == -32603


async def test_an_ambiguous_question_is_an_error_and_nobody_sees_it(stage: Stage) -> None:
    (one, heard), (other, others) = stage.client(), stage.client()
    for member in (one, other):
        stage.call(member)
    stage.ask()
    assert "not certain which of them is meant" in (await stage.answer())["error"]["message"]
    assert heard.said == others.said == []


async def test_where_the_stream_tells_nobody_is_ambiguous(stage: Stage) -> None:
    (one, heard), (other, others) = stage.client(), stage.client()
    for member in (one, other):
        stage.call(member)
    stage.ask(cause=2)
    stage.reply(other, await stage.question(others), result={"action": "decline"})
    assert (await stage.answer())["result"] == {"action": "decline"}
    assert stage.connection.causes == [2]
    assert heard.said == []


@pytest.mark.parametrize("users", [0, 1, 2])
async def test_a_question_out_of_the_blue_is_for_the_only_session_that_ever_was(users: int, stage: Stage) -> None:
    clients = [stage.client() for _ in range(users)]
    stage.ask()
    if users == 1:
        stage.reply(clients[0][0], await stage.question(clients[0][1]), result={"action": "cancel"})
        assert "result" in await stage.answer()
    else:
        assert "no client's request is in flight" in (await stage.answer())["error"]["message"]
        assert all(sink.said == [] for _, sink in clients)


@pytest.mark.parametrize(
    ("declared", "version", "method", "reason"),
    [
        (b"{}", "2025-11-25", ELICIT, "has not declared elicitation"),
        (ALL, "2025-03-26", ELICIT, "which has no elicitation"),
        (b"{}", "2025-11-25", SAMPLE, "has not declared sampling"),
        (b"{}", "2025-11-25", ROOTS, "has not declared that it lists roots"),
    ],
)
async def test_a_client_that_cannot_be_asked_is_not_and_the_server_is_told_why(
    declared: bytes, version: str, method: str, reason: str, stage: Stage
) -> None:
    member, sink = stage.client(declared=declared, version=version)
    call = stage.call(member)
    stage.ask(method)
    assert reason in (await stage.answer())["error"]["message"]
    assert sink.said == []
    # The server decides what becomes of the call.
    assert call.is_open


async def test_what_no_client_can_be_asked_for_is_no_method(stage: Stage) -> None:
    _, sink = stage.asked("made/up")
    assert (await stage.answer())["error"]["code"] == -32601
    assert (sink.said, stage.server.mode) == ([], "shared")


async def test_a_second_question_by_the_same_id_is_not_answered(stage: Stage) -> None:
    member, sink = stage.client()
    stage.call(member)
    for id in (1, 1, "1"):
        stage.ask(id=id)
    await until(lambda: len(sink.heard("ask")) == 2, "the client is asked")
    for question in sink.messages("ask"):
        stage.reply(member, question, result={"action": "cancel"})
    await until(lambda: len(stage.connection.answers) == 2, "the server has its answers")
    assert [answer["id"] for answer in stage.connection.answers] == [1, "1"]
    # And by then the id is free.
    await until(lambda: not stage.relay._open, "they are settled")
    stage.ask(id=1)
    await until(lambda: len(sink.heard("ask")) == 3, "the client is asked again")


async def test_a_server_has_only_so_many_questions_open_and_another_as_many_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_messages, "QUESTIONS_LIMIT", 2)
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.call(member)
    other = Recorded()
    stage.relay._open[other, 1] = stage.relay._open[other, 2] = asyncio.create_task(asyncio.sleep(0))
    for id in (1, 2, 3):
        stage.ask(id=id)
    assert (await stage.answer())["id"] == 3
    assert "error" in stage.connection.answers[0]
    await until(lambda: len(sink.heard("ask")) == 2, "two are put to the client")
    stage.reply(member, sink.messages("ask")[0], result={"action": "cancel"})
    await until(lambda: len(stage.relay._open) == 3, "there is room again")
    stage.ask(id=4)
    await until(lambda: len(sink.heard("ask")) == 3, "the next is put to it")


# --- what ends a question


@pytest.mark.parametrize("at_once", [True, False])
async def test_cancelling_the_call_withdraws_the_question_and_answers_the_server(at_once: bool, stage: Stage) -> None:
    member, sink = stage.client()
    call = stage.call(member)
    stage.ask()
    if not at_once:
        await stage.question(sink)
    call.cancel()
    assert "withdrawn" in (await stage.answer())["error"]["message"]
    assert len(sink.heard("tell")) == (0 if at_once else 1)
    assert stage.relay._open == {}


async def test_a_question_that_the_server_withdraws_is_withdrawn_from_the_client_and_not_answered(stage: Stage) -> None:
    member, sink = stage.client()
    call = stage.call(member)
    stage.ask(id=7)
    question = await stage.question(sink)
    for id in ("7", 8, 7):
        stage.tell("notifications/cancelled", {"requestId": id})
    await until(lambda: sink.heard("tell"), "the client is told")
    assert sink.messages("tell")[0]["params"]["requestId"] == question["id"]
    await until(lambda: not stage.relay._open, "it is settled")
    assert (stage.connection.answers, call.is_open) == ([], True)


async def test_the_id_of_a_withdrawn_question_is_free_at_once(stage: Stage) -> None:
    member, sink = stage.asked(id=7)
    await stage.question(sink)
    stage.tell("notifications/cancelled", {"requestId": 7})
    stage.ask(id=7)
    await until(lambda: len(sink.heard("ask")) == 2, "the client is asked again")
    stage.reply(member, sink.messages("ask")[1], result={"action": "decline"})
    assert (await stage.answer())["result"] == {"action": "decline"}


async def test_a_server_that_is_gone_needs_no_answers_and_its_clients_are_told(stage: Stage) -> None:
    member, sink = stage.client()
    stage.ask()
    await stage.question(sink)
    stage.relay.ended(Recorded())
    await asyncio.sleep(0)
    assert sink.heard("tell") == []
    stage.relay.ended(stage.connection)
    await until(lambda: sink.heard("tell"), "the client is told")
    assert not member.open


# --- messages


def message(level: str = "info") -> dict[str, object]:
    return {"level": level, "data": "words", "logger": "l"}


@pytest.mark.parametrize(
    ("threshold", "level", "heard"), [(None, "debug", True), ("warning", "info", False), ("warning", "error", True)]
)
async def test_a_message_reaches_the_session_that_caused_it_from_its_level_on(
    threshold: str | None, level: str, heard: bool, stage: Stage
) -> None:
    (member, sink), (_, others) = stage.client(), stage.client()
    member.log_level = threshold
    stage.call(member)
    stage.tell("notifications/message", message(level))
    assert [item["params"] for item in sink.messages("notify")] == ([message(level)] if heard else [])
    assert others.said == []


@pytest.mark.parametrize(("named", "heard"), [(None, False), ("info", True), ("error", False)])
async def test_a_modern_client_hears_only_for_requests_that_named_a_level(
    named: str | None, heard: bool, stage: Stage
) -> None:
    member, sink = stage.client(versions.MODERN)
    stage.tell("notifications/message", message())
    stage.call(member, level=named)
    stage.tell("notifications/message", message())
    assert len(sink.heard("notify")) == heard


async def test_a_message_while_a_call_is_parked_is_dropped(stage: Stage) -> None:
    member, sink = stage.client(versions.MODERN)
    stage.call(member, level="debug")
    stage.ask()
    stage.tell("notifications/message", message())
    assert sink.heard("notify") == []


async def test_an_ambiguous_message_reaches_nobody(stage: Stage) -> None:
    clients = [stage.client() for _ in range(2)]
    stage.tell("notifications/message", message())
    for member, _ in clients:
        stage.call(member)
    stage.tell("notifications/message", message())
    assert all(sink.said == [] for _, sink in clients)
    stage.tell("notifications/message", message(), cause=2)
    assert [len(sink.heard("notify")) for _, sink in clients] == [0, 1]


async def test_the_only_session_hears_what_is_said_when_nobody_waits(stage: Stage) -> None:
    _, sink = stage.client()
    stage.tell("notifications/message", message())
    assert len(sink.heard("notify")) == 1


# --- the rest


async def test_the_end_of_a_visit_is_told_to_who_was_sent_there(stage: Stage) -> None:
    (member, sink), (_, others) = stage.client(), stage.client()
    stage.call(member)
    stage.ask(params={"mode": "url", "message": "Go", "url": "https://x", "elicitationId": "e1"})
    assert (await stage.question(sink))["params"]["elicitationId"] == "e1"
    for id in ("other", "e1", "e1"):
        stage.tell("notifications/elicitation/complete", {"elicitationId": id})
    assert [item["params"] for item in sink.messages("notify")] == [{"elicitationId": "e1"}]
    assert others.said == []


async def test_what_hearth_does_not_know_goes_to_the_only_session_of_the_same_era(tmp_path: Path) -> None:
    for era, heard in ((versions.LEGACY, 1), (versions.MODERN, 0)):
        stage = Stage(tmp_path)
        _, sink = stage.client(era)
        stage.tell("notifications/made/up", {"k": 1})
        stage.tell("notifications/subscriptions/acknowledged", {})
        assert len(sink.heard("notify")) == heard
        _, other = stage.client(era)
        stage.tell("notifications/made/up", {"k": 1})
        assert len(other.heard("notify")) == 0
        assert len(sink.heard("notify")) == heard


def test_who_was_told_of_it_hears_of_its_end_once_and_nobody_else_does() -> None:
    visits, of = UrlVisits(), server()
    (_, one), (_, other) = instance(of), instance(of)
    (first, _), (second, _) = client(), client()
    visits.begun(one, "e-1", first)
    visits.begun(other, "e-1", second)
    assert visits.ended(one, "e-1") is first
    assert visits.ended(one, "e-1") is None
    assert visits.ended(other, "e-2") is None
    assert visits.ended(None, "e-1") is None
    assert visits.ended(other, "e-1") is second


def test_the_oldest_are_forgotten_when_there_are_too_many() -> None:
    visits, (_, connection), (member, _) = UrlVisits(), instance(server()), client()
    for number in range(VISITS_LIMIT + 1):
        visits.begun(connection, f"e-{number}", member)
    assert visits.ended(connection, "e-0") is None
    assert visits.ended(connection, "e-1") is member
    assert visits.ended(connection, f"e-{VISITS_LIMIT}") is member


# --- modern clients


async def test_a_question_in_a_modern_client_s_call_parks_it(stage: Stage) -> None:
    member, sink = stage.client(versions.MODERN)
    stage.call(member)
    stage.ask(id=7)
    stage.ask(id=8)
    (answer,) = sink.messages("answer")
    assert answer["result"]["resultType"] == "input_required"
    assert (len(stage.parking), len(stage.relay._open)) == (1, 2)
    stage.tell("notifications/cancelled", {"requestId": 8})
    assert len(stage.relay._open) == 1
    stage.parking.session_left(member)
    assert stage.relay._open == {}


async def test_more_than_a_client_may_park_is_refused_to_the_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path, limit=0)
    member, sink = stage.client(versions.MODERN)
    call = stage.call(member)
    stage.ask()
    assert "parked_limit" in (await stage.answer())["error"]["message"]
    assert (call.is_open, sink.said) == (True, [])


async def test_nobody_is_asked_in_the_midst_of_what_a_modern_client_cannot_retry(stage: Stage) -> None:
    member, sink = stage.client(versions.MODERN)
    stage.call(member, "completion/complete")
    stage.ask()
    assert "in the midst of completion/complete" in (await stage.answer())["error"]["message"]
    assert sink.said == []


async def test_a_modern_client_is_never_asked_out_of_the_blue(stage: Stage) -> None:
    _, sink = stage.client(versions.MODERN)
    stage.ask()
    assert "error" in await stage.answer()
    assert sink.said == []


# --- what is learned


@pytest.mark.parametrize(
    ("method", "cause", "mode"),
    [
        (ROOTS, None, "workspace"),
        (ROOTS, 1, "workspace"),
        (ELICIT, None, "session"),
        (SAMPLE, None, "session"),
        # The stream tells whom it means: it may be shared as before.
        (ELICIT, 1, "shared"),
    ],
)
async def test_a_server_that_asks_is_shared_more_narrowly_afterwards(
    method: str, cause: int | None, mode: str, stage: Stage
) -> None:
    # Tried in the modern era already.
    stage.server._traits.note_era(stage.server.spec, versions.MODERN, versions.LEGACY)
    stage.call(stage.client()[0])
    stage.ask(method, cause=cause)
    assert stage.server.mode == mode


async def test_roots_are_the_workspace_s_whoever_asks_and_whenever(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace")
    stage.instance.client_context = stage.instance.client_context._replace(cwd="/here")
    (one, heard), (other, _) = stage.client(), stage.client()
    stage.ask(ROOTS)
    for member in (one, other):
        stage.call(member)
    stage.ask(ROOTS, "again")
    roots = {"roots": [{"uri": "file:///here", "name": "here"}]}
    assert [answer["result"] for answer in stage.connection.answers] == [roots, roots]
    assert heard.said == []


async def test_folders_of_the_config_are_not_replaced_by_one_that_no_client_has_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace", args=("serve", str(tmp_path)))
    stage.instance.client_context = stage.instance.client_context._replace(cwd="/here")
    stage.ask(ROOTS)
    stage.instance.client_context = stage.instance.client_context._replace(roots=(b'{"uri":"file:///there"}',))
    stage.ask(ROOTS, "again")
    refused, told = stage.connection.answers
    assert "folders" in refused["error"]["message"]
    assert told["result"] == {"roots": [{"uri": "file:///there"}]}


async def test_roots_of_a_modern_client_that_tells_its_own_are_asked_for_in_its_call(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "workspace", isolation="workspace")
    member, sink = stage.client(versions.MODERN)
    stage.call(member)
    stage.ask(ROOTS)
    assert sink.messages("answer")[0]["result"]["resultType"] == "input_required"
    assert stage.connection.answers == []

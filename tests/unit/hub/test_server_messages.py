"""What servers ask of their own accord, of exactly whom it is meant for, or of nobody; and what ends a question."""

import asyncio
import logging
from pathlib import Path

import pytest

from hearth.hub import server_messages
from hearth.upstreams.connection import GARBAGE_REPORTS
from unit.conversations import Recorded, until
from unit.hub.server_messages_stage import ALL, ELICIT, FORM, ROOTS, SAMPLE, Stage

# --- questions to legacy clients


async def test_a_question_reaches_the_session_that_caused_it_and_its_answer_the_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
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
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(tmp_path)
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


async def test_a_client_s_error_is_the_server_s(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.call(member)
    stage.ask()
    stage.reply(member, await stage.question(sink), error={"code": -1, "message": "no"})
    assert (await stage.answer())["error"] == {"code": -1, "message": "no"}


async def test_an_answer_that_is_none_is_an_error_to_the_server(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.call(member)
    stage.ask()
    stage.reply(member, await stage.question(sink), result={"action": "maybe"})
    assert (await stage.answer())["error"]["code"] == -32603


async def test_an_ambiguous_question_is_an_error_and_nobody_sees_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (one, heard), (other, others) = stage.client(), stage.client()
    for member in (one, other):
        stage.call(member)
    stage.ask()
    assert "not certain which of them is meant" in (await stage.answer())["error"]["message"]
    assert heard.said == others.said == []


async def test_where_the_stream_tells_nobody_is_ambiguous(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (one, heard), (other, others) = stage.client(), stage.client()
    for member in (one, other):
        stage.call(member)
    stage.ask(cause=2)
    stage.reply(other, await stage.question(others), result={"action": "decline"})
    assert (await stage.answer())["result"] == {"action": "decline"}
    assert stage.connection.causes == [2]
    assert heard.said == []


@pytest.mark.parametrize("users", [0, 1, 2])
async def test_a_question_out_of_the_blue_is_for_the_only_session_that_ever_was(tmp_path: Path, users: int) -> None:
    stage = Stage(tmp_path)
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
    tmp_path: Path, declared: bytes, version: str, method: str, reason: str
) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client(declared=declared, version=version)
    call = stage.call(member)
    stage.ask(method)
    assert reason in (await stage.answer())["error"]["message"]
    assert sink.said == []
    # The server decides what becomes of the call.
    assert call.is_open


async def test_what_no_client_can_be_asked_for_is_no_method(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.call(member)
    stage.ask("made/up")
    assert (await stage.answer())["error"]["code"] == -32601
    assert (sink.said, stage.server.mode) == ([], "shared")


async def test_a_second_question_by_the_same_id_is_not_answered(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
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
async def test_cancelling_the_call_withdraws_the_question_and_answers_the_server(tmp_path: Path, at_once: bool) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    call = stage.call(member)
    stage.ask()
    if not at_once:
        await stage.question(sink)
    call.cancel()
    assert "withdrawn" in (await stage.answer())["error"]["message"]
    assert len(sink.heard("tell")) == (0 if at_once else 1)
    assert stage.relay._open == {}


async def test_a_question_that_the_server_withdraws_is_withdrawn_from_the_client_and_not_answered(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
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


async def test_the_id_of_a_withdrawn_question_is_free_at_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.call(member)
    stage.ask(id=7)
    await stage.question(sink)
    stage.tell("notifications/cancelled", {"requestId": 7})
    stage.ask(id=7)
    await until(lambda: len(sink.heard("ask")) == 2, "the client is asked again")
    stage.reply(member, sink.messages("ask")[1], result={"action": "decline"})
    assert (await stage.answer())["result"] == {"action": "decline"}


async def test_a_server_that_is_gone_needs_no_answers_and_its_clients_are_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    member, sink = stage.client()
    stage.ask()
    await stage.question(sink)
    stage.relay.ended(Recorded())
    await asyncio.sleep(0)
    assert sink.heard("tell") == []
    stage.relay.ended(stage.connection)
    await until(lambda: sink.heard("tell"), "the client is told")
    assert not member.open

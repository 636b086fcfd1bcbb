"""What servers say of their own accord, to exactly whom it is meant for, or to nobody."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from hearth.hub import relay
from hearth.hub.calls import Call
from hearth.hub.parking import Parking
from hearth.hub.questions import Questions
from hearth.hub.relay import Relay
from hearth.hub.sessions import Session
from hearth.hub.visits import Visits
from hearth.mcp import eras
from hearth.upstreams.connection import GARBAGE_REPORTS
from hearth.upstreams.learned import Learned
from hearth.wire import json
from unit.conversations import Recorded, run, until
from unit.hub.outlets import Kept
from unit.hub.stage import client, instance, offering, sent, server

ALL = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}'
FORM = {"message": "Really?", "requestedSchema": {"type": "object"}}
ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


class Stage:
    """One instance of a legacy server, and the relay between it and clients."""

    def __init__(self, folder: Path, mode: str = "shared", limit: int = 9, **spec: object) -> None:
        self.questions = Questions("d")
        self.parking = Parking(lambda: 60.0, lambda: limit, lambda call: None)
        self.server = server(learned=Learned(str(folder / "learned.json")), **spec)
        self.instance, self.connection = instance(self.server, offering(), mode)
        self.relay = Relay(self.questions, self.parking, Visits(), {"s": self.server}.get, lambda: 60.0)
        self._count = 0

    def client(
        self, era: str = eras.LEGACY, declared: bytes = ALL, version: str = "2025-11-25"
    ) -> tuple[Session, Kept]:
        """A client that uses the instance."""
        member, outlet = client(era, version, declared)
        self.server.hold(self.instance, member, member.id)
        return member, outlet

    def call(self, member: Session, method: str = "tools/call", level: str | None = None) -> Call:
        self._count += 1
        call = sent(member, self.server, self.instance, b"%d" % self._count, method=method)
        call.asked = json.split(b'{"name":"t"}')
        call.declared = member.caller.capabilities
        call.log_level = level
        return call

    def ask(self, method: str = ELICIT, id: object = "q", params: object = FORM, cause: int | None = None) -> None:
        message = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        self.relay.asked(self.instance, self.connection, json.parse(message), cause)

    def tell(self, method: str, params: object = None, cause: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        self.relay.noticed(self.instance, self.connection, json.parse(json.dumps(message)), cause)

    async def question(self, outlet: Kept) -> dict[str, Any]:
        await until(lambda: outlet.heard("ask"), "the client is asked")
        return outlet.messages("ask")[-1]

    def reply(self, member: Session, question: dict[str, Any], **answer: object) -> None:
        message = json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer})
        self.questions.receive_answer(member, json.parse(message))

    async def answer(self) -> dict[str, Any]:
        """What the server gets."""
        await until(lambda: self.connection.answers, "the server has its answer")
        (found,) = self.connection.answers
        return found


# --- questions to legacy clients


def test_a_question_reaches_the_session_that_caused_it_and_its_answer_the_server(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        (member, outlet), (_, others) = stage.client(), stage.client()
        call = stage.call(member)
        stage.ask()
        question = await stage.question(outlet)
        assert (question["method"], question["params"]) == (ELICIT, FORM)
        assert call.waits_for_client
        stage.reply(member, question, result={"action": "accept", "content": {}})
        assert await stage.answer() == {"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {}}}
        await until(lambda: not call.waits_for_client and not stage.relay._open, "the call goes on")
        assert (len(stage.connection.answers), others.said) == (1, [])

    run(body())


def test_a_server_that_repeats_its_question_without_end_is_logged_a_few_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        with caplog.at_level(logging.WARNING):
            for _ in range(GARBAGE_REPORTS + 3):
                stage.ask()
        assert [record.getMessage() for record in caplog.records] == [
            "not MCP: a second question by the same id is not answered"
        ] * GARBAGE_REPORTS
        stage.reply(member, await stage.question(outlet), result={"action": "decline"})
        assert (await stage.answer())["result"] == {"action": "decline"}

    run(body())


def test_a_client_s_error_is_the_server_s(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        stage.ask()
        stage.reply(member, await stage.question(outlet), error={"code": -1, "message": "no"})
        assert (await stage.answer())["error"] == {"code": -1, "message": "no"}

    run(body())


def test_an_answer_that_is_none_is_an_error_to_the_server(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        stage.ask()
        stage.reply(member, await stage.question(outlet), result={"action": "maybe"})
        assert (await stage.answer())["error"]["code"] == -32603

    run(body())


def test_an_ambiguous_question_is_an_error_and_nobody_sees_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        (one, heard), (other, others) = stage.client(), stage.client()
        for member in (one, other):
            stage.call(member)
        stage.ask()
        assert "not certain which of them is meant" in (await stage.answer())["error"]["message"]
        assert heard.said == others.said == []

    run(body())


def test_where_the_stream_tells_nobody_is_ambiguous(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        (one, heard), (other, others) = stage.client(), stage.client()
        for member in (one, other):
            stage.call(member)
        stage.ask(cause=2)
        stage.reply(other, await stage.question(others), result={"action": "decline"})
        assert (await stage.answer())["result"] == {"action": "decline"}
        assert stage.connection.causes == [2]
        assert heard.said == []

    run(body())


@pytest.mark.parametrize("users", [0, 1, 2])
def test_a_question_out_of_the_blue_is_for_the_only_session_that_ever_was(tmp_path: Path, users: int) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        clients = [stage.client() for _ in range(users)]
        stage.ask()
        if users == 1:
            stage.reply(clients[0][0], await stage.question(clients[0][1]), result={"action": "cancel"})
            assert "result" in await stage.answer()
        else:
            assert "no client's request is in flight" in (await stage.answer())["error"]["message"]
            assert all(outlet.said == [] for _, outlet in clients)

    run(body())


@pytest.mark.parametrize(
    ("declared", "version", "method", "reason"),
    [
        (b"{}", "2025-11-25", ELICIT, "has not declared elicitation"),
        (ALL, "2025-03-26", ELICIT, "which has no elicitation"),
        (b"{}", "2025-11-25", SAMPLE, "has not declared sampling"),
        (b"{}", "2025-11-25", ROOTS, "has not declared that it lists roots"),
    ],
)
def test_a_client_that_cannot_be_asked_is_not_and_the_server_is_told_why(
    tmp_path: Path, declared: bytes, version: str, method: str, reason: str
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(declared=declared, version=version)
        call = stage.call(member)
        stage.ask(method)
        assert reason in (await stage.answer())["error"]["message"]
        assert outlet.said == []
        # The server decides what becomes of the call.
        assert call.is_open

    run(body())


def test_what_no_client_can_be_asked_for_is_no_method(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        stage.ask("made/up")
        assert (await stage.answer())["error"]["code"] == -32601
        assert (outlet.said, stage.server.mode) == ([], "shared")

    run(body())


def test_a_second_question_by_the_same_id_is_not_answered(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        for id in (1, 1, "1"):
            stage.ask(id=id)
        await until(lambda: len(outlet.heard("ask")) == 2, "the client is asked")
        for question in outlet.messages("ask"):
            stage.reply(member, question, result={"action": "cancel"})
        await until(lambda: len(stage.connection.answers) == 2, "the server has its answers")
        assert [answer["id"] for answer in stage.connection.answers] == [1, "1"]
        # And by then the id is free.
        await until(lambda: not stage.relay._open, "they are settled")
        stage.ask(id=1)
        await until(lambda: len(outlet.heard("ask")) == 3, "the client is asked again")

    run(body())


def test_a_server_has_only_so_many_questions_open_and_another_as_many_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "QUESTIONS_LIMIT", 2)

    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        other = Recorded()
        stage.relay._open[other, 1] = stage.relay._open[other, 2] = asyncio.create_task(asyncio.sleep(0))
        for id in (1, 2, 3):
            stage.ask(id=id)
        assert (await stage.answer())["id"] == 3
        assert "error" in stage.connection.answers[0]
        await until(lambda: len(outlet.heard("ask")) == 2, "two are put to the client")
        stage.reply(member, outlet.messages("ask")[0], result={"action": "cancel"})
        await until(lambda: len(stage.relay._open) == 3, "there is room again")
        stage.ask(id=4)
        await until(lambda: len(outlet.heard("ask")) == 3, "the next is put to it")

    run(body())


# --- what ends a question


@pytest.mark.parametrize("at_once", [True, False])
def test_cancelling_the_call_withdraws_the_question_and_answers_the_server(tmp_path: Path, at_once: bool) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        call = stage.call(member)
        stage.ask()
        if not at_once:
            await stage.question(outlet)
        call.cancel()
        assert "withdrawn" in (await stage.answer())["error"]["message"]
        assert len(outlet.heard("tell")) == (0 if at_once else 1)
        assert stage.relay._open == {}

    run(body())


def test_a_question_that_the_server_withdraws_is_withdrawn_from_the_client_and_not_answered(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        call = stage.call(member)
        stage.ask(id=7)
        question = await stage.question(outlet)
        for id in ("7", 8, 7):
            stage.tell("notifications/cancelled", {"requestId": id})
        await until(lambda: outlet.heard("tell"), "the client is told")
        assert outlet.messages("tell")[0]["params"]["requestId"] == question["id"]
        await until(lambda: not stage.relay._open, "it is settled")
        assert (stage.connection.answers, call.is_open) == ([], True)

    run(body())


def test_the_id_of_a_withdrawn_question_is_free_at_once(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.call(member)
        stage.ask(id=7)
        await stage.question(outlet)
        stage.tell("notifications/cancelled", {"requestId": 7})
        stage.ask(id=7)
        await until(lambda: len(outlet.heard("ask")) == 2, "the client is asked again")
        stage.reply(member, outlet.messages("ask")[1], result={"action": "decline"})
        assert (await stage.answer())["result"] == {"action": "decline"}

    run(body())


def test_a_server_that_is_gone_needs_no_answers_and_its_clients_are_told(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client()
        stage.ask()
        await stage.question(outlet)
        stage.relay.ended(Recorded())
        await asyncio.sleep(0)
        assert outlet.heard("tell") == []
        stage.relay.ended(stage.connection)
        await until(lambda: outlet.heard("tell"), "the client is told")
        assert not member.open

    run(body())


# --- modern clients


def test_a_question_in_a_modern_client_s_call_parks_it(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(eras.MODERN)
        stage.call(member)
        stage.ask(id=7)
        stage.ask(id=8)
        (answer,) = outlet.messages("answer")
        assert answer["result"]["resultType"] == "input_required"
        assert (len(stage.parking), len(stage.relay._open)) == (1, 2)
        stage.tell("notifications/cancelled", {"requestId": 8})
        assert len(stage.relay._open) == 1
        stage.parking.session_left(member)
        assert stage.relay._open == {}

    run(body())


def test_more_than_a_client_may_park_is_refused_to_the_server(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, limit=0)
        member, outlet = stage.client(eras.MODERN)
        call = stage.call(member)
        stage.ask()
        assert "parked_limit" in (await stage.answer())["error"]["message"]
        assert (call.is_open, outlet.said) == (True, [])

    run(body())


def test_nobody_is_asked_in_the_midst_of_what_a_modern_client_cannot_retry(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(eras.MODERN)
        stage.call(member, "completion/complete")
        stage.ask()
        assert "in the midst of completion/complete" in (await stage.answer())["error"]["message"]
        assert outlet.said == []

    run(body())


def test_a_modern_client_is_never_asked_out_of_the_blue(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        _, outlet = stage.client(eras.MODERN)
        stage.ask()
        assert "error" in await stage.answer()
        assert outlet.said == []

    run(body())


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
def test_a_server_that_asks_is_shared_more_narrowly_afterwards(
    tmp_path: Path, method: str, cause: int | None, mode: str
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        stage.call(stage.client()[0])
        stage.ask(method, cause=cause)
        assert stage.server.mode == mode

    run(body())


def test_roots_are_the_workspace_s_whoever_asks_and_whenever(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, "workspace", isolation="workspace")
        stage.instance.tenant = stage.instance.tenant._replace(cwd="/here")
        (one, heard), (other, _) = stage.client(), stage.client()
        stage.ask(ROOTS)
        for member in (one, other):
            stage.call(member)
        stage.ask(ROOTS, "again")
        roots = {"roots": [{"uri": "file:///here", "name": "here"}]}
        assert [answer["result"] for answer in stage.connection.answers] == [roots, roots]
        assert heard.said == []

    run(body())


def test_folders_of_the_config_are_not_replaced_by_one_that_no_client_has_named(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, "workspace", isolation="workspace", args=("serve", str(tmp_path)))
        stage.instance.tenant = stage.instance.tenant._replace(cwd="/here")
        stage.ask(ROOTS)
        stage.instance.tenant = stage.instance.tenant._replace(roots=(b'{"uri":"file:///there"}',))
        stage.ask(ROOTS, "again")
        refused, told = stage.connection.answers
        assert "folders" in refused["error"]["message"]
        assert told["result"] == {"roots": [{"uri": "file:///there"}]}

    run(body())


def test_roots_of_a_modern_client_that_tells_its_own_are_asked_for_in_its_call(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path, "workspace", isolation="workspace")
        member, outlet = stage.client(eras.MODERN)
        stage.call(member)
        stage.ask(ROOTS)
        assert outlet.messages("answer")[0]["result"]["resultType"] == "input_required"
        assert stage.connection.answers == []

    run(body())


# --- messages


def message(level: str = "info") -> dict[str, object]:
    return {"level": level, "data": "words", "logger": "l"}


@pytest.mark.parametrize(
    ("threshold", "level", "heard"), [(None, "debug", True), ("warning", "info", False), ("warning", "error", True)]
)
def test_a_message_reaches_the_session_that_caused_it_from_its_level_on(
    tmp_path: Path, threshold: str | None, level: str, heard: bool
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        (member, outlet), (_, others) = stage.client(), stage.client()
        member.log_level = threshold
        stage.call(member)
        stage.tell("notifications/message", message(level))
        assert [item["params"] for item in outlet.messages("notify")] == ([message(level)] if heard else [])
        assert others.said == []

    run(body())


@pytest.mark.parametrize(("named", "heard"), [(None, False), ("info", True), ("error", False)])
def test_a_modern_client_hears_only_for_requests_that_named_a_level(
    tmp_path: Path, named: str | None, heard: bool
) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(eras.MODERN)
        stage.tell("notifications/message", message())
        stage.call(member, level=named)
        stage.tell("notifications/message", message())
        assert len(outlet.heard("notify")) == heard

    run(body())


def test_a_message_while_a_call_is_parked_is_dropped(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        member, outlet = stage.client(eras.MODERN)
        stage.call(member, level="debug")
        stage.ask()
        stage.tell("notifications/message", message())
        assert outlet.heard("notify") == []

    run(body())


def test_an_ambiguous_message_reaches_nobody(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        clients = [stage.client() for _ in range(2)]
        stage.tell("notifications/message", message())
        for member, _ in clients:
            stage.call(member)
        stage.tell("notifications/message", message())
        assert all(outlet.said == [] for _, outlet in clients)
        stage.tell("notifications/message", message(), cause=2)
        assert [len(outlet.heard("notify")) for _, outlet in clients] == [0, 1]

    run(body())


def test_the_only_session_hears_what_is_said_when_nobody_waits(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        _, outlet = stage.client()
        stage.tell("notifications/message", message())
        assert len(outlet.heard("notify")) == 1

    run(body())


# --- the rest


def test_the_end_of_a_visit_is_told_to_who_was_sent_there(tmp_path: Path) -> None:
    async def body() -> None:
        stage = Stage(tmp_path)
        (member, outlet), (_, others) = stage.client(), stage.client()
        stage.call(member)
        stage.ask(params={"mode": "url", "message": "Go", "url": "https://x", "elicitationId": "e1"})
        question = await stage.question(outlet)
        assert question["params"]["elicitationId"] == "e1"
        for id in ("other", "e1", "e1"):
            stage.tell("notifications/elicitation/complete", {"elicitationId": id})
        assert [item["params"] for item in outlet.messages("notify")] == [{"elicitationId": "e1"}]
        assert others.said == []

    run(body())


def test_what_hearth_does_not_know_goes_to_the_only_session_of_the_same_era(tmp_path: Path) -> None:
    async def body() -> None:
        for era, heard in ((eras.LEGACY, 1), (eras.MODERN, 0)):
            stage = Stage(tmp_path)
            _, outlet = stage.client(era)
            stage.tell("notifications/made/up", {"k": 1})
            stage.tell("notifications/subscriptions/acknowledged", {})
            assert len(outlet.heard("notify")) == heard
            _, other = stage.client(era)
            stage.tell("notifications/made/up", {"k": 1})
            assert len(other.heard("notify")) == 0
            assert len(outlet.heard("notify")) == heard

    run(body())

"""A legacy client's call on a modern server that requires input: the client is asked, and the call is made again."""

import asyncio
from typing import Any

import pytest

from hearth.hub import input_required
from hearth.hub.bindings import Binding, LogLevels
from hearth.hub.calls import Call
from hearth.hub.catalog import View
from hearth.hub.client_requests import ClientRequests
from hearth.hub.input_required import ROUNDS_LIMIT, InputRequiredLoop
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.client_context import ClientContext
from hearth.upstreams.instance import Instance
from hearth.wire import json
from hearth.wire.values import RawBytes
from unit.conversations import until
from unit.hub.stage import Desk, client, instance, offering, opened, server

FORM = {"method": "elicitation/create", "params": {"message": "Really?", "requestedSchema": {"type": "object"}}}
URL = {"method": "elicitation/create", "params": {"mode": "url", "message": "Go", "url": "https://x"}}
ROOTS = {"method": "roots/list"}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
ALL = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}'
ACCEPT = {"action": "accept", "content": {"sure": True}}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}


class Router(Desk):
    """Sends calls round, as the router does."""

    def __init__(self, loop: InputRequiredLoop) -> None:
        super().__init__()
        self._loop = loop

    def input_required(self, call: Call, result: RawBytes) -> None:
        super().input_required(call, result)
        self._loop.go_round(call, result)


class Stage:
    """A call of a legacy client on a modern server, sent."""

    def __init__(
        self,
        declared: bytes = ALL,
        version: str = "2025-11-25",
        timeout: float = 60.0,
        token: bytes | None = None,
        method: str = "tools/call",
    ) -> None:
        self.questions = ClientRequests("d")
        self.server = server()
        self.instance, self.connection = instance(self.server, offering(era=versions.MODERN))
        self.member, self.sink = client(version=version, declared=declared)
        loop = InputRequiredLoop(self.questions, Binding(self.questions, LogLevels()), lambda: timeout)
        meta = None if token is None else {"progressToken": json.loads(token)}
        self.call = opened(self.member, desk=Router(loop), method=method, meta=meta)
        params = {"name": "t", "arguments": {"a": 1}, "_meta": {"v/k": 1} | ({"progressToken": 1} if token else {})}
        self.call.send(
            self.server, self.instance, self.connection, json.dumps(method), json.dumps(params), View([], False)
        )

    def require(self, state: str | None = None, **requests: object) -> None:
        """The server wants that before it goes on."""
        result: dict[str, object] = {"resultType": "input_required"}
        result |= {"inputRequests": requests} if requests else {}
        result |= {} if state is None else {"requestState": state}
        self.connection.give(self.connection.sent[-1]["id"], result)

    async def asked(self, count: int = 1) -> list[dict[str, Any]]:
        await until(lambda: len(self.sink.heard("ask")) == count, "the client is asked")
        return self.sink.messages("ask")

    def reply(self, question: dict[str, Any], **answer: object) -> None:
        self.reply_as(self.member, question, **answer)

    def reply_as(self, member: Session, question: dict[str, Any], **answer: object) -> None:
        message = json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer})
        self.questions.receive_answer(member, json.parse(message))

    async def called_again(self, count: int = 2) -> dict[str, Any]:
        await until(lambda: len(self.connection.sent) == count, "the call is made again")
        params: dict[str, Any] = self.connection.sent[-1]["params"]
        return params

    async def answer(self) -> dict[str, Any]:
        await until(lambda: self.sink.heard("answer"), "the client has its answer")
        (found,) = self.sink.messages("answer")
        return found


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_the_client_is_asked_for_everything_at_once_and_the_call_is_made_again_with_its_answers(
    stage: Stage,
) -> None:
    stage.require("state", form=FORM, roots=ROOTS, sample=SAMPLE)
    questions = {question["method"]: question for question in await stage.asked(3)}
    assert questions["elicitation/create"]["params"]["message"] == "Really?"
    # In any order.
    stage.reply(questions["sampling/createMessage"], result=SAMPLED)
    stage.reply(questions["elicitation/create"], result=ACCEPT)
    stage.reply(questions["roots/list"], result={"roots": []})
    params = await stage.called_again()
    assert params == {
        "name": "t",
        "arguments": {"a": 1},
        "_meta": {"v/k": 1},
        "inputResponses": {"form": ACCEPT, "roots": {"roots": []}, "sample": SAMPLED},
        "requestState": "state",
    }
    assert [item["id"] for item in stage.connection.sent] == [1, 2]
    stage.connection.give(2, {"resultType": "complete", "content": []})
    assert (await stage.answer())["result"] == {"content": []}
    assert len(stage.sink.heard("settled")) == 3


async def test_rounds_follow_each_other_and_what_was_answered_before_is_not_sent_again(stage: Stage) -> None:
    stage.require("one", a=FORM)
    stage.reply((await stage.asked())[0], result=ACCEPT)
    await stage.called_again()
    stage.require(b=FORM)
    stage.reply((await stage.asked(2))[1], result={"action": "decline"})
    params = await stage.called_again(3)
    assert params["inputResponses"] == {"b": {"action": "decline"}}
    assert "requestState" not in params


async def test_a_state_alone_means_to_call_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(input_required.asyncio, "sleep", _apart(noted, sleep))
    stage = Stage(declared=b"{}")
    for count in range(2, 11):
        stage.require(f"s{count}")
        params = await stage.called_again(count)
        assert params["requestState"] == f"s{count}"
        assert "inputResponses" not in params
    assert stage.sink.said == []
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def _apart(noted: Any, sleep: Any) -> Any:
    """The loop's own pauses are noted; those of this test's waiting are shorter than any of them."""

    async def either(seconds: float) -> None:
        await (noted(seconds) if seconds >= input_required.FIRST_PAUSE_SECONDS else sleep(seconds))

    return either


async def test_a_server_that_is_never_content_is_given_up(stage: Stage) -> None:
    stage.call.rounds = ROUNDS_LIMIT - 1
    stage.require(a=ROOTS)
    stage.reply((await stage.asked())[0], result={"roots": []})
    await stage.called_again()
    stage.require(a=ROOTS)
    error = (await stage.answer())["error"]
    assert error["code"] == -32603
    assert "server 's' required input 33 times" in error["message"]


# --- what the client cannot or will not do


@pytest.mark.parametrize(
    ("declared", "version", "request_", "reason"),
    [
        (b"{}", "2025-11-25", FORM, "has not declared elicitation"),
        (b'{"elicitation":{}}', "2025-11-25", URL, "elicitation by URL"),
        (b'{"elicitation":{}}', "2025-03-26", FORM, "speaks MCP 2025-03-26, which has no elicitation"),
        (b'{"elicitation":{}}', "2025-11-25", SAMPLE, "has not declared sampling"),
        (b'{"elicitation":{}}', "2025-11-25", ROOTS, "has not declared that it lists roots"),
    ],
)
async def test_a_client_without_the_capability_gets_its_call_failed_with_a_sentence_and_no_question(
    declared: bytes, version: str, request_: object, reason: str
) -> None:
    stage = Stage(declared, version)
    stage.require(good=FORM, bad=request_)
    error = (await stage.answer())["error"]
    assert error["code"] == -32602
    assert "server 's' asks for something in the middle of the call, but the client" in error["message"]
    assert reason in error["message"]
    assert stage.sink.heard("ask") == []
    assert len(stage.connection.sent) == 1


async def test_the_client_s_error_ends_the_call_is_relayed_and_withdraws_what_else_was_asked(stage: Stage) -> None:
    stage.require(a=FORM, b=ROOTS)
    first, second = await stage.asked(2)
    stage.reply(first, error={"code": -1, "message": "User rejected", "data": {"k": 1}})
    assert (await stage.answer())["error"] == {"code": -1, "message": "User rejected", "data": {"k": 1}}
    await until(lambda: len(stage.sink.heard("settled")) == 2, "both are settled")
    assert [notice["params"]["requestId"] for notice in stage.sink.messages("tell")] == [second["id"]]
    assert len(stage.connection.sent) == 1


async def test_an_answer_that_is_none_fails_the_call(stage: Stage) -> None:
    stage.require(a=FORM)
    stage.reply((await stage.asked())[0], result={"action": "maybe"})
    assert "error" in await stage.answer()
    assert len(stage.connection.sent) == 1


async def test_a_client_that_does_not_answer_in_time_fails_its_own_call() -> None:
    stage = Stage(timeout=0.01)
    stage.require(a=FORM)
    assert "nobody answered within 0.01 s" in (await stage.answer())["error"]["message"]


async def test_another_client_s_answer_is_none(stage: Stage) -> None:
    stage.require(a=FORM)
    (question,) = await stage.asked()
    stage.reply_as(client(declared=ALL)[0], question, result=ACCEPT)
    await asyncio.sleep(0)
    assert (len(stage.connection.sent), stage.call.is_open) == (1, True)
    stage.reply(question, result={"action": "cancel"})
    assert (await stage.called_again())["inputResponses"] == {"a": {"action": "cancel"}}


async def test_cancelling_the_call_withdraws_the_questions_and_nothing_is_sent_any_more(stage: Stage) -> None:
    stage.require(a=FORM, b=ROOTS)
    questions = await stage.asked(2)
    stage.call.cancel()
    await until(lambda: len(stage.sink.heard("tell")) == 2, "both are withdrawn")
    withdrawn = {notice["params"]["requestId"] for notice in stage.sink.messages("tell")}
    assert withdrawn == {question["id"] for question in questions}
    assert stage.sink.heard("answer") == []
    assert len(stage.connection.sent) == 1


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"requestState": 7},
        {"inputRequests": 7},
        {"inputRequests": {"a": {"method": "made/up", "params": {}}}},
        {"inputRequests": {"a": {"method": "elicitation/create"}}},
    ],
)
async def test_a_demand_that_the_schema_does_not_allow_is_the_server_s_fault(
    result: dict[str, object], stage: Stage
) -> None:
    stage.connection.give(1, {"resultType": "input_required", **result})
    assert (await stage.answer())["error"]["code"] == -32603
    assert stage.sink.heard("ask") == []


async def test_a_server_that_takes_nothing_any_more_fails_the_call(stage: Stage) -> None:
    stage.require(a=FORM)
    (question,) = await stage.asked()
    stage.connection.broken = True
    stage.reply(question, result=ACCEPT)
    assert "takes nothing" in (await stage.answer())["error"]["message"]


@pytest.mark.parametrize("era", [versions.MODERN, versions.LEGACY])
async def test_a_server_that_ended_meanwhile_is_called_in_its_next_life_if_that_can_go_on(
    era: str, stage: Stage
) -> None:
    stage.require("state", a=FORM)
    (question,) = await stage.asked()
    # Another process is in its place by the time the client answers.
    successor, connection = instance(stage.server, offering(era=era))
    stage.instance.connection = None

    async def ensure(tenant: ClientContext, owner: object) -> Instance:
        return successor

    stage.server.ensure = ensure  # type: ignore[method-assign]
    stage.reply(question, result=ACCEPT)
    if era == versions.MODERN:
        await until(lambda: connection.sent, "the call is made again")
        assert connection.sent[0]["params"]["requestState"] == "state"
        assert successor.holders == {stage.member}
    else:
        assert "ended before it answered" in (await stage.answer())["error"]["message"]
        assert connection.sent == []
    assert len(stage.connection.sent) == 1


# --- how it is said


async def test_a_url_gets_an_id_of_its_own_where_the_revision_wants_one(stage: Stage) -> None:
    stage.require(a=URL, b=URL)
    ids = {question["params"]["elicitationId"] for question in await stage.asked(2)}
    assert len(ids) == 2


async def test_progress_of_the_second_call_comes_under_the_client_s_token_too() -> None:
    stage = Stage(token=b'"mine"')
    stage.require(a=ROOTS)
    stage.reply((await stage.asked())[0], result={"roots": []})
    assert (await stage.called_again())["_meta"] == {"v/k": 1, "progressToken": 2}
    stage.connection.say("notifications/progress", {"progressToken": 2, "progress": 1})
    assert stage.sink.messages("notify")[0]["params"]["progressToken"] == "mine"


async def test_the_call_s_time_does_not_run_while_the_client_is_asked(stage: Stage) -> None:
    stage.require(a=FORM)
    assert stage.call.waits_for_client
    stage.call.touched = 0.0
    stage.reply((await stage.asked())[0], result=ACCEPT)
    await stage.called_again()
    await until(lambda: not stage.call.waits_for_client, "it runs again")
    assert stage.call.touched > 0.0


async def test_the_same_holds_for_prompts_and_resources() -> None:
    for method in ("prompts/get", "resources/read"):
        stage = Stage(method=method)
        stage.require(a=FORM)
        stage.reply((await stage.asked())[0], result=ACCEPT)
        await stage.called_again()
        assert stage.connection.methods() == [method, method]

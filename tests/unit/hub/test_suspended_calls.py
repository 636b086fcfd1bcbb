"""Parked calls on real calls and connections: what the client and the server are told, and when.

The table of what follows what is `mcp.parked`'s, and is tested there.

Parked calls whose server demands that URLs are visited first.

Parked calls that do not go on: states that are not good, clients that do not come back.
"""

from typing import Any

import pytest

from hearth.errors import MessageError, Refused, UpstreamError
from hearth.hub import suspended_call
from hearth.mcp import versions
from hearth.mcp.questions import Question
from hearth.mcp.request_state import StateRefused
from hearth.wire import json
from unit.conversations import Recorded, until
from unit.hub.stage import client, opened
from unit.hub.suspended_stage import ACCEPT, ALL, ASKED, Stage, keys


@pytest.fixture
def stage() -> Stage:
    return Stage()


# --- one round


async def test_a_question_parks_the_call_and_the_retry_brings_the_answer_to_the_server(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    assert required["resultType"] == "input_required"
    (key,) = keys(required)
    assert required["inputRequests"][key] == {
        "method": "elicitation/create",
        "params": {"message": "q", "requestedSchema": {}},
    }
    assert (len(stage.parking), stage.member.open, stage.settled) == (1, {}, [])
    call = stage.retry(required, **{key: ACCEPT})
    assert stage.connection.answers == [{"jsonrpc": "2.0", "id": "q", "result": ACCEPT}]
    assert stage.connection.causes == [1]
    assert (stage.settled, stage.attached, call.is_open) == (["q"], [call], True)
    stage.connection.give(1, {"content": []})
    result = stage.result()
    assert (result["resultType"], result["content"]) == ("complete", [])
    assert stage.sink.messages("answer")[-1]["id"] == 2
    assert len(stage.parking) == 0


async def test_questions_that_come_meanwhile_are_for_the_next_round(stage: Stage) -> None:
    parked = stage.ask(stage.call(), "first")
    stage.ask(parked, "second")
    first = stage.result()
    assert len(keys(first)) == 1
    stage.retry(first, **{keys(first)[0]: ACCEPT})
    second = stage.result()
    assert second["inputRequests"][keys(second)[0]]["params"]["message"] == "second"
    assert second["requestState"] != first["requestState"]
    assert [answer["id"] for answer in stage.connection.answers] == ["first"]


async def test_what_finishes_while_it_is_parked_is_kept_for_the_retry(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    stage.connection.give(1, {"content": [{"type": "text", "text": "done"}]})
    assert len(stage.sink.messages("answer")) == 1
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert stage.result()["content"][0]["text"] == "done"
    assert stage.connection.answers == []
    assert stage.settled == ["q"]


async def test_a_server_that_ends_while_a_call_is_parked_is_told_of_at_the_retry(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    stage.connection.end("it fell over")
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert "is gone" in stage.sink.messages("answer")[-1]["error"]["message"]
    assert len(stage.parking) == 0


async def test_an_error_after_the_retry_names_the_resource_as_the_client_does(stage: Stage) -> None:
    stage.ask(stage.call(method="resources/read", asked={"uri": "hearth:s:r:1"}))
    required = stage.result()
    asked: dict[str, object] = {"uri": "hearth:s:r:1"}
    stage.retry(required, method="resources/read", params=asked, **{keys(required)[0]: ACCEPT})
    stage.connection.refuse(1, -32002, "no", {"uri": "r:1"})
    error = stage.sink.messages("answer")[-1]["error"]
    assert (error["code"], error["data"]) == (-32602, {"uri": "hearth:s:r:1"})


async def test_a_question_that_the_server_withdraws_needs_no_answer(stage: Stage) -> None:
    parked = stage.ask(stage.call())
    required = stage.result()
    for id in (b'"other"', b'"q"'):
        parked.withdrawn(id)
    assert stage.settled == ["q"]
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert stage.connection.answers == []


async def test_an_answer_that_the_server_s_revision_has_no_words_for_is_an_error_to_it(stage: Stage) -> None:
    assert stage.instance.catalog
    stage.instance.catalog.version = "2025-03-26"
    stage.ask(stage.call(), method="sampling/createMessage")
    required = stage.result()
    several = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "x"}, {"type": "tool_use"}]}
    stage.retry(required, **{keys(required)[0]: several})
    assert "error" in stage.connection.answers[0]


# --- who is attached


async def test_progress_is_told_under_the_token_of_the_request_that_waits_and_to_nobody_while_it_is_parked(
    stage: Stage,
) -> None:
    stage.ask(stage.call(token=b'"first"'))
    required = stage.result()
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    assert stage.sink.heard("notify") == []
    stage.retry(required, token=b'"second"', **{keys(required)[0]: ACCEPT})
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 2})
    assert [item["params"]["progressToken"] for item in stage.sink.messages("notify")] == ["second"]


async def test_what_the_retry_declares_counts_for_what_is_asked_next(stage: Stage) -> None:
    parked = stage.ask(stage.call())
    stage.ask(parked, "roots", "roots/list")
    required = stage.result()
    stage.retry(required, declared=b'{"elicitation":{}}', **{keys(required)[0]: ACCEPT})
    by_id = {answer["id"]: answer for answer in stage.connection.answers}
    assert "result" in by_id["q"]
    assert "lists roots" in by_id["roots"]["error"]["message"]
    assert sorted(stage.settled) == ["q", "roots"]
    assert len(stage.sink.messages("answer")) == 1


async def test_a_client_that_cannot_be_asked_stays_attached_and_the_server_is_refused(stage: Stage) -> None:
    call = stage.call(declared=b"{}")
    stage.ask(call)
    assert "has not declared elicitation" in stage.connection.answers[0]["error"]["message"]
    assert (call.is_open, stage.sink.said, stage.settled) == (True, [], ["q"])
    stage.connection.give(1, {"content": []})
    assert stage.result()["content"] == []


async def test_the_time_that_it_was_parked_is_not_the_call_s(stage: Stage) -> None:
    call = stage.call()
    assert call.attempt is not None
    begun = call.attempt.started - 60.0
    call.attempt = call.attempt._replace(started=begun)
    parked = stage.ask(call)
    parked._suspended_at -= 50.0
    required = stage.result()
    again = stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert again.attempt is not None
    assert 50.0 <= again.attempt.started - begun < 100.0
    assert again.touched >= again.attempt.started


async def test_cancelling_the_retry_cancels_the_server_s_call(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: ACCEPT}).cancel()
    assert stage.connection.cancelled() == [1]
    assert len(stage.parking) == 0
    with pytest.raises(StateRefused):
        stage.retry(required)


URL = Question("elicitation/create", b'{"mode":"url","message":"Go","url":"https://x.example","elicitationId":"e1"}')


async def test_a_demanded_url_is_visited_before_the_call_is_made_afresh(stage: Stage) -> None:
    stage.parking.take(stage.call()).demanded([URL])
    required = stage.result()
    (request,) = required["inputRequests"].values()
    assert request["params"] == {"mode": "url", "message": "Go", "url": "https://x.example"}
    call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
    assert stage.desk.again == []
    stage.parking.completed(stage.connection, "other")
    stage.parking.completed(Recorded(), "e1")
    assert stage.desk.again == []
    stage.parking.completed(stage.connection, "e1")
    assert stage.desk.again == [call]
    assert (call.is_open, len(stage.parking)) == (True, 0)
    # Made afresh of what the retry asks for.
    assert json.loads(bytes(call.request.params["arguments"])) == {"a": 1}


async def test_a_url_that_was_complete_before_the_retry_is_not_waited_for(stage: Stage) -> None:
    stage.parking.take(stage.call()).demanded([URL])
    stage.parking.completed(stage.connection, "e1")
    required = stage.result()
    call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
    assert stage.desk.again == [call]


async def test_an_error_in_the_midst_that_demands_urls_is_taken_as_one(stage: Stage) -> None:
    stage.parking.take(stage.call())
    elicitation = {"mode": "url", "message": "Go", "url": "https://x", "elicitationId": "e1"}
    stage.connection.refuse(1, -32042, "visit", {"elicitations": [elicitation]})
    assert stage.result()["resultType"] == "input_required"


async def test_a_completion_that_nobody_announces_is_taken_for_granted_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspended_call, "VISIT_SECONDS", 0.01)
    stage = Stage()
    stage.parking.take(stage.call()).demanded([URL])
    required = stage.result()
    call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
    await until(lambda: stage.desk.again == [call], "it is made afresh")


@pytest.mark.parametrize("when", ["before the retry", "after it"])
async def test_a_server_that_is_gone_will_not_announce_anything(when: str, stage: Stage) -> None:
    stage.parking.take(stage.call()).demanded([URL])
    required = stage.result()
    if when == "before the retry":
        stage.instance.connection = None
    call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
    if when == "after it":
        stage.parking.server_ended()
        assert stage.desk.again == []
        stage.instance.connection = None
        stage.parking.server_ended()
    assert stage.desk.again == [call]


async def test_a_declined_url_fails_the_call(stage: Stage) -> None:
    stage.parking.take(stage.call()).demanded([URL])
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: {"action": "decline"}})
    assert "declined" in stage.sink.messages("answer")[-1]["error"]["message"]
    assert len(stage.parking) == 0


async def test_a_client_that_takes_no_urls_is_told_what_it_would_need(stage: Stage) -> None:
    stage.parking.take(stage.call(declared=b'{"elicitation":{}}')).demanded([URL])
    error = stage.sink.messages("answer")[-1]["error"]
    assert error["code"] == versions.MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert len(stage.parking) == 0


async def test_a_failure_of_an_attached_call_is_the_client_s_error(stage: Stage) -> None:
    stage.parking.take(stage.call()).failed(UpstreamError("it fell over"))
    assert stage.sink.messages("answer")[-1]["error"]["message"] == "it fell over"


# --- states that are not good


async def test_a_state_is_good_once(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    stage.retry(required)
    with pytest.raises(StateRefused) as caught:
        stage.retry(required)
    assert caught.value.data == {"reason": "spent"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"params": {"name": "s__t", "arguments": {"a": 2}}}, "request"),
        ({"params": {"name": "s__u", "arguments": {"a": 1}}}, "request"),
        ({"method": "prompts/get"}, "request"),
        ({"member": "another"}, "principal"),
    ],
)
async def test_a_state_is_good_for_that_client_and_that_call_only(
    change: dict[str, Any], reason: str, stage: Stage
) -> None:
    stage.ask(stage.call())
    if "member" in change:
        change["member"] = client(versions.MODERN)[0]
    required = stage.result()
    with pytest.raises(StateRefused) as caught:
        stage.retry(required, **change)
    assert caught.value.data == {"reason": reason}
    # Nobody is attached, and the right one may still come.
    assert stage.attached == []
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert len(stage.connection.answers) == 1


async def test_a_state_that_is_no_string_is_refused(stage: Stage) -> None:
    call = opened(stage.member, era=versions.MODERN)
    with pytest.raises(MessageError, match="string"):
        stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, "requestState": 7})))


@pytest.mark.parametrize("params", [{}, {"requestState": "foreign"}])
async def test_a_state_of_somebody_else_s_making_is_not_hearth_s_to_open(
    params: dict[str, object], stage: Stage
) -> None:
    call = opened(stage.member, era=versions.MODERN)
    assert stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, **params}))) is False
    assert call.is_open


async def test_a_response_that_is_none_is_refused_and_may_be_mended(stage: Stage) -> None:
    stage.ask(stage.call())
    required = stage.result()
    with pytest.raises(MessageError, match=keys(required)[0]):
        stage.retry(required, **{keys(required)[0]: {"action": "maybe"}})
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert len(stage.connection.answers) == 1


# --- the end of patience


@pytest.mark.parametrize(
    ("method", "answer"), [("elicitation/create", {"result": {"action": "cancel"}}), ("roots/list", None)]
)
async def test_a_call_whose_client_never_comes_back_is_given_up(method: str, answer: dict[str, object] | None) -> None:
    stage = Stage(patience=0.01)
    stage.ask(stage.call(), method=method)
    required = stage.result()
    await until(lambda: not len(stage.parking), "it is over")
    (given,) = stage.connection.answers
    assert given == {"jsonrpc": "2.0", "id": "q", **answer} if answer else "error" in given
    assert stage.connection.cancelled() == [1]
    assert stage.settled == ["q"]
    with pytest.raises(StateRefused) as caught:
        stage.retry(required)
    assert caught.value.data == {"reason": "expired"}


async def test_patience_begins_anew_with_every_round_and_ends_with_the_retry(stage: Stage) -> None:
    parked = stage.ask(stage.call())
    first = parked._timer
    stage.ask(parked, "second")
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert first is not None
    assert first.cancelled()
    assert parked._timer is not first
    stage.connection.give(1, {})
    required = stage.result()
    stage.retry(required)
    assert parked._timer is not None
    assert parked._timer.cancelled()


async def test_a_client_that_leaves_takes_its_parked_calls_with_it_and_no_others(stage: Stage) -> None:
    other, others = client(versions.MODERN, declared=ALL)
    stage.ask(stage.call(), "mine")
    stage.ask(stage.call(other), "theirs")
    stage.parking.session_left(stage.member)
    assert stage.connection.cancelled() == [1]
    assert [answer["id"] for answer in stage.connection.answers] == ["mine"]
    required = stage.result(others)
    stage.retry(required, other, **{keys(required)[0]: ACCEPT})
    assert [answer["id"] for answer in stage.connection.answers] == ["mine", "theirs"]


async def test_a_client_parks_only_so_many_calls_and_another_as_many_again() -> None:
    stage = Stage(limit=2)
    for number in range(2):
        stage.ask(stage.call(), f"q{number}")
    with pytest.raises(Refused, match=r"2 calls wait .*\(parked_limit\)"):
        stage.parking.take(stage.call())
    other, _ = client(versions.MODERN, declared=ALL)
    stage.ask(stage.call(other), "theirs")
    assert len(stage.parking) == 3


async def test_a_call_that_may_be_parked_already_is_taken_once() -> None:
    stage = Stage(limit=0)
    with pytest.raises(Refused):
        stage.parking.take(stage.call())
    stage = Stage()
    call = stage.call()
    parked = stage.parking.take(call)
    assert stage.parking.take(call) is parked
    assert stage.connection.waiter(1) is parked
    # Nobody waits for a client as long as nothing was asked.
    assert len(stage.parking) == 0

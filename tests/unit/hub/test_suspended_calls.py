"""Parked calls on real calls and connections: what the client and the server are told, and when.

The table of what follows what is `mcp.parked`'s, and is tested there.
"""

import pytest

from hearth.mcp.request_state import StateRefused
from unit.hub.suspended_stage import ACCEPT, Stage, keys

# --- one round


async def test_a_question_parks_the_call_and_the_retry_brings_the_answer_to_the_server() -> None:
    stage = Stage()
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


async def test_questions_that_come_meanwhile_are_for_the_next_round() -> None:
    stage = Stage()
    parked = stage.ask(stage.call(), "first")
    stage.ask(parked, "second")
    first = stage.result()
    assert len(keys(first)) == 1
    stage.retry(first, **{keys(first)[0]: ACCEPT})
    second = stage.result()
    assert second["inputRequests"][keys(second)[0]]["params"]["message"] == "second"
    assert second["requestState"] != first["requestState"]
    assert [answer["id"] for answer in stage.connection.answers] == ["first"]


async def test_what_finishes_while_it_is_parked_is_kept_for_the_retry() -> None:
    stage = Stage()
    stage.ask(stage.call())
    required = stage.result()
    stage.connection.give(1, {"content": [{"type": "text", "text": "done"}]})
    assert len(stage.sink.messages("answer")) == 1
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert stage.result()["content"][0]["text"] == "done"
    assert stage.connection.answers == []
    assert stage.settled == ["q"]


async def test_a_server_that_ends_while_a_call_is_parked_is_told_of_at_the_retry() -> None:
    stage = Stage()
    stage.ask(stage.call())
    required = stage.result()
    stage.connection.end("it fell over")
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert "is gone" in stage.sink.messages("answer")[-1]["error"]["message"]
    assert len(stage.parking) == 0


async def test_an_error_after_the_retry_names_the_resource_as_the_client_does() -> None:
    stage = Stage()
    call = stage.call(method="resources/read", asked={"uri": "hearth:s:r:1"})
    stage.ask(call)
    required = stage.result()
    asked: dict[str, object] = {"uri": "hearth:s:r:1"}
    stage.retry(required, method="resources/read", params=asked, **{keys(required)[0]: ACCEPT})
    stage.connection.refuse(1, -32002, "no", {"uri": "r:1"})
    error = stage.sink.messages("answer")[-1]["error"]
    assert (error["code"], error["data"]) == (-32602, {"uri": "hearth:s:r:1"})


async def test_a_question_that_the_server_withdraws_needs_no_answer() -> None:
    stage = Stage()
    parked = stage.ask(stage.call())
    required = stage.result()
    for id in (b'"other"', b'"q"'):
        parked.withdrawn(id)
    assert stage.settled == ["q"]
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert stage.connection.answers == []


async def test_an_answer_that_the_server_s_revision_has_no_words_for_is_an_error_to_it() -> None:
    stage = Stage()
    assert stage.instance.catalog
    stage.instance.catalog.version = "2025-03-26"
    stage.ask(stage.call(), method="sampling/createMessage")
    required = stage.result()
    several = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "x"}, {"type": "tool_use"}]}
    stage.retry(required, **{keys(required)[0]: several})
    assert "error" in stage.connection.answers[0]


# --- who is attached


async def test_progress_is_told_under_the_token_of_the_request_that_waits_and_to_nobody_while_it_is_parked() -> None:
    stage = Stage()
    stage.ask(stage.call(token=b'"first"'))
    required = stage.result()
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    assert stage.sink.heard("notify") == []
    stage.retry(required, token=b'"second"', **{keys(required)[0]: ACCEPT})
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 2})
    assert [item["params"]["progressToken"] for item in stage.sink.messages("notify")] == ["second"]


async def test_what_the_retry_declares_counts_for_what_is_asked_next() -> None:
    stage = Stage()
    parked = stage.ask(stage.call())
    stage.ask(parked, "roots", "roots/list")
    required = stage.result()
    stage.retry(required, declared=b'{"elicitation":{}}', **{keys(required)[0]: ACCEPT})
    by_id = {answer["id"]: answer for answer in stage.connection.answers}
    assert "result" in by_id["q"]
    assert "lists roots" in by_id["roots"]["error"]["message"]
    assert sorted(stage.settled) == ["q", "roots"]
    assert len(stage.sink.messages("answer")) == 1


async def test_a_client_that_cannot_be_asked_stays_attached_and_the_server_is_refused() -> None:
    stage = Stage()
    call = stage.call(declared=b"{}")
    stage.ask(call)
    assert "has not declared elicitation" in stage.connection.answers[0]["error"]["message"]
    assert (call.is_open, stage.sink.said, stage.settled) == (True, [], ["q"])
    stage.connection.give(1, {"content": []})
    assert stage.result()["content"] == []


async def test_the_time_that_it_was_parked_is_not_the_call_s() -> None:
    stage = Stage()
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


async def test_cancelling_the_retry_cancels_the_server_s_call() -> None:
    stage = Stage()
    stage.ask(stage.call())
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: ACCEPT}).cancel()
    assert stage.connection.cancelled() == [1]
    assert len(stage.parking) == 0
    with pytest.raises(StateRefused):
        stage.retry(required)

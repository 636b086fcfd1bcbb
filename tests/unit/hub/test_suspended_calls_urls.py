"""Parked calls whose server demands that URLs are visited first."""

import pytest

from hearth.errors import UpstreamError
from hearth.hub import suspended_call
from hearth.mcp import versions
from hearth.mcp.questions import Question
from hearth.wire import json
from unit.conversations import Recorded, until
from unit.hub.suspended_stage import Stage, keys

URL = Question("elicitation/create", b'{"mode":"url","message":"Go","url":"https://x.example","elicitationId":"e1"}')


async def test_a_demanded_url_is_visited_before_the_call_is_made_afresh() -> None:
    stage = Stage()
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


async def test_a_url_that_was_complete_before_the_retry_is_not_waited_for() -> None:
    stage = Stage()
    stage.parking.take(stage.call()).demanded([URL])
    stage.parking.completed(stage.connection, "e1")
    required = stage.result()
    call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
    assert stage.desk.again == [call]


async def test_an_error_in_the_midst_that_demands_urls_is_taken_as_one() -> None:
    stage = Stage()
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
async def test_a_server_that_is_gone_will_not_announce_anything(when: str) -> None:
    stage = Stage()
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


async def test_a_declined_url_fails_the_call() -> None:
    stage = Stage()
    stage.parking.take(stage.call()).demanded([URL])
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: {"action": "decline"}})
    assert "declined" in stage.sink.messages("answer")[-1]["error"]["message"]
    assert len(stage.parking) == 0


async def test_a_client_that_takes_no_urls_is_told_what_it_would_need() -> None:
    stage = Stage()
    stage.parking.take(stage.call(declared=b'{"elicitation":{}}')).demanded([URL])
    error = stage.sink.messages("answer")[-1]["error"]
    assert error["code"] == versions.MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert len(stage.parking) == 0


async def test_a_failure_of_an_attached_call_is_the_client_s_error() -> None:
    stage = Stage()
    stage.parking.take(stage.call()).failed(UpstreamError("it fell over"))
    assert stage.sink.messages("answer")[-1]["error"]["message"] == "it fell over"

"""Parked calls on real calls and connections: what the client and the server are told, and when it is over.

The table of what follows what is `mcp.parked`'s, and is tested there.
"""

from typing import Any

import pytest

from hearth.errors import MessageError, Refused, UpstreamError
from hearth.hub import parked_calls
from hearth.hub.calls import Call
from hearth.hub.parked_calls import ParkedCall
from hearth.hub.parking import Parking
from hearth.hub.sessions import Session
from hearth.mcp import eras
from hearth.mcp.questions import Question
from hearth.mcp.request_state import StateRefused
from hearth.wire import json
from hearth.wire.json import Raw
from unit.conversations import Recorded, run, until
from unit.hub.outlets import Kept
from unit.hub.stage import Desk, client, instance, offering, opened, sent, server

ALL = b'{"elicitation":{"form":{},"url":{}},"roots":{},"sampling":{}}'
ACCEPT = {"action": "accept", "content": {"sure": True}}
ASKED = {"name": "s__t", "arguments": {"a": 1}}


class Table(Desk):
    """Takes calls that are to be made afresh."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Call] = []

    def call_again(self, call: Call) -> None:
        self.again.append(call)


class Stage:
    """Calls of modern clients on one legacy server, parked when it asks."""

    def __init__(self, patience: float = 60.0, limit: int = 3) -> None:
        self.attached: list[Call] = []
        self.parking = Parking(lambda: patience, lambda: limit, self.attached.append)
        self.server = server()
        self.instance, self.connection = instance(self.server, offering(tools=["t"]))
        self.member, self.outlet = client(eras.MODERN, declared=ALL)
        self.desk = Table()
        self.settled: list[str] = []
        self._count = 0

    def call(self, member: Session | None = None, declared: bytes = ALL, token: bytes | None = None) -> Call:
        """A call that the server has."""
        self._count += 1
        call = sent(member or self.member, self.server, self.instance, b"%d" % self._count, desk=self.desk)
        call.asked = json.split(json.dumps(ASKED))
        call.declared = declared
        call.progress_token = None if token is None else Raw(token)
        return call

    def ask(self, call: Call | ParkedCall, id: str = "q", method: str = "elicitation/create") -> ParkedCall:
        """The server asks in the midst of it."""
        parked = self.parking.take(call) if isinstance(call, Call) else call
        params = {"message": id, "requestedSchema": {}} if method == "elicitation/create" else {}
        question = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        parked.question(json.parse(json.dumps(question)), lambda: self.settled.append(id))
        return parked

    def result(self, outlet: Kept | None = None) -> dict[str, Any]:
        """The client's last answer."""
        found: dict[str, Any] = (outlet or self.outlet).messages("answer")[-1]["result"]
        return found

    def retry(
        self,
        required: dict[str, Any],
        member: Session | None = None,
        declared: bytes = ALL,
        token: bytes | None = None,
        params: dict[str, object] | None = None,
        method: str = "tools/call",
        **responses: object,
    ) -> Call:
        """The client calls again, with what it was given."""
        self._count += 1
        call = opened(member or self.member, b"%d" % self._count, eras.MODERN, self.desk)
        call.declared = declared
        call.progress_token = None if token is None else Raw(token)
        fields: dict[str, object] = {**(params or ASKED), "requestState": required["requestState"]}
        fields |= {"inputResponses": responses} if responses else {}
        assert self.parking.retry(call, method, json.split(json.dumps(fields)))
        return call


def keys(required: dict[str, Any]) -> list[str]:
    return list(required["inputRequests"])


# --- one round


def test_a_question_parks_the_call_and_the_retry_brings_the_answer_to_the_server() -> None:
    async def body() -> None:
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
        assert stage.outlet.messages("answer")[-1]["id"] == 2
        assert len(stage.parking) == 0

    run(body())


def test_questions_that_come_meanwhile_are_for_the_next_round() -> None:
    async def body() -> None:
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

    run(body())


def test_what_finishes_while_it_is_parked_is_kept_for_the_retry() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        required = stage.result()
        stage.connection.give(1, {"content": [{"type": "text", "text": "done"}]})
        assert len(stage.outlet.messages("answer")) == 1
        stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert stage.result()["content"][0]["text"] == "done"
        assert stage.connection.answers == []
        assert stage.settled == ["q"]

    run(body())


def test_a_server_that_ends_while_a_call_is_parked_is_told_of_at_the_retry() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        required = stage.result()
        stage.connection.end("it fell over")
        stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert "is gone" in stage.outlet.messages("answer")[-1]["error"]["message"]
        assert len(stage.parking) == 0

    run(body())


def test_an_error_after_the_retry_names_the_resource_as_the_client_does() -> None:
    async def body() -> None:
        stage = Stage()
        call = stage.call()
        call.method, call.uri = "resources/read", b'"hearth:s:r:1"'
        stage.ask(call)
        required = stage.result()
        stage.retry(required, method="resources/read", **{keys(required)[0]: ACCEPT})
        stage.connection.refuse(1, -32002, "no", {"uri": "r:1"})
        error = stage.outlet.messages("answer")[-1]["error"]
        assert (error["code"], error["data"]) == (-32602, {"uri": "hearth:s:r:1"})

    run(body())


def test_a_question_that_the_server_withdraws_needs_no_answer() -> None:
    async def body() -> None:
        stage = Stage()
        parked = stage.ask(stage.call())
        required = stage.result()
        for id in (b'"other"', b'"q"'):
            parked.withdrawn(id)
        assert stage.settled == ["q"]
        stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert stage.connection.answers == []

    run(body())


def test_an_answer_that_the_server_s_revision_has_no_words_for_is_an_error_to_it() -> None:
    async def body() -> None:
        stage = Stage()
        assert stage.instance.offering
        stage.instance.offering.version = "2025-03-26"
        stage.ask(stage.call(), method="sampling/createMessage")
        required = stage.result()
        several = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "x"}, {"type": "tool_use"}]}
        stage.retry(required, **{keys(required)[0]: several})
        assert "error" in stage.connection.answers[0]

    run(body())


# --- who is attached


def test_progress_is_told_under_the_token_of_the_request_that_waits_and_to_nobody_while_it_is_parked() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call(token=b'"first"'))
        required = stage.result()
        stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
        assert stage.outlet.heard("notify") == []
        stage.retry(required, token=b'"second"', **{keys(required)[0]: ACCEPT})
        stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 2})
        assert [item["params"]["progressToken"] for item in stage.outlet.messages("notify")] == ["second"]

    run(body())


def test_what_the_retry_declares_counts_for_what_is_asked_next() -> None:
    async def body() -> None:
        stage = Stage()
        parked = stage.ask(stage.call())
        stage.ask(parked, "roots", "roots/list")
        required = stage.result()
        stage.retry(required, declared=b'{"elicitation":{}}', **{keys(required)[0]: ACCEPT})
        by_id = {answer["id"]: answer for answer in stage.connection.answers}
        assert "result" in by_id["q"]
        assert "lists roots" in by_id["roots"]["error"]["message"]
        assert sorted(stage.settled) == ["q", "roots"]
        assert len(stage.outlet.messages("answer")) == 1

    run(body())


def test_a_client_that_cannot_be_asked_stays_attached_and_the_server_is_refused() -> None:
    async def body() -> None:
        stage = Stage()
        call = stage.call(declared=b"{}")
        stage.ask(call)
        assert "has not declared elicitation" in stage.connection.answers[0]["error"]["message"]
        assert (call.is_open, stage.outlet.said, stage.settled) == (True, [], ["q"])
        stage.connection.give(1, {"content": []})
        assert stage.result()["content"] == []

    run(body())


def test_the_time_that_it_was_parked_is_not_the_call_s() -> None:
    async def body() -> None:
        stage = Stage()
        call = stage.call()
        call.started -= 60.0
        begun = call.started
        parked = stage.ask(call)
        parked._parked_at -= 50.0
        required = stage.result()
        again = stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert 50.0 <= again.started - begun < 100.0
        assert again.touched >= again.started

    run(body())


def test_cancelling_the_retry_cancels_the_server_s_call() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        required = stage.result()
        stage.retry(required, **{keys(required)[0]: ACCEPT}).cancel()
        assert stage.connection.cancelled() == [1]
        assert len(stage.parking) == 0
        with pytest.raises(StateRefused):
            stage.retry(required)

    run(body())


# --- states that are not good


def test_a_state_is_good_once() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        required = stage.result()
        stage.retry(required)
        with pytest.raises(StateRefused) as caught:
            stage.retry(required)
        assert caught.value.data == {"reason": "spent"}

    run(body())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"params": {"name": "s__t", "arguments": {"a": 2}}}, "request"),
        ({"params": {"name": "s__u", "arguments": {"a": 1}}}, "request"),
        ({"method": "prompts/get"}, "request"),
        ({"member": "another"}, "principal"),
    ],
)
def test_a_state_is_good_for_that_client_and_that_call_only(change: dict[str, Any], reason: str) -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        if "member" in change:
            change["member"] = client(eras.MODERN)[0]
        required = stage.result()
        with pytest.raises(StateRefused) as caught:
            stage.retry(required, **change)
        assert caught.value.data == {"reason": reason}
        # Nobody is attached, and the right one may still come.
        assert stage.attached == []
        stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert len(stage.connection.answers) == 1

    run(body())


def test_a_state_that_is_no_string_is_refused() -> None:
    async def body() -> None:
        stage = Stage()
        call = opened(stage.member, era=eras.MODERN)
        with pytest.raises(MessageError, match="string"):
            stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, "requestState": 7})))

    run(body())


@pytest.mark.parametrize("params", [{}, {"requestState": "foreign"}])
def test_a_state_of_somebody_else_s_making_is_not_hearth_s_to_open(params: dict[str, object]) -> None:
    async def body() -> None:
        stage = Stage()
        call = opened(stage.member, era=eras.MODERN)
        assert stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, **params}))) is False
        assert call.is_open

    run(body())


def test_a_response_that_is_none_is_refused_and_may_be_mended() -> None:
    async def body() -> None:
        stage = Stage()
        stage.ask(stage.call())
        required = stage.result()
        with pytest.raises(MessageError, match=keys(required)[0]):
            stage.retry(required, **{keys(required)[0]: {"action": "maybe"}})
        stage.retry(required, **{keys(required)[0]: ACCEPT})
        assert len(stage.connection.answers) == 1

    run(body())


# --- the end of patience


@pytest.mark.parametrize(
    ("method", "answer"),
    [("elicitation/create", {"result": {"action": "cancel"}}), ("roots/list", None)],
)
def test_a_call_whose_client_never_comes_back_is_given_up(method: str, answer: dict[str, object] | None) -> None:
    async def body() -> None:
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

    run(body())


def test_patience_begins_anew_with_every_round_and_ends_with_the_retry() -> None:
    async def body() -> None:
        stage = Stage()
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

    run(body())


def test_a_client_that_leaves_takes_its_parked_calls_with_it_and_no_others() -> None:
    async def body() -> None:
        stage = Stage()
        other, others = client(eras.MODERN, declared=ALL)
        stage.ask(stage.call(), "mine")
        stage.ask(stage.call(other), "theirs")
        stage.parking.session_left(stage.member)
        assert stage.connection.cancelled() == [1]
        assert [answer["id"] for answer in stage.connection.answers] == ["mine"]
        required = stage.result(others)
        stage.retry(required, other, **{keys(required)[0]: ACCEPT})
        assert [answer["id"] for answer in stage.connection.answers] == ["mine", "theirs"]

    run(body())


def test_a_client_parks_only_so_many_calls_and_another_as_many_again() -> None:
    async def body() -> None:
        stage = Stage(limit=2)
        for number in range(2):
            stage.ask(stage.call(), f"q{number}")
        with pytest.raises(Refused, match=r"2 calls wait .*\(parked_limit\)"):
            stage.parking.take(stage.call())
        other, _ = client(eras.MODERN, declared=ALL)
        stage.ask(stage.call(other), "theirs")
        assert len(stage.parking) == 3

    run(body())


def test_a_call_that_may_be_parked_already_is_taken_once() -> None:
    async def body() -> None:
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

    run(body())


# --- URLs that are to be visited first


URL = Question("elicitation/create", b'{"mode":"url","message":"Go","url":"https://x.example","elicitationId":"e1"}')


def test_a_demanded_url_is_visited_before_the_call_is_made_afresh() -> None:
    async def body() -> None:
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
        assert call.asked is not None
        assert json.loads(bytes(call.asked["arguments"])) == {"a": 1}

    run(body())


def test_a_url_that_was_complete_before_the_retry_is_not_waited_for() -> None:
    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call()).demanded([URL])
        stage.parking.completed(stage.connection, "e1")
        required = stage.result()
        call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
        assert stage.desk.again == [call]

    run(body())


def test_an_error_in_the_midst_that_demands_urls_is_taken_as_one() -> None:
    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call())
        elicitation = {"mode": "url", "message": "Go", "url": "https://x", "elicitationId": "e1"}
        stage.connection.refuse(1, -32042, "visit", {"elicitations": [elicitation]})
        assert stage.result()["resultType"] == "input_required"

    run(body())


def test_a_completion_that_nobody_announces_is_taken_for_granted_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked_calls, "VISIT_SECONDS", 0.01)

    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call()).demanded([URL])
        required = stage.result()
        call = stage.retry(required, **{keys(required)[0]: {"action": "accept"}})
        await until(lambda: stage.desk.again == [call], "it is made afresh")

    run(body())


@pytest.mark.parametrize("when", ["before the retry", "after it"])
def test_a_server_that_is_gone_will_not_announce_anything(when: str) -> None:
    async def body() -> None:
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

    run(body())


def test_a_declined_url_fails_the_call() -> None:
    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call()).demanded([URL])
        required = stage.result()
        stage.retry(required, **{keys(required)[0]: {"action": "decline"}})
        assert "declined" in stage.outlet.messages("answer")[-1]["error"]["message"]
        assert len(stage.parking) == 0

    run(body())


def test_a_client_that_takes_no_urls_is_told_what_it_would_need() -> None:
    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call(declared=b'{"elicitation":{}}')).demanded([URL])
        error = stage.outlet.messages("answer")[-1]["error"]
        assert error["code"] == eras.MISSING_CAPABILITY
        assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
        assert len(stage.parking) == 0

    run(body())


def test_a_failure_of_an_attached_call_is_the_client_s_error() -> None:
    async def body() -> None:
        stage = Stage()
        stage.parking.take(stage.call()).failed(UpstreamError("it fell over"))
        assert stage.outlet.messages("answer")[-1]["error"]["message"] == "it fell over"

    run(body())

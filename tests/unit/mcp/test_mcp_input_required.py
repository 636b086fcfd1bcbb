"""`input_required` and its retry, word by word."""

import pytest

from hearth.errors import MessageError, UpstreamError
from hearth.mcp import input_required, versions
from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.client_requests import Question
from hearth.wire import json

FORM = Question(ELICITATION, b'{"message":"m","requestedSchema":{"type":"object","properties":{}}}')
ROOT = Question(ROOTS, b"{}")
INFO = b'{"name":"n","version":"1"}'


def parsed(result: bytes) -> input_required.Required:
    return input_required.parse_required(json.split(result))


def test_a_result_that_asks_is_what_the_schema_says() -> None:
    assert json.loads(input_required.required_result({"a": FORM, "b": ROOT}, "s", INFO)) == {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": ELICITATION, "params": json.loads(FORM.params)},
            "b": {"method": ROOTS, "params": {}},
        },
        "requestState": "s",
        "_meta": {versions.SERVER_INFO_KEY: {"name": "n", "version": "1"}},
    }


def test_a_state_alone_means_to_call_again() -> None:
    result = json.loads(input_required.required_result({}, "s", INFO))
    assert "inputRequests" not in result
    assert result["requestState"] == "s"


def test_questions_alone_come_without_a_state() -> None:
    assert "requestState" not in json.loads(input_required.required_result({"a": ROOT}, None, INFO))


@pytest.mark.parametrize(("questions", "state"), [({"a": FORM, "b": ROOT}, "s"), ({}, ""), ({"a": FORM}, None)])
def test_what_is_asked_is_read_as_it_was_written(questions: dict[str, Question], state: str | None) -> None:
    result = json.split(input_required.required_result(questions, state, INFO))
    assert input_required.parse_required(result) == (questions, None if state is None else json.dumps(state))


def test_a_state_is_kept_byte_for_byte() -> None:
    assert parsed(b'{"requestState":"\\u0041\\/"}').state == b'"\\u0041\\/"'


def test_roots_need_no_params() -> None:
    assert parsed(b'{"inputRequests":{"r":{"method":"roots/list"}}}').questions == {"r": ROOT}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (b"{}", "neither"),
        (b'{"inputRequests":null,"requestState":null}', "neither"),
        (b'{"inputRequests":[]}', "not an object"),
        (b'{"requestState":1}', "not a string"),
        (b'{"inputRequests":{"k":{"method":"tools/call","params":{}}}}', "'k' by 'tools/call'"),
        (b'{"inputRequests":{"k":{"params":{}}}}', "'k' by None"),
        (b'{"inputRequests":{"k":1}}', "'k' by None"),
        (b'{"inputRequests":{"k":{"method":"elicitation/create"}}}', "without params"),
        (b'{"inputRequests":{"k":{"method":"sampling/createMessage","params":[]}}}', "without params"),
    ],
)
def test_what_the_schema_does_not_allow_is_the_server_s_fault(result: bytes, said: str) -> None:
    with pytest.raises(UpstreamError, match=said):
        parsed(result)


def test_a_retry_s_answers_are_raw() -> None:
    params = json.split(b'{"name":"t","inputResponses":{"a":{"action":"accept"},"b":{"roots":[]}}}')
    assert input_required.responses(params) == {"a": b'{"action":"accept"}', "b": b'{"roots":[]}'}


@pytest.mark.parametrize("params", [b"{}", b'{"inputResponses":null}', b'{"inputResponses":{}}'])
def test_a_retry_may_bring_no_answers(params: bytes) -> None:
    assert input_required.responses(json.split(params)) == {}


def test_answers_that_are_no_object_are_refused() -> None:
    with pytest.raises(MessageError, match="inputResponses") as caught:
        input_required.responses(json.split(b'{"inputResponses":[]}'))
    assert caught.value.rpc_code == versions.INVALID_PARAMS


def test_a_call_made_again_carries_this_round_s_answers_and_state_only() -> None:
    params = json.split(b'{"name":"t","arguments":{"x":1.0},"inputResponses":{"old":{}},"requestState":"old"}')
    again = input_required.retry_params(params, {"a": b'{"roots":[]}'}, b'"\\u0041"')
    assert json.join(again) == (
        b'{"name":"t","arguments":{"x":1.0},"inputResponses":{"a":{"roots":[]}},"requestState":"\\u0041"}'
    )
    assert json.join(input_required.retry_params(params, {}, None)) == b'{"name":"t","arguments":{"x":1.0}}'


def demanded(error: bytes) -> list[Question] | None:
    return input_required.url_elicitations(json.split(error))


def test_urls_that_a_legacy_server_demands_are_questions() -> None:
    found = demanded(
        b'{"code":-32042,"message":"m","data":{"elicitations":['
        b'{"mode":"url","elicitationId":"1","url":"https://a","message":"x"},'
        b'{"elicitationId":"2","url":"https://b","message":"y"}]}}'
    )
    assert found is not None
    assert [question.method for question in found] == [ELICITATION, ELICITATION]
    params = [json.split(question.params) for question in found]
    assert [input_required.elicitation_id(each) for each in params] == ["1", "2"]
    assert [json.loads(each["mode"]) for each in params] == ["url", "url"]


@pytest.mark.parametrize(
    "error",
    [
        b"{}",
        b'{"code":-32603,"data":{"elicitations":[{"url":"u","message":"m"}]}}',
        b'{"code":-32042}',
        b'{"code":-32042,"data":{"elicitations":[]}}',
        b'{"code":-32042,"data":{"elicitations":{}}}',
        b'{"code":-32042,"data":{"elicitations":[{"message":"m"}]}}',
        b'{"code":-32042,"data":{"elicitations":[{"url":"u","message":"m"},1]}}',
    ],
)
def test_any_other_error_demands_no_urls(error: bytes) -> None:
    assert demanded(error) is None


def test_sampling_is_asked_for_with_its_params() -> None:
    sampling = Question(SAMPLING, b'{"messages":[],"maxTokens":1}')
    assert parsed(input_required.required_result({"s": sampling}, None, INFO)).questions == {"s": sampling}

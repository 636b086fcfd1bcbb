"""A question between revisions: what changes, what stays byte for byte, what is refused.

`input_required` and its retry, word by word.
"""

import pytest

from hearth.errors import MessageError, Refused, UpstreamError
from hearth.mcp import questions, versions
from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.questions import Question
from hearth.wire import json

TEXT = {"type": "text", "text": "a"}
IMAGE = {"type": "image", "data": "AA==", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
URL = {"mode": "url", "message": "m", "url": "https://example.org"}


def form(**properties: object) -> dict[str, object]:
    return {"message": "m", "requestedSchema": {"type": "object", "properties": properties}}


def sampling(*messages: object) -> dict[str, object]:
    return {"messages": list(messages), "maxTokens": 9}


def question(method: str, params: object) -> Question:
    return Question(method, json.dumps(params))


def modern(method: str, params: object) -> object:
    found = questions.modern(question(method, params))
    assert found.method == method
    return json.loads(found.params)


def legacy(method: str, params: object, version: str, elicitation_id: str | None = None) -> object:
    found = questions.legacy(question(method, params), version, elicitation_id)
    assert found.method == method
    return json.loads(found.params)


@pytest.mark.parametrize(
    ("method", "params"),
    [(ROOTS, {}), (SAMPLING, sampling({"role": "user", "content": TEXT})), (ELICITATION, form(a={"type": "string"}))],
)
def test_an_input_request_says_what_the_legacy_question_said(method: str, params: dict[str, object]) -> None:
    noise = {"task": {"ttl": 1}, "_meta": {"progressToken": 1, "io.modelcontextprotocol/related-task": {}}}
    assert modern(method, {**params, **noise}) == params
    assert modern(method, {**params, "_meta": {"progressToken": 1, "v/k": [1]}}) == {**params, "_meta": {"v/k": [1]}}


def test_an_input_request_by_url_has_no_elicitation_id() -> None:
    assert modern(ELICITATION, {**URL, "elicitationId": "e"}) == URL


def test_numbers_stay_as_they_were_written() -> None:
    params = b'{"messages":[],"maxTokens":1,"temperature":0.10000000000000000000001}'
    assert questions.modern(Question(SAMPLING, params)).params == params
    assert questions.legacy(Question(SAMPLING, params), "2025-11-25").params == params


def test_a_url_gets_an_elicitation_id_only_where_it_has_none() -> None:
    assert legacy(ELICITATION, URL, "2025-11-25", "made-up") == {**URL, "elicitationId": "made-up"}
    assert legacy(ELICITATION, {**URL, "elicitationId": "e"}, "2025-11-25", "made-up") == {**URL, "elicitationId": "e"}
    assert legacy(ELICITATION, form(), "2025-11-25", "made-up") == form()


def test_the_mode_is_dropped_for_the_revision_that_has_none() -> None:
    assert legacy(ELICITATION, {"mode": "form", **form()}, "2025-06-18") == form()
    assert legacy(ELICITATION, {"mode": "form", **form()}, "2025-11-25") == {"mode": "form", **form()}


def test_titled_choices_are_put_as_names_of_an_enum() -> None:
    titled = {"type": "string", "title": "T", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}
    named = {"type": "string", "title": "T", "enum": ["a", "b"], "enumNames": ["A", "b"]}
    plain = {"type": "string", "enum": ["x"]}
    assert legacy(ELICITATION, form(c=titled, d=plain), "2025-06-18") == form(c=named, d=plain)
    assert legacy(ELICITATION, form(c=titled), "2025-11-25") == form(c=titled)


def test_the_schema_s_own_name_is_dropped_where_it_was_not_foreseen() -> None:
    params = {"message": "m", "requestedSchema": {"$schema": "s", "type": "object", "properties": {}, "required": []}}
    wanted = {"message": "m", "requestedSchema": {"type": "object", "properties": {}, "required": []}}
    assert legacy(ELICITATION, params, "2025-06-18") == wanted


@pytest.mark.parametrize(
    ("method", "params", "version", "said"),
    [
        (ELICITATION, form(), "2025-03-26", "no elicitation"),
        (ELICITATION, URL, "2025-06-18", "by URL"),
        (ELICITATION, form(c={"type": "array", "items": {}}), "2025-06-18", "several choices"),
        (SAMPLING, {**sampling(), "tools": []}, "2025-06-18", "tools"),
        (SAMPLING, {**sampling(), "toolChoice": {}}, "2025-06-18", "tools"),
        (SAMPLING, sampling({"role": "user", "content": AUDIO}), "2024-11-05", "audio"),
        (SAMPLING, sampling({"role": "assistant", "content": [TEXT, TOOL_USE]}), "2025-06-18", "tool_use"),
        ("tools/call", {}, "2025-11-25", "tools/call"),
    ],
)
def test_what_cannot_be_put_to_a_revision_is_refused(method: str, params: object, version: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        legacy(method, params, version)


def test_what_nobody_can_be_asked_for_is_no_input_request() -> None:
    with pytest.raises(Refused, match="tools/call"):
        modern("tools/call", {})


def test_a_message_of_several_blocks_becomes_several_messages() -> None:
    params = sampling({"role": "user", "content": [TEXT, IMAGE]}, {"role": "assistant", "content": TEXT})
    assert legacy(SAMPLING, params, "2025-06-18") == sampling(
        {"role": "user", "content": TEXT}, {"role": "user", "content": IMAGE}, {"role": "assistant", "content": TEXT}
    )
    assert legacy(SAMPLING, params, "2025-11-25") == params


def test_audio_is_sampled_since_the_revision_that_has_it() -> None:
    params = sampling({"role": "user", "content": AUDIO})
    assert legacy(SAMPLING, params, "2025-03-26") == params


@pytest.mark.parametrize("version", versions.LEGACY_VERSIONS)
def test_roots_are_asked_for_alike_in_every_revision(version: str) -> None:
    assert legacy(ROOTS, {}, version) == {}


def legacy_result(method: str, result: object, version: str) -> object:
    return json.loads(questions.legacy_result(method, json.dumps(result), version))


@pytest.mark.parametrize("version", versions.LEGACY_VERSIONS)
@pytest.mark.parametrize(
    ("method", "result"),
    [
        (ELICITATION, {"action": "accept", "content": {"a": 1}}),
        (ELICITATION, {"action": "decline"}),
        (ELICITATION, {"action": "cancel", "_meta": {"v/k": 1}}),
        (ROOTS, {"roots": [{"uri": "file:///x"}]}),
        (SAMPLING, {"role": "assistant", "content": TEXT, "model": "m"}),
    ],
)
def test_a_result_means_the_same_to_every_revision(method: str, result: dict[str, object], version: str) -> None:
    assert legacy_result(method, {**result, "resultType": "complete"}, version) == result
    assert json.loads(questions.modern_result(method, json.dumps(result))) == result


def sampled(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content, "model": "m"}


@pytest.mark.parametrize(
    ("content", "one"),
    [
        ([TEXT], TEXT),
        ([IMAGE], IMAGE),
        ([TEXT, {"type": "text", "text": "b"}], {"type": "text", "text": "a\nb"}),
        ([], {"type": "text", "text": ""}),
    ],
)
def test_a_sampled_answer_is_one_block_for_the_revisions_that_have_one(content: object, one: object) -> None:
    assert legacy_result(SAMPLING, sampled(content), "2025-06-18") == sampled(one)
    assert legacy_result(SAMPLING, sampled(content), "2025-11-25") == sampled(content)


@pytest.mark.parametrize(
    ("content", "version"), [([TEXT, IMAGE], "2025-06-18"), (TOOL_USE, "2025-06-18"), (AUDIO, "2024-11-05")]
)
def test_a_sampled_answer_that_a_revision_has_no_room_for_is_refused(content: object, version: str) -> None:
    with pytest.raises(Refused, match=version):
        legacy_result(SAMPLING, sampled(content), version)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        (ELICITATION, b"{}"),
        (ELICITATION, b'{"action":"maybe"}'),
        (ELICITATION, b'"accept"'),
        (ROOTS, b'{"roots":{}}'),
        (ROOTS, b'{"action":"accept"}'),
        (SAMPLING, b'{"role":"assistant","content":"a"}'),
        (SAMPLING, b'{"content":{}}'),
        (SAMPLING, b"null"),
    ],
)
def test_what_is_no_result_of_the_question_is_refused_both_ways(method: str, result: bytes) -> None:
    with pytest.raises(MessageError, match=method) as caught:
        questions.modern_result(method, result)
    assert caught.value.rpc_code == versions.INVALID_PARAMS
    with pytest.raises(MessageError):
        questions.legacy_result(method, result, "2025-11-25")


FORM = Question(ELICITATION, b'{"message":"m","requestedSchema":{"type":"object","properties":{}}}')
ROOT = Question(ROOTS, b"{}")
INFO = b'{"name":"n","version":"1"}'


def parsed(result: bytes) -> questions.Required:
    return questions.parse_required(json.split(result))


def test_a_result_that_asks_is_what_the_schema_says() -> None:
    assert json.loads(questions.required_result({"a": FORM, "b": ROOT}, "s", INFO)) == {
        "resultType": "input_required",
        "inputRequests": {
            "a": {"method": ELICITATION, "params": json.loads(FORM.params)},
            "b": {"method": ROOTS, "params": {}},
        },
        "requestState": "s",
        "_meta": {versions.SERVER_INFO_KEY: {"name": "n", "version": "1"}},
    }


def test_a_state_alone_means_to_call_again() -> None:
    result = json.loads(questions.required_result({}, "s", INFO))
    assert "inputRequests" not in result
    assert result["requestState"] == "s"


def test_questions_alone_come_without_a_state() -> None:
    assert "requestState" not in json.loads(questions.required_result({"a": ROOT}, None, INFO))


@pytest.mark.parametrize(("asked", "state"), [({"a": FORM, "b": ROOT}, "s"), ({}, ""), ({"a": FORM}, None)])
def test_what_is_asked_is_read_as_it_was_written(asked: dict[str, Question], state: str | None) -> None:
    result = json.split(questions.required_result(asked, state, INFO))
    assert questions.parse_required(result) == (asked, None if state is None else json.dumps(state))


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
    assert questions.responses(params) == {"a": b'{"action":"accept"}', "b": b'{"roots":[]}'}


@pytest.mark.parametrize("params", [b"{}", b'{"inputResponses":null}', b'{"inputResponses":{}}'])
def test_a_retry_may_bring_no_answers(params: bytes) -> None:
    assert questions.responses(json.split(params)) == {}


def test_answers_that_are_no_object_are_refused() -> None:
    with pytest.raises(MessageError, match="inputResponses") as caught:
        questions.responses(json.split(b'{"inputResponses":[]}'))
    assert caught.value.rpc_code == versions.INVALID_PARAMS


def test_a_call_made_again_carries_this_round_s_answers_and_state_only() -> None:
    params = json.split(b'{"name":"t","arguments":{"x":1.0},"inputResponses":{"old":{}},"requestState":"old"}')
    again = questions.retry_params(params, {"a": b'{"roots":[]}'}, b'"\\u0041"')
    assert json.join(again) == (
        b'{"name":"t","arguments":{"x":1.0},"inputResponses":{"a":{"roots":[]}},"requestState":"\\u0041"}'
    )
    assert json.join(questions.retry_params(params, {}, None)) == b'{"name":"t","arguments":{"x":1.0}}'


def demanded(error: bytes) -> list[Question] | None:
    return questions.url_elicitations(json.split(error))


def test_urls_that_a_legacy_server_demands_are_questions() -> None:
    found = demanded(
        b'{"code":-32042,"message":"m","data":{"elicitations":['
        b'{"mode":"url","elicitationId":"1","url":"https://a","message":"x"},'
        b'{"elicitationId":"2","url":"https://b","message":"y"}]}}'
    )
    assert found is not None
    assert [question.method for question in found] == [ELICITATION, ELICITATION]
    params = [json.split(question.params) for question in found]
    assert [questions.elicitation_id(each) for each in params] == ["1", "2"]
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
    assert parsed(questions.required_result({"s": sampling}, None, INFO)).questions == {"s": sampling}

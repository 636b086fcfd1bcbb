"""A question between revisions: what changes, what stays byte for byte, what is refused."""

import pytest

from hearth.errors import MessageError, Refused
from hearth.mcp import client_requests, versions
from hearth.mcp.capabilities import ELICITATION, ROOTS, SAMPLING
from hearth.mcp.client_requests import Question
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
    found = client_requests.modern(question(method, params))
    assert found.method == method
    return json.loads(found.params)


def legacy(method: str, params: object, version: str, elicitation_id: str | None = None) -> object:
    found = client_requests.legacy(question(method, params), version, elicitation_id)
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
    assert client_requests.modern(Question(SAMPLING, params)).params == params
    assert client_requests.legacy(Question(SAMPLING, params), "2025-11-25").params == params


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
    return json.loads(client_requests.legacy_result(method, json.dumps(result), version))


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
    assert json.loads(client_requests.modern_result(method, json.dumps(result))) == result


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
        client_requests.modern_result(method, result)
    assert caught.value.rpc_code == versions.INVALID_PARAMS
    with pytest.raises(MessageError):
        client_requests.legacy_result(method, result, "2025-11-25")

"""Client and server of one era: nothing is changed that need not be, and what an older revision lacks is left out."""

from typing import Any

import pytest

from support.conformance.clients import Message
from support.conformance.revisions import LEGACY, MODERN
from support.kernel import until
from support.puppets.server import Puppet
from support.puppets.stage import (
    FAILED,
    FORM,
    FORM_ANSWER,
    INVALID_PARAMS,
    ROOTS_ANSWER,
    SAMPLE,
    Actor,
    Errand,
    Stage,
    page,
    shown,
)

ODD_STATE = 'st\u00e4te "/\\ \u2028\x00\ud83d ' + "x" * 10_000
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


# --- modern


@pytest.fixture
def modern_actor(stage: Stage) -> Actor:
    return stage.serve(MODERN)


def test_a_wish_for_input_passes_untouched_and_so_do_the_answers(stage: Stage, modern_actor: Actor) -> None:
    errand, puppet, first = modern_actor.called_by(stage.modern())
    asked = {
        "form": {"method": "elicitation/create", "params": FORM},
        "page": shown(page()),
        "model": {"method": "sampling/createMessage", "params": {**SAMPLE, "vendor": 1}},
        "folders": {"method": "roots/list"},
    }
    puppet.answer(first, resultType="input_required", inputRequests=asked, requestState=ODD_STATE, vendor=[1])
    assert errand.wishes() == asked
    assert errand.wish["requestState"] == ODD_STATE
    assert errand.wish["vendor"] == [1]
    given = {"form": FORM_ANSWER, "stray": {"of": "no concern"}}
    errand.go_on(**given)
    puppet, second = modern_actor.next("tools/call")
    assert second["id"] != first["id"]
    assert second["params"] == {**first["params"], "inputResponses": given, "requestState": ODD_STATE}
    errand.finish(puppet, second, "done")
    assert stage.scratch.status()["parked"] == 0


def test_a_state_alone_passes_and_comes_back_when_the_client_likes(stage: Stage, modern_actor: Actor) -> None:
    errand, puppet, call = modern_actor.called_by(stage.modern())
    puppet.answer(call, resultType="input_required", requestState="later")
    assert errand.wishes() == {}
    # Only the client calls again.
    assert errand.client.ask("tools/list").result["tools"]
    assert len(modern_actor.told("tools/call")) == 1
    errand.call_again()
    puppet, call = modern_actor.next("tools/call")
    assert call["params"]["requestState"] == "later"
    assert "inputResponses" not in call["params"]
    errand.finish(puppet, call, "now")


def test_a_state_of_hearth_s_own_look_is_a_modern_server_s_own_business(stage: Stage, modern_actor: Actor) -> None:
    errand, puppet, call = modern_actor.called_by(
        stage.modern(), name="puppet__act", requestState="hearth.c29tZXRoaW5n"
    )
    puppet.say(call, call["params"]["requestState"])
    assert errand.outcome().text == "hearth.c29tZXRoaW5n"


def test_a_missing_capability_is_the_server_s_to_tell(stage: Stage, modern_actor: Actor) -> None:
    errand, puppet, call = modern_actor.called_by(stage.modern(capabilities={"roots": {}}))
    assert call["params"]["_meta"][CLIENT_CAPABILITIES] == {"roots": {}}
    data = {"requiredCapabilities": {"sampling": {"tools": {}}}}
    puppet.refuse(call, -32021, "I need a model.", data)
    assert errand.outcome().error == {"code": -32021, "message": "I need a model.", "data": data}


@pytest.mark.parametrize("code", [-32020, -32022, -32002, -32042])
def test_an_error_that_is_about_hearth_or_of_the_other_era_is_not_passed_on(
    stage: Stage, modern_actor: Actor, code: int
) -> None:
    errand, puppet, call = modern_actor.called_by(stage.modern())
    puppet.refuse(call, code, "Something is wrong.")
    error = errand.outcome().error
    assert (error["code"], error["message"]) == (FAILED, "Something is wrong.")


def test_results_of_other_types_and_unknown_members_pass(stage: Stage, modern_actor: Actor) -> None:
    errand, puppet, call = modern_actor.called_by(stage.modern())
    structured = [1, {"two": None}]
    puppet.answer(call, content=[], structuredContent=structured, vendor={"deep": [True]}, isError=True)
    result = errand.outcome().result
    assert (result["structuredContent"], result["vendor"], result["isError"]) == (structured, {"deep": [True]}, True)


# --- legacy


def test_a_form_reaches_an_older_client_in_its_own_words(stage: Stage, actor: Actor) -> None:
    client = stage.legacy("2025-06-18")
    errand, puppet, call = actor.called_by(client)
    choice = {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}
    schema = {"type": "object", "properties": {"colour": choice}}
    puppet.ask("q-1", "elicitation/create", mode="form", message="Which?", requestedSchema=schema)
    params = client.next_question()["params"]
    assert "mode" not in params
    assert params["requestedSchema"]["properties"]["colour"] == {
        "type": "string",
        "enum": ["r", "g"],
        "enumNames": ["Red", "Green"],
    }
    assert actor.reply_to("q-1")["result"]["action"] == "accept"
    errand.finish(puppet, call, "done")


@pytest.mark.parametrize("revision", LEGACY[:2])
def test_a_question_that_a_revision_does_not_have_is_an_error_to_the_server(stage: Stage, revision: str) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    # It cannot be declared in that revision, whatever the client says.
    errand, puppet, call = actor.called_by(stage.legacy(revision, capabilities={"elicitation": {}}))
    puppet.ask("q-1", "elicitation/create", **FORM)
    assert revision in actor.reply_to("q-1")["error"]["message"]
    errand.finish(puppet, call, "without")


def test_the_client_s_error_goes_to_the_server_which_goes_on(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    client.refusal = {"code": -1, "message": "Not now.", "data": {"why": "busy"}}
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "sampling/createMessage", **SAMPLE)
    client.next_question()
    assert actor.reply_to("q-1")["error"] == client.refusal
    errand.finish(puppet, call, "without")


def test_several_questions_of_one_call_are_open_at_the_same_time(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "elicitation/create", **FORM)
    puppet.ask(2, "roots/list")
    puppet.ask("2", "sampling/createMessage", **SAMPLE)
    put = {question["method"]: question["id"] for question in (client.next_question() for _ in range(3))}
    for method, id in reversed(put.items()):
        client.wire.send({"jsonrpc": "2.0", "id": id, "result": client.reply(method, FORM)})
    # Each by its own id, whose type is kept.
    assert "model" in actor.reply_to("2")["result"]
    assert "roots" in actor.reply_to(2)["result"]
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    errand.finish(puppet, call, "done")


def test_a_question_that_its_server_withdraws_is_withdrawn_from_the_client(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "elicitation/create", **FORM)
    question = client.next_question()
    puppet.notify("notifications/cancelled", requestId="q-1")
    assert client.next_notice("notifications/cancelled")["params"]["requestId"] == question["id"]
    errand.finish(puppet, call, "never mind")


def test_a_call_that_ends_before_its_question_is_answered_withdraws_it(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-1", "elicitation/create", **FORM)
    question = client.next_question()
    errand.finish(puppet, call, "never mind")
    assert client.next_notice("notifications/cancelled")["params"]["requestId"] == question["id"]
    assert "error" in actor.reply_to("q-1")


@pytest.mark.parametrize("revision", LEGACY)
def test_resource_not_found_has_the_legacy_code_for_legacy_clients(stage: Stage, actor: Actor, revision: str) -> None:
    errand = Errand(stage.legacy(revision), method="resources/read", uri="no:such")
    puppet, call = actor.next("resources/read")
    puppet.refuse(call, -32002, "Not there.", {"uri": "no:such"})
    error = errand.outcome().error
    assert (error["code"], error["data"]) == (-32002, {"uri": "no:such"})


@pytest.mark.parametrize("isolation", ["session", "workspace", "auto"])
def test_roots_that_a_server_asks_for_when_it_is_greeted_are_its_client_s(stage: Stage, isolation: str) -> None:
    actor = stage.actor(keys={"isolation": isolation})

    def ask(puppet: Puppet, message: Message) -> None:
        if message.get("method") == "notifications/initialized":
            puppet.ask("r-1", "roots/list")

    actor.aside = ask
    stage.start()
    assert stage.legacy().everything("tools/list", "tools")
    reply = actor.reply_to("r-1")
    while isolation == "auto" and reply.get("result") != ROOTS_ANSWER:
        # The first processes are none that could know; in the end there is one for who works in that place.
        reply = actor.reply_to("r-1")
    assert reply["result"] == ROOTS_ANSWER


@pytest.mark.parametrize("isolation", ["shared", "workspace", "session"])
def test_roots_may_be_asked_for_out_of_the_blue(stage: Stage, isolation: str) -> None:
    actor = stage.serve(keys={"isolation": isolation})
    client = stage.legacy()
    client.ask("tools/list")
    puppet, _ = actor.next("notifications/initialized")
    puppet.ask("r-1", "roots/list")
    # Nobody has a request open. The client looks around now and then, as it may be asked itself.
    answer = until(lambda: actor.answer_heard() if client.ask("ping").error == {} else None, "there is an answer")
    assert answer is not None and answer["id"] == "r-1"
    assert isolation == "shared" or answer["result"] == ROOTS_ANSWER


# --- what older clients cannot take


AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "made:up", "name": "link", "title": "A link", "description": "Somewhere."}
TEXT = {"type": "text", "text": "words"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
EMBEDDED = {"type": "resource", "resource": {"uri": "made:up", "text": "content"}}


@pytest.mark.parametrize("revision", LEGACY)
def test_content_that_a_revision_does_not_have_becomes_text_and_the_rest_stays(
    stage: Stage, revision: str, upstream: str
) -> None:
    errand, puppet, call = stage.serve(upstream).called_by(stage.legacy(revision))
    puppet.answer(call, content=[TEXT, IMAGE, AUDIO, LINK, EMBEDDED], structuredContent={"a": [1]}, vendor=1)
    result = errand.outcome().result
    audio, link = result["content"][2:4]
    assert [result["content"][place] for place in (0, 1, 4)] == [TEXT, IMAGE, EMBEDDED]
    assert result["vendor"] == 1
    if revision < "2025-06-18":
        assert link["type"] == "text"
        assert all(word in link["text"] for word in ("A link", "made:up", "Somewhere."))
        assert "structuredContent" not in result
    else:
        assert link == LINK
        assert result["structuredContent"] == {"a": [1]}
    if revision < "2025-03-26":
        assert audio["type"] == "text"
        assert "audio/wav" in audio["text"]
    else:
        assert audio == AUDIO


@pytest.mark.parametrize("revision", LEGACY[:2])
def test_structure_without_words_becomes_words_for_those_who_know_no_structure(
    stage: Stage, actor: Actor, revision: str
) -> None:
    errand, puppet, call = actor.called_by(stage.legacy(revision))
    puppet.answer(call, content=[], structuredContent={"a": 1})
    assert errand.outcome().text.replace(" ", "") == '{"a":1}'


@pytest.mark.parametrize("revision", LEGACY)
def test_prompts_are_put_in_the_words_of_the_revision(stage: Stage, revision: str) -> None:
    actor = stage.serve(prompts=[{"name": "greet"}])
    errand = Errand(stage.legacy(revision), method="prompts/get", name="puppet__greet")
    puppet, call = actor.next("prompts/get")
    puppet.answer(call, messages=[{"role": "user", "content": content} for content in (TEXT, AUDIO, LINK)])
    kinds = [message["content"]["type"] for message in errand.outcome().result["messages"]]
    assert kinds == [
        "text",
        "audio" if revision >= "2025-03-26" else "text",
        "resource_link" if revision >= "2025-06-18" else "text",
    ]


def described(name: str, **more: Any) -> Message:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_structure_that_is_no_object_and_its_schema_are_for_modern_clients_only(stage: Stage, revision: str) -> None:
    tools = [
        described("act", outputSchema={"type": "array", "items": {}}),
        described("good", outputSchema={"type": "object", "properties": {"a": {}}}),
        described("loose", outputSchema={"anyOf": [{"type": "object"}, {"type": "array"}]}),
        {"name": "odd", "inputSchema": {"type": "object", "properties": {"x": True, "y": False, "z": {}}}},
    ]
    actor = stage.serve(MODERN, tools=tools)
    client = stage.guest(revision)
    listed = {tool["name"].removeprefix("puppet__"): tool for tool in client.everything("tools/list", "tools")}
    assert set(listed) == {"act", "good", "loose", "odd"}
    with_schema = {name for name, tool in listed.items() if "outputSchema" in tool}
    assert with_schema == (
        {"act", "good", "loose"} if revision == MODERN else {"good"} if revision >= "2025-06-18" else set()
    )
    errand, puppet, call = actor.called_by(client)
    puppet.answer(call, content=[TEXT], structuredContent=[1, 2])
    result = errand.outcome().result
    assert result["content"] == [TEXT]
    assert result.get("structuredContent") == ([1, 2] if revision == MODERN else None)


def test_a_tool_that_only_runs_as_a_task_is_not_offered(stage: Stage) -> None:
    tools = [
        described("act", execution={"taskSupport": "required"}),
        described("may", execution={"taskSupport": "optional"}),
    ]
    stage.actor(tools=tools)
    stage.start()
    for revision in (LEGACY[-1], MODERN):
        client = stage.guest(revision)
        assert [tool["name"] for tool in client.everything("tools/list", "tools")] == ["puppet__may"]
        assert client.call("puppet__act").error["code"] == INVALID_PARAMS

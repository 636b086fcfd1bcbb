"""Modern clients on legacy servers that ask in the midst of a call: what is suspended, and how it goes on."""

from typing import Any

import pytest

from support.conformance.clients import CANCELLED, Message
from support.puppets.stage import (
    EACH_QUESTION,
    FORM,
    FORM_ANSWER,
    INVALID_PARAMS,
    OTHER_CALLS,
    QUESTIONS,
    SAMPLE,
    Actor,
    Errand,
    Stage,
    page,
    parked,
    shown,
)

# --- every kind of question, in every kind of call


@EACH_QUESTION
def test_each_kind_of_question_is_asked_as_it_is_and_its_answer_delivered(
    stage: Stage, actor: Actor, question: str, answer: Message
) -> None:
    errand, puppet, call = parked(actor, stage.modern(), question)
    (asked,) = errand.wish["inputRequests"].values()
    assert asked == {"method": question, "params": QUESTIONS[question]}
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == answer
    errand.finish(puppet, call, "thanks")


def test_a_form_may_be_declined_or_cancelled_and_the_call_goes_on(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    for action in ("decline", "cancel"):
        errand, puppet, call = parked(actor, client)
        (key,) = errand.wish["inputRequests"]
        errand.go_on(**{key: {"action": action}})
        assert actor.reply_to("q-1")["result"] == {"action": action}
        puppet.say(call, action)
        assert errand.outcome().text == action


def test_a_call_that_its_client_never_comes_back_to_keeps_no_other_from_being_asked(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    parked(actor, client)
    errand, puppet, call = actor.called_by(client)
    puppet.ask("q-2", "elicitation/create", **QUESTIONS["elicitation/create"])
    assert len(errand.wishes()) == 1
    errand.fill_in(actor, "q-2")
    errand.finish(puppet, call, "thanks")


def test_an_elicitation_by_url_is_asked_without_its_id_and_answered(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = actor.called_by(stage.modern())
    puppet.ask("q-1", "elicitation/create", **page())
    assert list(errand.wishes().values()) == [shown(page())]
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == {"action": "accept"}
    # Nobody waits for that: the client has been there.
    puppet.notify("notifications/elicitation/complete", elicitationId="e-1")
    errand.finish(puppet, call, "seen")


@OTHER_CALLS
def test_prompts_and_resources_may_be_parked_too(stage: Stage, method: str, params: Message, result: Message) -> None:
    actor = stage.serve(prompts=[{"name": "greet"}])
    errand, puppet, call = parked(actor, stage.modern(), method=method, **params)
    errand.fill_in(actor, "q-1")
    puppet.answer(call, **result)
    assert errand.outcome().result.items() >= {"resultType": "complete", **result}.items()


def test_a_question_in_the_midst_of_a_completion_is_refused_because_that_cannot_be_asked_again(stage: Stage) -> None:
    actor = stage.serve(prompts=[{"name": "greet"}])
    ref = {"type": "ref/prompt", "name": "puppet__greet"}
    errand = Errand(stage.modern(), method="completion/complete", ref=ref, argument={"name": "name", "value": ""})
    puppet, call = actor.next("completion/complete")
    puppet.ask("q-1", "elicitation/create", **FORM)
    assert "completion/complete" in actor.reply_to("q-1")["error"]["message"]
    puppet.answer(call, completion={"values": ["x"]})
    assert errand.outcome().result["completion"] == {"values": ["x"]}


# --- rounds


def test_questions_one_after_another_are_rounds_with_a_state_each(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    states = [errand.wish["requestState"]]
    for number, question in enumerate(("sampling/createMessage", "roots/list", "elicitation/create"), 2):
        errand.go_on()
        assert "result" in actor.reply_to(f"q-{number - 1}")
        puppet.ask(f"q-{number}", question, **QUESTIONS[question])
        assert [asked["method"] for asked in errand.wishes().values()] == [question]
        states.append(errand.wish["requestState"])
    errand.fill_in(actor, "q-4")
    errand.finish(puppet, call, "enough")
    assert len(set(states)) == 4


def test_what_is_asked_while_a_call_is_parked_is_asked_with_the_retry(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    puppet.ask("q-2", "sampling/createMessage", **SAMPLE)
    puppet.ask("q-3", "roots/list")
    actor.caught_up(puppet)
    errand.fill_in(actor, "q-1")
    assert [asked["method"] for asked in errand.wishes().values()] == ["sampling/createMessage", "roots/list"]
    errand.go_on()
    assert {actor.next(None)[1]["id"], actor.next(None)[1]["id"]} == {"q-2", "q-3"}
    errand.finish(puppet, call, "done")


def test_of_questions_that_come_together_each_gets_its_own_answer(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = actor.called_by(stage.modern())
    names = ("first", "second", "third")
    for name in names:
        puppet.ask(name, "elicitation/create", **{**FORM, "message": name})
    # Together, or in rounds.
    asked = 0
    while asked < len(names):
        asked += len(errand.wishes())
        errand.go_on()
    answers = [actor.next(None)[1] for _ in names]
    given = {answer["id"]: answer["result"]["content"]["name"] for answer in answers}
    assert given == {name: f"somebody: {name}" for name in names}
    errand.finish(puppet, call, "done")


def test_half_of_the_answers_are_delivered_and_the_rest_is_asked_again(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    puppet.ask("q-2", "roots/list")
    puppet.ask("q-3", "sampling/createMessage", **SAMPLE)
    actor.caught_up(puppet)
    errand.go_on()
    actor.reply_to("q-1")
    asked = errand.wishes()
    (roots,) = (key for key, item in asked.items() if item["method"] == "roots/list")
    errand.go_on(**{roots: {"roots": []}})
    assert actor.reply_to("q-2")["result"] == {"roots": []}
    (again,) = errand.wishes().items()
    assert again in asked.items() and again[0] != roots
    errand.go_on()
    assert actor.reply_to("q-3")["result"]["model"] == "test-model"
    errand.finish(puppet, call, "done")


@pytest.mark.parametrize("given", [{}, {"inputResponses": {"stray": {"action": "accept"}}}], ids=["none", "another's"])
def test_a_state_without_answers_is_answered_with_the_questions_again(
    stage: Stage, actor: Actor, given: Message
) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    first = errand.wish
    errand.call_again(**given)
    assert errand.wishes() == first["inputRequests"]
    assert errand.wish["requestState"] != first["requestState"]
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda key: [], id="no object"),
        pytest.param(lambda key: "yes", id="text"),
        pytest.param(lambda key: {key: None}, id="null"),
        pytest.param(lambda key: {key: "accept"}, id="a response that is no object"),
        pytest.param(lambda key: {key: {"action": "perhaps"}}, id="an action that there is not"),
        pytest.param(lambda key: {key: {"roots": []}}, id="the answer to another question"),
    ],
)
def test_malformed_answers_are_refused_and_the_state_is_still_good(stage: Stage, actor: Actor, given: Any) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    (key,) = errand.wish["inputRequests"]
    errand.call_again(inputResponses=given(key))
    error = errand.outcome().error
    assert error["code"] == INVALID_PARAMS
    assert "inputResponses" in error["message"]
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")


# --- states that are not good


def test_of_two_states_of_one_call_only_the_newest_is_good(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    first = errand.wish
    errand.call_again()
    errand.wishes()
    newest = errand.wish
    errand.wish = first
    errand.go_on()
    error = errand.outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "spent")
    errand.wish = newest
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")


def test_a_state_is_good_once(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet, call = parked(actor, client)
    errand.fill_in(actor, "q-1")
    for is_running in (True, False):
        error = Errand(client, **errand.params, requestState=errand.wish["requestState"]).outcome().error
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "spent")
        if is_running:
            errand.finish(puppet, call, "done")


@pytest.mark.parametrize(
    "other",
    [
        {"method": "tools/call", "name": "puppet__act", "arguments": {"key": "other"}},
        {"method": "tools/call", "name": "puppet__act"},
        {"method": "tools/call", "name": "puppet__else", "arguments": {"key": "value"}},
        {"method": "prompts/get", "name": "puppet__act", "arguments": {"key": "value"}},
        {"method": "resources/read", "uri": "made:up"},
    ],
)
def test_a_state_is_good_for_its_own_request_only(stage: Stage, actor: Actor, other: Message) -> None:
    client = stage.modern()
    errand, puppet, call = parked(actor, client)
    method = other["method"]
    params = {key: value for key, value in other.items() if key != "method"}
    error = Errand(client, method=method, **params, requestState=errand.wish["requestState"]).outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "request")
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")
    assert len(actor.told("tools/call")) == 1


def test_a_state_that_was_tampered_with_is_refused(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    state = errand.wish["requestState"]
    places = range(0, len(state), 7)
    forged = [state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :] for place in places]
    for wrong in (*forged, "", "hearth.", state + "A", state[:-4], "other"):
        errand.call_again(requestState=wrong, inputResponses={})
        assert errand.outcome().error["code"] == INVALID_PARAMS
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")
    assert len(actor.told("tools/call")) == 1


def test_a_state_is_good_for_its_own_client_only(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    error = Errand(stage.modern("thief"), **errand.params, requestState=errand.wish["requestState"]).outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "principal")
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "done")
    assert len(actor.told("tools/call")) == 1


def test_a_state_that_is_no_text_is_refused(stage: Stage, actor: Actor) -> None:
    errand, *_ = parked(actor, stage.modern())
    for state in (7, {}, [], None):
        errand.call_again(requestState=state)
        assert errand.outcome().error["code"] == INVALID_PARAMS
    assert len(actor.told("tools/call")) == 1


@pytest.mark.parametrize("question", ["sampling/createMessage", "elicitation/create"])
def test_a_state_that_expired_is_known_as_such_long_after(stage: Stage, question: str) -> None:
    actor = stage.actor()
    stage.start(parked_timeout=0.1)
    errand, _, call = parked(actor, stage.modern(), question)
    reply = actor.reply_to("q-1")
    assert "error" in reply if question != "elicitation/create" else reply["result"] == {"action": "cancel"}
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    for _ in range(2):
        errand.go_on()
        error = errand.outcome().error
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "expired")
        assert "expired" in error["message"]
    assert len(actor.told("tools/call")) == 1
    assert stage.scratch.status()["parked"] == 0


def test_the_state_of_a_daemon_that_is_gone_is_expired(stage: Stage, actor: Actor) -> None:
    errand, *_ = parked(actor, stage.modern())
    stage.restart()
    errand.client = stage.modern("later")
    errand.call_again(inputResponses={})
    error = errand.outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "expired")
    assert "call again" in error["message"]
    assert len(actor.told("tools/call")) == 1


# --- what the client can be asked


@pytest.mark.parametrize(
    ("declared", "question", "missing"),
    [
        *(({}, {"method": method, **params}, method.split("/")[0]) for method, params in QUESTIONS.items()),
        ({"elicitation": {}}, {"method": "elicitation/create", **page()}, "elicitation.url"),
        ({"elicitation": {"url": {}}}, {"method": "elicitation/create", **FORM}, "elicitation.form"),
        ({"sampling": {}}, {"method": "sampling/createMessage", **SAMPLE, "tools": []}, "sampling.tools"),
    ],
    ids=(*QUESTIONS, "a page by a client of forms", "a form by a client of pages", "a sampling with tools"),
)
def test_what_the_request_did_not_declare_is_an_error_to_the_server_and_the_call_goes_on(
    stage: Stage, declared: Message, question: Message, missing: str
) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    errand, puppet, call = actor.called_by(stage.modern(capabilities=declared))
    puppet.ask("q-1", **question)
    assert missing in actor.reply_to("q-1")["error"]["message"]
    errand.finish(puppet, call, "without")


def test_a_retry_that_declares_less_is_asked_less(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet, call = parked(actor, client)
    puppet.ask("q-2", "sampling/createMessage", **SAMPLE)
    actor.caught_up(puppet)
    (key,) = errand.wish["inputRequests"]
    client.capabilities = {"elicitation": {}}
    errand.go_on(**{key: FORM_ANSWER})
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    assert "sampling" in actor.reply_to("q-2")["error"]["message"]
    errand.finish(puppet, call, "without")

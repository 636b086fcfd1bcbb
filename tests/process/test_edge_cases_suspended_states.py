"""States that are not good for a parked call, and what its client can be asked."""

import pytest

from support.puppets.stage import (
    FORM,
    FORM_ANSWER,
    INVALID_PARAMS,
    QUESTIONS,
    SAMPLE,
    Actor,
    Errand,
    Message,
    Stage,
    page,
)
from support.puppets.suspended_calls import CANCELLED, parked

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
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"


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
    stray = Errand(client, method=method, **params, requestState=errand.wish["requestState"])
    error = stray.outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "request")
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"
    assert len(actor.told("tools/call")) == 1


def test_a_state_that_was_tampered_with_is_refused(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    state = errand.wish["requestState"]
    places = range(0, len(state), 7)
    for place in places:
        other = "A" if state[place] != "A" else "B"
        errand.call_again(requestState=state[:place] + other + state[place + 1 :], inputResponses={})
        assert errand.outcome().error["code"] == INVALID_PARAMS
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"
    assert len(actor.told("tools/call")) == 1


def test_a_state_is_good_for_its_own_client_only(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    thief = stage.modern("thief")
    stolen = Errand(thief, **errand.params, requestState=errand.wish["requestState"])
    error = stolen.outcome().error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "principal")
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"
    assert len(actor.told("tools/call")) == 1


def test_a_state_that_is_no_text_is_refused(stage: Stage, actor: Actor) -> None:
    errand, *_ = parked(actor, stage.modern())
    for state in (7, {}, [], None):
        errand.call_again(requestState=state)
        assert errand.outcome().error["code"] == INVALID_PARAMS
    assert len(actor.told("tools/call")) == 1


def test_a_state_that_expired_is_known_as_such_long_after(stage: Stage) -> None:
    actor = stage.actor()
    stage.start(parked_timeout=0.1)
    errand, _, call = parked(actor, stage.modern(), "sampling/createMessage")
    assert "error" in actor.reply_to("q-1")
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    for _ in range(2):
        errand.go_on()
        error = errand.outcome().error
        assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "expired")
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


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_the_request_did_not_declare_is_an_error_to_the_server_and_the_call_goes_on(
    stage: Stage, question: str
) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    stage.start()
    errand = Errand(stage.modern(capabilities={}))
    puppet, call = actor.next("tools/call")
    puppet.ask("q-1", question, **QUESTIONS[question])
    error = actor.reply_to("q-1")["error"]
    assert question.split("/")[0] in error["message"]
    puppet.say(call, "without")
    assert errand.outcome().text == "without"


@pytest.mark.parametrize(
    ("declared", "question", "missing"),
    [
        ({"elicitation": {}}, {"method": "elicitation/create", **page()}, "elicitation.url"),
        ({"elicitation": {"url": {}}}, {"method": "elicitation/create", **FORM}, "elicitation.form"),
        ({"sampling": {}}, {"method": "sampling/createMessage", **SAMPLE, "tools": []}, "sampling.tools"),
    ],
)
def test_a_mode_that_the_request_did_not_declare_is_an_error_to_the_server(
    stage: Stage, declared: Message, question: Message, missing: str
) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    stage.start()
    errand = Errand(stage.modern(capabilities=declared))
    puppet, call = actor.next("tools/call")
    puppet.ask("q-1", **question)
    assert missing in actor.reply_to("q-1")["error"]["message"]
    puppet.say(call, "without")
    assert errand.outcome().text == "without"


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
    puppet.say(call, "without")
    assert errand.outcome().text == "without"

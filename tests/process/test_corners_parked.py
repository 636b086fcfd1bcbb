"""Modern clients on legacy servers that ask in the midst of a call: what is parked, how it goes on and how it ends."""

import subprocess
import time
from typing import Any

import pytest

from process.corners import (
    FORM,
    FORM_ANSWER,
    INVALID_PARAMS,
    QUESTIONS,
    SAMPLE,
    Actor,
    Errand,
    Message,
    ModernClient,
    Puppet,
    Stage,
    page,
    shown,
)
from process.kernel import until

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
LOGGED = "notifications/message"
# Longer than a call needs on a busy machine, and short enough to wait for.
CEILING_SECONDS = 2.5
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.fixture
def actor(stage: Stage) -> Actor:
    """One legacy server, and a daemon in front of it."""
    found = stage.actor()
    stage.start()
    return found


def parked(
    actor: Actor, client: ModernClient, question: str = "elicitation/create", **params: Any
) -> tuple[Errand, Puppet, Message]:
    """A call in the midst of which the server has asked `q-1`; the client knows."""
    errand = Errand(client, **params)
    puppet, call = actor.next(errand.method)
    puppet.ask("q-1", question, **QUESTIONS[question])
    assert [asked["method"] for asked in errand.wishes().values()] == [question]
    return errand, puppet, call


# --- every kind of question, in every kind of call


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("elicitation/create", FORM_ANSWER),
        (
            "sampling/createMessage",
            {
                "role": "assistant",
                "model": "test-model",
                "stopReason": "endTurn",
                "content": {"type": "text", "text": "said for somebody"},
            },
        ),
        ("roots/list", {"roots": [{"uri": "file:///home/somebody", "name": "somebody"}]}),
    ],
)
def test_each_kind_of_question_is_asked_as_it_is_and_its_answer_delivered(
    stage: Stage, actor: Actor, question: str, answer: Message
) -> None:
    errand, puppet, call = parked(actor, stage.modern(), question)
    (asked,) = errand.wish["inputRequests"].values()
    assert asked == {"method": question, "params": QUESTIONS[question]}
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == answer
    puppet.say(call, "thanks")
    assert errand.outcome().text == "thanks"


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
    errand = Errand(client)
    puppet, call = actor.next("tools/call")
    puppet.ask("q-2", "elicitation/create", **QUESTIONS["elicitation/create"])
    assert len(errand.wishes()) == 1
    errand.go_on()
    assert actor.reply_to("q-2")["result"] == FORM_ANSWER
    puppet.say(call, "thanks")
    assert errand.outcome().text == "thanks"


def test_an_elicitation_by_url_is_asked_without_its_id_and_answered(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand = Errand(client)
    puppet, call = actor.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **page())
    assert list(errand.wishes().values()) == [shown(page())]
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == {"action": "accept"}
    # Nobody waits for that: the client has been there.
    puppet.notify("notifications/elicitation/complete", elicitationId="e-1")
    puppet.say(call, "seen")
    assert errand.outcome().text == "seen"


@pytest.mark.parametrize(
    ("method", "params", "result"),
    [
        ("prompts/get", {"name": "puppet__greet"}, {"messages": []}),
        ("resources/read", {"uri": "made:up"}, {"contents": [{"uri": "made:up", "text": "content"}]}),
    ],
)
def test_prompts_and_resources_may_be_parked_too(stage: Stage, method: str, params: Message, result: Message) -> None:
    actor = stage.actor(prompts=[{"name": "greet"}])
    stage.start()
    errand, puppet, call = parked(actor, stage.modern(), method=method, **params)
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.answer(call, **result)
    assert errand.outcome().result.items() >= {"resultType": "complete", **result}.items()


def test_a_question_in_the_midst_of_a_completion_is_refused_because_that_cannot_be_asked_again(stage: Stage) -> None:
    actor = stage.actor(prompts=[{"name": "greet"}])
    stage.start()
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
    errand.go_on()
    assert actor.reply_to("q-4")["result"] == FORM_ANSWER
    puppet.say(call, "enough")
    assert errand.outcome().text == "enough"
    assert len(set(states)) == 4


def test_what_is_asked_while_a_call_is_parked_is_asked_with_the_retry(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    puppet.ask("q-2", "sampling/createMessage", **SAMPLE)
    puppet.ask("q-3", "roots/list")
    actor.caught_up(puppet)
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    assert [asked["method"] for asked in errand.wishes().values()] == ["sampling/createMessage", "roots/list"]
    errand.go_on()
    assert {actor.next(None)[1]["id"], actor.next(None)[1]["id"]} == {"q-2", "q-3"}
    puppet.say(call, "done")
    assert errand.outcome().text == "done"


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
    puppet.say(call, "done")
    assert errand.outcome().text == "done"


def test_a_state_without_answers_is_answered_with_the_questions_again(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    first = errand.wish
    errand.call_again()
    assert errand.wishes() == first["inputRequests"]
    assert errand.wish["requestState"] != first["requestState"]
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"


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
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "done")
    assert errand.outcome().text == "done"


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


# --- progress, messages, time


def test_progress_goes_under_the_token_of_the_request_that_waits_and_to_nobody_while_parked(
    stage: Stage, actor: Actor
) -> None:
    client = stage.modern()
    errand = Errand(client, name="puppet__act", _meta={"progressToken": "first"})
    puppet, call = actor.next("tools/call")
    token = call["params"]["_meta"]["progressToken"]
    puppet.notify(PROGRESS, progressToken=token, progress=1)
    puppet.ask("q-1", "elicitation/create", **FORM)
    found = errand.outcome()
    assert [item["progressToken"] for item in found.progress] == ["first"]
    errand.wish = found.result
    puppet.notify(PROGRESS, progressToken=token, progress=2)
    actor.caught_up(puppet)
    errand.params = {"name": "puppet__act", "_meta": {"progressToken": 77}}
    errand.go_on()
    actor.reply_to("q-1")
    puppet.notify(PROGRESS, progressToken=token, progress=3)
    puppet.say(call, "done")
    assert errand.outcome().progress == [{"progressToken": 77, "progress": 3}]
    assert client.notices == []


def test_messages_are_those_that_the_waiting_request_wants(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand = Errand(client, name="puppet__act", _meta={LOG_LEVEL: "error"})
    puppet, call = actor.next("tools/call")
    assert actor.told("logging/setLevel") == [{"level": "error"}]
    for level in ("info", "error"):
        puppet.notify(LOGGED, level=level, data="before")
    puppet.ask("q-1", "elicitation/create", **FORM)
    found = errand.outcome()
    assert found.logs == [{"level": "error", "data": "before"}]
    errand.wish = found.result
    puppet.notify(LOGGED, level="emergency", data="parked")
    actor.caught_up(puppet)
    errand.params = {"name": "puppet__act", "_meta": {LOG_LEVEL: "debug"}}
    errand.go_on()
    actor.reply_to("q-1")
    until(lambda: actor.told("logging/setLevel")[-1] == {"level": "debug"}, "the server is as verbose as is wanted now")
    puppet.notify(LOGGED, level="debug", data="after")
    puppet.say(call, "done")
    assert errand.outcome().logs == [{"level": "debug", "data": "after"}]
    assert client.notices == []


def test_a_retry_without_a_level_gets_no_messages(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern(), name="puppet__act", _meta={LOG_LEVEL: "debug"})
    errand.params = {"name": "puppet__act"}
    errand.go_on()
    actor.reply_to("q-1")
    puppet.notify(LOGGED, level="emergency", data="after")
    puppet.say(call, "done")
    found = errand.outcome()
    assert (found.logs, found.text) == ([], "done")


def test_the_time_of_a_call_does_not_run_while_it_is_parked(stage: Stage) -> None:
    actor = stage.actor(keys={"call_ceiling": CEILING_SECONDS})
    stage.actor(name="late", keys={"call_timeout": 0.01})
    stage.start()
    client = stage.modern()

    def look_at_the_clock() -> None:
        # One call is given up, so every other has been looked at.
        assert "call_timeout" in Errand(client, "late").outcome().error["message"]

    errand, puppet, call = parked(actor, client)
    begun = time.monotonic()
    while time.monotonic() < begun + CEILING_SECONDS:
        look_at_the_clock()
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    look_at_the_clock()
    puppet.say(call, "in time")
    assert errand.outcome().text == "in time"


def test_answers_without_a_state_are_an_ordinary_call(stage: Stage, actor: Actor) -> None:
    errand = Errand(stage.modern(), name="puppet__act", arguments={}, inputResponses={"q1": FORM_ANSWER})
    puppet, call = actor.next("tools/call")
    assert call["params"] == {"name": "act", "arguments": {}}
    puppet.say(call, "as ever")
    assert errand.outcome().text == "as ever"


# --- ends


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_client_that_leaves_while_its_call_is_parked_has_its_questions_answered_and_its_call_cancelled(
    stage: Stage, actor: Actor, question: str
) -> None:
    client = stage.modern()
    _, _, call = parked(actor, client, question)
    client.close()
    reply = actor.reply_to("q-1")
    if question == "elicitation/create":
        assert reply["result"] == {"action": "cancel"}
    else:
        assert reply["error"]["code"]
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    assert stage.scratch.status()["parked"] == 0


def test_a_client_that_leaves_while_its_retry_waits_has_its_call_cancelled(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, _, call = parked(actor, client)
    errand.go_on()
    actor.reply_to("q-1")
    client.close()
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    assert stage.scratch.status()["parked"] == 0


def test_a_cancelled_retry_is_never_answered_and_its_state_is_spent(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet, call = parked(actor, client)
    errand.go_on()
    actor.reply_to("q-1")
    errand.cancel()
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    puppet.say(call, "too late")
    actor.caught_up(puppet)
    errand.go_on()
    assert errand.outcome().error["data"]["reason"] == "spent"


def test_a_question_in_a_cancelled_call_is_answered_with_an_error(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    errand.go_on()
    actor.reply_to("q-1")
    errand.cancel()
    actor.next(CANCELLED)
    puppet.ask("q-2", "elicitation/create", **FORM)
    assert "error" in actor.reply_to("q-2")
    del call


def test_an_error_that_came_while_the_call_was_parked_is_kept_for_the_retry(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    puppet.refuse(call, -32050, "gave up", {"why": "tired"})
    actor.caught_up(puppet)
    errand.call_again()
    assert errand.outcome().error == {"code": -32050, "message": "gave up", "data": {"why": "tired"}}
    errand.call_again()
    assert errand.outcome().error["data"]["reason"] == "spent"


def test_a_server_that_dies_while_its_call_is_parked_serves_the_next_call(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    errand, puppet, _ = parked(actor, client)
    puppet.close()
    errand.go_on()
    failed = errand.outcome()
    assert "'puppet'" in failed.error["message"]
    second = Errand(client)
    puppet, call = actor.next("tools/call")
    puppet.say(call, "alive")
    assert second.outcome().text == "alive"
    assert stage.scratch.status()["parked"] == 0


def test_no_more_calls_are_parked_than_the_limit_and_the_rest_goes_on_without(stage: Stage) -> None:
    actor = stage.actor(keys={"isolation": "session"})
    stage.start(parked_limit=2)
    client = stage.modern()
    errands = [Errand(client) for _ in range(3)]
    calls = [actor.next("tools/call") for _ in errands]
    # Of several calls of one client the oldest is the one that is asked: so one after another is asked and answered.
    puppet = calls[0][0]
    puppet.ask("q-0", "elicitation/create", **FORM)
    errands[0].wishes()
    puppet.say(calls[0][1], "kept")
    puppet.ask("q-1", "elicitation/create", **FORM)
    errands[1].wishes()
    puppet.say(calls[1][1], "kept")
    puppet.ask("q-2", "elicitation/create", **FORM)
    assert "parked_limit" in actor.reply_to("q-2")["error"]["message"]
    puppet.say(calls[2][1], "without")
    assert errands[2].outcome().text == "without"
    for errand in errands[:2]:
        errand.call_again()
        assert errand.outcome().text == "kept"
    # There is room again.
    parked(actor, client)


def test_the_limit_is_each_client_s_own(stage: Stage) -> None:
    actor = stage.actor()
    stage.start(parked_limit=1)
    for name in ("one", "other"):
        parked(actor, stage.modern(name))
    assert stage.scratch.status()["parked"] == 2


def test_a_parked_call_holds_the_daemon_although_its_client_has_fallen_silent(stage: Stage, actor: Actor) -> None:
    stage.restart(idle_timeout=0.1, heartbeat_interval=0.05)
    errand, puppet, call = parked(actor, stage.modern(wire=stage.scratch.frames()))
    until(lambda: not stage.scratch.status()["sessions"][0]["active"], "the client counts as silent")
    with pytest.raises(subprocess.TimeoutExpired):
        stage.daemon.process.wait(0.5)
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "held")
    assert errand.outcome().text == "held"


# --- two calls of one client


def test_a_question_belongs_to_the_oldest_call_of_its_client(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    old, new = Errand(client), Errand(client, name="puppet__act", arguments={"which": "new"})
    (puppet, first), (_, second) = actor.next("tools/call"), actor.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **FORM)
    old.wishes()
    puppet.say(second, "new")
    assert new.outcome().text == "new"
    old.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(first, "old")
    assert old.outcome().text == "old"


def test_a_question_is_never_put_to_one_of_two_clients_of_a_shared_server(stage: Stage) -> None:
    actor = stage.actor(keys={"isolation": "shared"})
    stage.start()
    errands = [Errand(stage.modern(name)) for name in ("one", "other")]
    calls = [actor.next("tools/call") for _ in errands]
    puppet = calls[0][0]
    puppet.ask("q-1", "elicitation/create", **FORM)
    assert "not certain" in actor.reply_to("q-1")["error"]["message"]
    for errand, (_, call) in zip(errands, calls, strict=True):
        puppet.say(call, "without")
        assert errand.outcome().text == "without"


def test_a_server_that_turns_out_to_ask_keeps_the_call_in_which_it_did(stage: Stage) -> None:
    actor = stage.actor(keys={"isolation": "auto"})
    stage.start()
    client, other = stage.modern(), stage.modern("other")
    errand, puppet, call = parked(actor, client)
    # Whoever calls from now on has a process of its own.
    second = Errand(other)
    rival, rivals = actor.next("tools/call")
    assert rival is not puppet
    rival.say(rivals, "mine")
    assert second.outcome().text == "mine"
    errand.go_on()
    assert actor.reply_to("q-1")["result"] == FORM_ANSWER
    puppet.say(call, "as before")
    assert errand.outcome().text == "as before"
    third = Errand(client)
    successor, call = actor.next("tools/call")
    assert successor not in (puppet, rival)
    successor.say(call, "and then")
    assert third.outcome().text == "and then"


# --- folders


def test_roots_are_told_out_of_the_blue_from_the_folder_that_the_client_works_in(stage: Stage, actor: Actor) -> None:
    folder = stage.scratch.home / "work place"
    folder.mkdir()
    errand = Errand(stage.modern(wire=stage.scratch.frames(cwd=str(folder))))
    puppet, call = actor.next("tools/call")
    puppet.say(call, "done")
    assert errand.outcome().text == "done"
    puppet.ask("r-1", "roots/list")
    assert actor.reply_to("r-1")["result"] == {"roots": [{"uri": folder.as_uri(), "name": "work place"}]}

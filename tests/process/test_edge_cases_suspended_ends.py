"""What is heard of a call while it is parked, how it ends, and whose question is whose."""

import subprocess
import time

import pytest

from support.conformance.clients import CANCELLED, LOGGED, PROGRESS
from support.kernel import until
from support.puppets.stage import FORM, FORM_ANSWER, QUESTIONS, Actor, Errand, Stage, parked

# Longer than a call needs on a busy machine, and short enough to wait for.
CEILING_SECONDS = 2.5
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

# --- progress, messages, time


def test_progress_goes_under_the_token_of_the_request_that_waits_and_to_nobody_while_parked(
    stage: Stage, actor: Actor
) -> None:
    client = stage.modern()
    errand, puppet, call = actor.called_by(client, name="puppet__act", _meta={"progressToken": "first"})
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
    errand, puppet, call = actor.called_by(client, name="puppet__act", _meta={LOG_LEVEL: "error"})
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
    errand.fill_in(actor, "q-1")
    look_at_the_clock()
    errand.finish(puppet, call, "in time")


def test_answers_without_a_state_are_an_ordinary_call(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = actor.called_by(
        stage.modern(), name="puppet__act", arguments={}, inputResponses={"q1": FORM_ANSWER}
    )
    assert call["params"] == {"name": "act", "arguments": {}}
    errand.finish(puppet, call, "as ever")


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
    errand, puppet, call = parked(actor, stage.modern())
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


def test_a_question_that_its_server_withdraws_while_it_is_parked_needs_no_answer(stage: Stage, actor: Actor) -> None:
    errand, puppet, call = parked(actor, stage.modern())
    puppet.notify(CANCELLED, requestId="q-1")
    actor.caught_up(puppet)
    errand.go_on()
    errand.finish(puppet, call, "never mind")
    assert [message for message in actor.record if message.get("id") == "q-1"] == []


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
    assert "'puppet'" in errand.outcome().error["message"]
    second, puppet, call = actor.called_by(client)
    second.finish(puppet, call, "alive")
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
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "held")


# --- two calls of one client


def test_a_question_belongs_to_the_oldest_call_of_its_client(stage: Stage, actor: Actor) -> None:
    client = stage.modern()
    old, new = Errand(client), Errand(client, name="puppet__act", arguments={"which": "new"})
    (puppet, first), (_, second) = actor.next("tools/call"), actor.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **FORM)
    old.wishes()
    new.finish(puppet, second, "new")
    old.fill_in(actor, "q-1")
    old.finish(puppet, first, "old")


def test_a_question_is_never_put_to_one_of_two_clients_of_a_shared_server(stage: Stage) -> None:
    actor = stage.serve(keys={"isolation": "shared"})
    errands = [Errand(stage.modern(name)) for name in ("one", "other")]
    calls = [actor.next("tools/call") for _ in errands]
    puppet = calls[0][0]
    puppet.ask("q-1", "elicitation/create", **FORM)
    assert "not certain" in actor.reply_to("q-1")["error"]["message"]
    for errand, (_, call) in zip(errands, calls, strict=True):
        errand.finish(puppet, call, "without")


def test_a_server_that_turns_out_to_ask_keeps_the_call_in_which_it_did(stage: Stage) -> None:
    actor = stage.serve(keys={"isolation": "auto"})
    client, other = stage.modern(), stage.modern("other")
    errand, puppet, call = parked(actor, client)
    # Whoever calls from now on has a process of its own.
    second, rival, rivals = actor.called_by(other)
    assert rival is not puppet
    second.finish(rival, rivals, "mine")
    errand.fill_in(actor, "q-1")
    errand.finish(puppet, call, "as before")
    third, successor, call = actor.called_by(client)
    assert successor not in (puppet, rival)
    third.finish(successor, call, "and then")


# --- folders


def test_roots_are_told_out_of_the_blue_from_the_folder_that_the_client_works_in(stage: Stage, actor: Actor) -> None:
    folder = stage.scratch.home / "work place"
    folder.mkdir()
    errand, puppet, call = actor.called_by(stage.modern(wire=stage.scratch.frames(cwd=str(folder))))
    errand.finish(puppet, call, "done")
    puppet.ask("r-1", "roots/list")
    assert actor.reply_to("r-1")["result"] == {"roots": [{"uri": folder.as_uri(), "name": "work place"}]}

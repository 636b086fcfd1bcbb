"""Legacy clients on modern servers that require input: the client is asked, and the server is called again."""

from typing import Any

import pytest

from support.conformance.clients import CANCELLED, PROGRESS, LegacyClient, Message
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.kernel import until
from support.puppets.server import Puppet
from support.puppets.stage import (
    EACH_QUESTION,
    FAILED,
    FORM,
    FORM_ANSWER,
    INVALID_PARAMS,
    OTHER_CALLS,
    QUESTIONS,
    ROOTS_ANSWER,
    SAMPLE,
    SAMPLE_ANSWER,
    Actor,
    Errand,
    Stage,
)

CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
# What JSON can carry and few people think of: an escaped slash, a line end, a null character, half a surrogate pair.
ODD_STATE = 'st\u00e4te "/\\ \u2028\x00\ud83d ' + "x" * 10_000


@pytest.fixture
def actor(stage: Stage) -> Actor:
    """One modern server, and a daemon in front of it."""
    return stage.serve(MODERN)


def require(puppet: Puppet, call: Message, **result: Any) -> None:
    puppet.answer(call, resultType="input_required", **result)


def questions(**asked: Message) -> Message:
    """Input requests: by key, the method and its params."""
    return {key: {"method": params.pop("method"), "params": params} for key, params in asked.items()}


def form(**more: Any) -> Message:
    return {"method": "elicitation/create", **FORM, **more}


def asked(actor: Actor, client: LegacyClient, **result: Any) -> tuple[Errand, Message]:
    """A call whose server requires input, and what the client was asked; it does not answer if it is silent."""
    errand, puppet, call = actor.called_by(client)
    require(puppet, call, **(result or {"inputRequests": questions(q=form()), "requestState": "s"}))
    return errand, client.next_question()


# --- questions and answers


@EACH_QUESTION
def test_each_kind_of_question_is_asked_as_it_is_and_its_answer_brought(
    stage: Stage, actor: Actor, question: str, answer: Message
) -> None:
    wanted = {"q": {"method": question, "params": QUESTIONS[question]}}
    errand, put = asked(actor, stage.legacy(), inputRequests=wanted, requestState="s")
    assert (put["method"], put["params"]) == (question, QUESTIONS[question])
    puppet, call = actor.next("tools/call")
    assert call["params"]["inputResponses"] == {"q": answer}
    errand.finish(puppet, call, "thanks")


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_form_that_is_declined_or_cancelled_is_an_answer(stage: Stage, actor: Actor, action: str) -> None:
    client = stage.legacy(silent=True)
    errand, put = asked(actor, client)
    client.wire.send({"jsonrpc": "2.0", "id": put["id"], "result": {"action": action}})
    puppet, call = actor.next("tools/call")
    assert call["params"]["inputResponses"] == {"q": {"action": action}}
    puppet.say(call, action)
    assert errand.outcome().text == action


def test_the_retry_has_another_id_the_same_arguments_and_the_state_as_it_was(stage: Stage, actor: Actor) -> None:
    errand, puppet, first = actor.called_by(
        stage.legacy(), name="puppet__act", arguments={"n": 1.5}, _meta={"vendor/key": [1]}
    )
    require(puppet, first, inputRequests=questions(q=form()), requestState=ODD_STATE)
    assert isinstance(errand.client, LegacyClient)
    errand.client.next_question()
    puppet, second = actor.next("tools/call")
    assert second["id"] != first["id"]
    more = {"inputResponses": {"q": FORM_ANSWER}, "requestState": ODD_STATE}
    assert second["params"] == {**first["params"], **more}
    assert second["params"]["_meta"]["vendor/key"] == [1]
    assert second["params"]["_meta"][CLIENT_CAPABILITIES] == errand.client.capabilities
    errand.finish(puppet, second, "done")


def test_a_state_is_sent_exactly_if_one_was_given_and_answers_are_those_of_the_last_round(
    stage: Stage, actor: Actor
) -> None:
    client = stage.legacy()
    errand, _ = asked(actor, client, inputRequests=questions(one=form()), requestState="first")
    puppet, call = actor.next("tools/call")
    assert (call["params"]["requestState"], list(call["params"]["inputResponses"])) == ("first", ["one"])
    require(puppet, call, inputRequests=questions(two={"method": "sampling/createMessage", **SAMPLE}))
    client.next_question()
    puppet, call = actor.next("tools/call")
    assert "requestState" not in call["params"]
    assert list(call["params"]["inputResponses"]) == ["two"]
    require(puppet, call, requestState="")
    puppet, call = actor.next("tools/call")
    assert call["params"]["requestState"] == ""
    assert "inputResponses" not in call["params"]
    errand.finish(puppet, call, "done")


@OTHER_CALLS
def test_prompts_and_resources_may_require_input_too(
    stage: Stage, method: str, params: Message, result: Message
) -> None:
    actor = stage.serve(MODERN, prompts=[{"name": "greet"}])
    client = stage.legacy()
    errand = Errand(client, method=method, **params)
    puppet, call = actor.next(method)
    require(puppet, call, inputRequests=questions(q=form()), requestState="s")
    client.next_question()
    puppet, call = actor.next(method)
    assert call["params"]["inputResponses"] == {"q": FORM_ANSWER}
    puppet.answer(call, **result)
    assert errand.outcome().result == result


def test_progress_goes_on_under_the_client_s_token(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    errand, puppet, first = actor.called_by(client, name="puppet__act", arguments={}, _meta={"progressToken": "mine"})
    token = first["params"]["_meta"]["progressToken"]
    puppet.notify(PROGRESS, progressToken=token, progress=1)
    require(puppet, first, inputRequests=questions(q=form()))
    client.next_question()
    puppet, second = actor.next("tools/call")
    later = second["params"]["_meta"]["progressToken"]
    assert later != token
    # The first call is over, and so is its token.
    puppet.notify(PROGRESS, progressToken=token, progress=2)
    puppet.notify(PROGRESS, progressToken=later, progress=3)
    puppet.say(second, "done")
    heard = [notice["params"] for notice in client.notices] + errand.outcome().progress
    assert heard == [{"progressToken": "mine", "progress": 1}, {"progressToken": "mine", "progress": 3}]


def test_messages_come_at_the_session_s_level_in_every_round(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    assert client.ask("logging/setLevel", level="warning").result == {}
    errand, _ = asked(actor, client)
    puppet, call = actor.next("tools/call")
    assert call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] == "warning"
    puppet.notify("notifications/message", level="error", data="heard")
    puppet.say(call, "done")
    found = errand.outcome()
    assert (found.text, found.logs) == ("done", [{"level": "error", "data": "heard"}])


def test_several_wishes_at_once_are_answered_together(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    wanted = {method: {"method": method, "params": params} for method, params in QUESTIONS.items()}
    errand, _ = asked(actor, client, inputRequests=wanted, requestState="s")
    for _ in range(len(wanted) - 1):
        client.next_question()
    puppet, call = actor.next("tools/call")
    assert call["params"]["inputResponses"] == {
        "elicitation/create": FORM_ANSWER, "sampling/createMessage": SAMPLE_ANSWER, "roots/list": ROOTS_ANSWER,
    }  # fmt: skip
    errand.finish(puppet, call, "thanks")


# --- what cannot be asked


@pytest.mark.parametrize(
    ("revision", "declared", "question", "named"),
    [
        (NEWEST_LEGACY, {}, "elicitation/create", "elicitation"),
        (NEWEST_LEGACY, {}, "sampling/createMessage", "sampling"),
        (NEWEST_LEGACY, {}, "roots/list", "roots"),
        (NEWEST_LEGACY, {"elicitation": {"url": {}}}, "elicitation/create", "elicitation.form"),
        ("2025-03-26", {"elicitation": {}}, "elicitation/create", "2025-03-26"),
        ("2024-11-05", {}, "sampling/createMessage", "sampling"),
    ],
)
def test_what_the_client_cannot_be_asked_fails_the_call_with_its_name(
    stage: Stage, actor: Actor, revision: str, declared: Message, question: str, named: str
) -> None:
    client = stage.legacy(revision, capabilities=declared)
    errand, puppet, call = actor.called_by(client)
    require(puppet, call, inputRequests={"q": {"method": question, "params": QUESTIONS[question]}}, requestState="s")
    error = errand.outcome().error
    assert error["code"] == INVALID_PARAMS
    assert named in error["message"]
    assert "'puppet'" in error["message"]
    assert client.ask("ping").result == {}
    assert len(actor.told("tools/call")) == 1


def test_if_one_of_several_cannot_be_asked_none_is(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(capabilities={"elicitation": {}})
    errand, puppet, call = actor.called_by(client)
    require(puppet, call, inputRequests=questions(a=form(), b={"method": "roots/list"}))
    assert "roots" in errand.outcome().error["message"]
    assert client.ask("ping").result == {}
    assert client.notices == []


def test_an_old_client_is_asked_for_samples_and_roots_in_its_own_words(stage: Stage, actor: Actor) -> None:
    blocks = [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]
    sample = {"messages": [{"role": "user", "content": blocks}], "maxTokens": 10}
    errand, put = asked(
        actor, stage.legacy("2024-11-05"), inputRequests=questions(q={"method": "sampling/createMessage", **sample})
    )
    assert [message["content"] for message in put["params"]["messages"]] == blocks
    puppet, call = actor.next("tools/call")
    errand.finish(puppet, call, "done")


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": {"q": {"method": "tools/list", "params": {}}}},
        {"inputRequests": {"q": {"method": "elicitation/create"}}},
        {"inputRequests": {"q": 7}},
        {"inputRequests": []},
        {"requestState": 7},
    ],
)
def test_a_wish_that_is_none_is_an_error_of_the_server(stage: Stage, actor: Actor, result: Message) -> None:
    errand, puppet, call = actor.called_by(stage.legacy())
    require(puppet, call, **result)
    error = errand.outcome().error
    assert error["code"] == FAILED
    assert "the server requires input" in error["message"]
    assert len(actor.told("tools/call")) == 1


# --- ends


def test_the_client_s_error_is_the_answer_and_what_else_was_asked_is_withdrawn(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, first = asked(actor, client, inputRequests=questions(a=form(), b=form(), c=form()), requestState="s")
    others = [client.next_question()["id"] for _ in range(2)]
    error = {"code": -1, "message": "Nobody is at home.", "data": {"until": "noon"}}
    client.wire.send({"jsonrpc": "2.0", "id": first["id"], "error": error})
    assert errand.outcome().error == error
    assert {client.next_notice(CANCELLED)["params"]["requestId"] for _ in others} == set(others)
    assert len(actor.told("tools/call")) == 1
    assert actor.told(CANCELLED) == []


def test_an_answer_that_is_none_ends_the_call(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, put = asked(actor, client)
    client.wire.send({"jsonrpc": "2.0", "id": put["id"], "result": {"action": "perhaps"}})
    assert "elicitation/create" in errand.outcome().error["message"]
    assert len(actor.told("tools/call")) == 1


def test_cancelling_the_call_withdraws_its_questions_and_nothing_else(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    errand, put = asked(actor, client)
    errand.cancel()
    assert client.next_notice(CANCELLED)["params"]["requestId"] == put["id"]
    # An answer that was on its way comes to nothing.
    client.wire.send({"jsonrpc": "2.0", "id": put["id"], "result": FORM_ANSWER})
    assert client.ask("ping").result == {}
    assert len(actor.told("tools/call")) == 1
    # The server waits for nothing: its call was answered by the wish.
    assert actor.told(CANCELLED) == []


def test_cancelling_the_call_while_it_is_made_again_cancels_that(stage: Stage, actor: Actor) -> None:
    errand, _ = asked(actor, stage.legacy())
    _, call = actor.next("tools/call")
    errand.cancel()
    assert actor.next(CANCELLED)[1]["params"]["requestId"] == call["id"]


def test_a_client_that_leaves_in_the_midst_of_a_question_leaves_nothing_open(stage: Stage, actor: Actor) -> None:
    client = stage.legacy(silent=True)
    asked(actor, client)
    client.close()
    errand, puppet, call = actor.called_by(stage.legacy(name="other"))
    errand.finish(puppet, call, "next")
    assert len(actor.told("tools/call")) == 2
    assert actor.told(CANCELLED) == []


def test_nobody_who_does_not_answer_is_waited_for_without_end(stage: Stage) -> None:
    actor = stage.actor(MODERN)
    stage.start(question_timeout=0.1)
    client = stage.legacy(silent=True)
    errand, put = asked(actor, client)
    assert "0.1 s" in errand.outcome().error["message"]
    assert client.next_notice(CANCELLED)["params"]["requestId"] == put["id"]


def test_a_server_that_is_never_content_is_given_up(stage: Stage, actor: Actor) -> None:
    client = stage.legacy()
    errand = Errand(client)
    rounds = 0
    while rounds < 100:
        puppet, call = actor.next("tools/call")
        require(puppet, call, inputRequests=questions(q=form(message=f"round {rounds}")), requestState=str(rounds))
        message = client.wire.receive()
        if "method" not in message:
            break
        client.take(message)
        rounds += 1
    assert 5 <= rounds < 100
    assert f"required input {rounds + 1} times" in message["error"]["message"]
    assert message["id"] == errand.id


def test_a_server_that_dies_while_its_client_is_asked_is_called_again_in_its_next_life(
    stage: Stage, actor: Actor
) -> None:
    client = stage.legacy(silent=True)
    errand, puppet, call = actor.called_by(client)
    require(puppet, call, inputRequests=questions(q=form()), requestState="kept by the client")
    put = client.next_question()
    puppet.close()
    until(lambda: not stage.scratch.upstream("puppet")["pids"], "the daemon knows that it is gone")
    client.wire.send({"jsonrpc": "2.0", "id": put["id"], "result": FORM_ANSWER})
    again, call = actor.next("tools/call")
    assert again is not puppet
    assert call["params"]["requestState"] == "kept by the client"
    assert call["params"]["inputResponses"] == {"q": FORM_ANSWER}
    errand.finish(again, call, "remembered")


# --- several clients


def test_two_clients_of_a_shared_modern_server_are_asked_each_its_own_question(stage: Stage) -> None:
    actor = stage.serve(MODERN, keys={"isolation": "shared"})
    clients = [stage.legacy(name=name) for name in ("one", "other")]
    errands = [Errand(client, name="puppet__act", arguments={"n": n}) for n, client in enumerate(clients)]
    for puppet, call in [actor.next("tools/call") for _ in clients]:
        number = call["params"]["arguments"]["n"]
        require(puppet, call, inputRequests=questions(q=form(message=f"question {number}")), requestState=str(number))
    for number, client in enumerate(clients):
        assert client.next_question()["params"]["message"] == f"question {number}"
    for _ in clients:
        puppet, call = actor.next("tools/call")
        number = int(call["params"]["requestState"])
        name = clients[number].name
        assert call["params"]["inputResponses"]["q"]["content"] == {"name": f"{name}: question {number}"}
        puppet.say(call, name)
    assert [errand.outcome().text for errand in errands] == ["one", "other"]

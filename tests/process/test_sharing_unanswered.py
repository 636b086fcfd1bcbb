"""Questions of shared servers that nobody answers, and those of several calls of one client."""

import pytest

from support.conformance.clients import CANCELLED, Message
from support.conformance.revisions import MODERN
from support.kernel import until
from support.puppets.shared_questions import AMBIGUOUS, expected_answer
from support.puppets.sharing import FORM, QUESTIONS, House, act, asked, called, finish, heard_nothing, outcome

# --- questions that nobody answers


@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_cancelled_call_takes_its_own_question_back_and_no_other(house: House, isolation: str) -> None:
    server = house.server(isolation=isolation)
    other = house.serve(name="other")
    ann = house.legacy("ann", silent=True)
    ids = [act(ann), act(ann, "other")]
    (puppet, call), (second, kept) = server.next("tools/call"), other.next("tools/call")
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    second.ask("q", "elicitation/create", **FORM)
    ann.next_question()
    ann.cancel(ids[0])
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]
    assert server.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    assert "withdrawn" in server.next(None)[1]["error"]["message"]
    second.say(kept, "done")
    assert outcome(ann, ids[1]).text == "done"


def test_a_cancelled_call_of_a_modern_server_takes_its_questions_back(house: House) -> None:
    server = house.serve(MODERN)
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    wishes = {key: {"method": "elicitation/create", "params": FORM} for key in ("one", "two")}
    puppet.answer(call, resultType="input_required", inputRequests=wishes)
    questions = [ann.next_question()["id"] for _ in wishes]
    ann.cancel(id_)
    assert sorted([ann.next_notice(CANCELLED)["params"]["requestId"] for _ in wishes]) == sorted(questions)
    # Nobody called again.
    assert heard_nothing(ann)
    assert server.is_silent()


def test_a_client_that_leaves_in_the_middle_of_a_question_is_not_waited_for(house: House) -> None:
    server = house.serve(isolation="shared")
    ann, bob = house.legacy("ann", silent=True), house.legacy("bob")
    puppet, call = called(server, ann)
    puppet.ask("q", "elicitation/create", **FORM)
    ann.next_question()
    ann.close()
    told: dict[object, Message] = {}
    while len(told) < 2:
        message = server.next(CANCELLED, None)[1]
        told[message.get("method", "answer")] = message
    assert told[CANCELLED]["params"]["requestId"] == call["id"]
    assert (told["answer"]["id"], told["answer"]["error"]["code"]) == ("q", -32603)
    puppet, call = called(server, bob, id_ := act(bob))
    finish(bob, id_, puppet, call, "done")


def test_a_modern_client_that_leaves_with_a_parked_call_is_not_waited_for(house: House) -> None:
    server = house.serve()
    ann = house.modern("ann")
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    assert outcome(ann, id_).result["resultType"] == "input_required"
    ann.close()
    assert server.next(None)[1]["result"] == {"action": "cancel"}
    assert server.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    until(lambda: house.scratch.status()["parked"] == 0, "nothing is parked any more")


def test_a_question_that_nobody_answers_in_time_is_withdrawn_and_a_late_answer_is_none(
    house: House, upstream: str
) -> None:
    server = house.server(upstream)
    house.start(question_timeout=0.3)
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    if upstream == MODERN:
        wish = {"method": "elicitation/create", "params": FORM}
        puppet.answer(call, resultType="input_required", inputRequests={"q": wish})
    else:
        puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]
    ann.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": expected_answer(ann, "form")})
    if upstream != MODERN:
        refusal = server.next(None)[1]["error"]
        assert "nobody answered within 0.3 s" in refusal["message"]
        puppet.refuse(call, refusal["code"], refusal["message"])
    assert "nobody answered within 0.3 s" in outcome(ann, id_).error["message"]
    assert heard_nothing(ann)
    assert server.is_silent()


def test_a_call_that_is_answered_over_an_open_question_takes_it_back(house: House) -> None:
    server = house.serve()
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    finish(ann, id_, puppet, call, "never mind")
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]


def test_the_time_of_a_call_does_not_run_while_its_client_is_asked(house: House) -> None:
    server = house.server(call_timeout=2)
    house.start(question_timeout=3)
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    # Longer than the call's time, and the call is still there afterwards.
    assert "nobody answered" in server.next(None)[1]["error"]["message"]
    finish(ann, id_, puppet, call, "done without")


# --- two calls of one client


def test_a_question_belongs_to_the_oldest_of_a_legacy_client_s_calls(house: House) -> None:
    server = house.serve()
    ann = house.legacy("ann", silent=True)
    (first, second), calls = [act(ann), act(ann)], [server.next("tools/call"), server.next("tools/call")]
    calls[0][0].ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    ann.cancel(second)
    assert heard_nothing(ann)
    ann.cancel(first)
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]


def test_a_question_is_put_on_the_oldest_of_a_modern_client_s_calls(house: House) -> None:
    server = house.serve()
    ann = house.modern("ann")
    (first, second), calls = [act(ann), act(ann)], [server.next("tools/call"), server.next("tools/call")]
    puppet = calls[0][0]
    puppet.ask("q", "elicitation/create", **FORM)
    _, again = asked(ann, first)
    assert server.next(None)[1]["result"] == expected_answer(ann, "form")
    for (_, call), id_ in zip(calls, (again, second), strict=True):
        puppet.say(call, f"answer to {call['id']}")
        assert outcome(ann, id_).text == f"answer to {call['id']}"


def test_a_question_outlives_the_oldest_call_while_another_may_have_caused_it(house: House) -> None:
    server = house.serve()
    ann = house.legacy("ann", silent=True)
    ids, calls = [act(ann), act(ann), act(ann)], [server.next("tools/call") for _ in range(3)]
    puppet = calls[0][0]
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    for id_, (_, call) in list(zip(ids, calls, strict=True))[:2]:
        finish(ann, id_, puppet, call, "done")
        assert heard_nothing(ann)
    ann.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": expected_answer(ann, "form")})
    assert server.next(None)[1]["result"] == expected_answer(ann, "form")
    # The last one takes what is open with it.
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    puppet.say(calls[2][1], "done")
    assert outcome(ann, ids[2]).text == "done"
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]


def test_a_parked_question_outlives_its_call_while_another_may_have_caused_it(house: House) -> None:
    server = house.serve()
    ann = house.modern("ann")
    (first, second), calls = [act(ann), act(ann)], [server.next("tools/call"), server.next("tools/call")]
    puppet = calls[0][0]
    puppet.ask("shown", "elicitation/create", **FORM)
    result = outcome(ann, first).result
    puppet.ask("kept", "sampling/createMessage", **QUESTIONS["sampling"][1])
    puppet.say(calls[0][1], "the first")
    # What was asked while the first was parked is asked with the second one, now that the first is over.
    question, again = asked(ann, second)
    assert question["method"] == "sampling/createMessage"
    assert server.next(None)[1] == {"jsonrpc": "2.0", "id": "kept", "result": expected_answer(ann, "sampling")}
    # What the client was shown is answered by it, although the call has ended meanwhile.
    ((key, question),) = result["inputRequests"].items()
    answer = ann.reply(question["method"], question["params"])
    assert outcome(ann, act(ann, inputResponses={key: answer}, requestState=result["requestState"])).text == "the first"
    assert server.next(None)[1] == {"jsonrpc": "2.0", "id": "shown", "result": expected_answer(ann, "form")}
    puppet.say(calls[1][1], "the second")
    assert outcome(ann, again).text == "the second"


def test_a_parked_question_that_was_left_unanswered_is_put_on_the_next_call(house: House) -> None:
    server = house.serve()
    ann = house.modern("ann")
    (first, second), calls = [act(ann), act(ann)], [server.next("tools/call"), server.next("tools/call")]
    puppet = calls[0][0]
    puppet.ask("q", "elicitation/create", **FORM)
    result = outcome(ann, first).result
    puppet.say(calls[0][1], "the first")
    # What came before it has been taken when this is answered.
    puppet.ask("ping", "ping")
    assert server.next(None)[1]["id"] == "ping"
    retry = act(ann, requestState=result["requestState"])
    _, again = asked(ann, second)
    assert outcome(ann, retry).text == "the first"
    assert server.next(None)[1] == {"jsonrpc": "2.0", "id": "q", "result": expected_answer(ann, "form")}
    puppet.say(calls[1][1], "the second")
    assert outcome(ann, again).text == "the second"


# --- what a server goes on with although nobody wants it any more


@pytest.mark.parametrize("how", ["cancel", "leave", "time out"])
def test_what_a_server_asks_for_a_call_that_was_given_up_reaches_nobody_else(
    house: House, revision: str, how: str
) -> None:
    server = house.serve(isolation="shared", **({"call_timeout": 0.5} if how == "time out" else {}))
    ann, bob = house.client(revision, "ann"), house.client(revision, "bob")
    puppet, stale = called(server, bob, given_up := act(bob))
    if how == "cancel":
        bob.cancel(given_up)
    elif how == "leave":
        bob.close()
    else:
        assert "call_timeout" in outcome(bob, given_up).error["message"]
    server.next(CANCELLED)
    puppet, call = called(server, ann, id_ := act(ann))
    # It is still busy with what it was told to give up; of the two only one is known to the daemon.
    puppet.ask("late", "elicitation/create", **FORM)
    puppet.notify("notifications/message", level="error", data="bob's secret")
    assert AMBIGUOUS in server.next(None)[1]["error"]["message"]
    # It ends that one in its own time: whatever comes now is the other's.
    puppet.say(stale, "too late")
    puppet.ask("now", "elicitation/create", **FORM)
    _, id_ = asked(ann, id_)
    assert server.next(None)[1]["result"] == expected_answer(ann, "form")
    puppet.say(call, "done")
    found = outcome(ann, id_)
    assert (found.text, found.logs) == ("done", [])

"""Questions of servers that several clients share: each reaches the client that caused it, or nobody and says so."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from conformance.clients import CANCELLED, Client, Message
from conformance.puppets import Puppet, PuppetServer
from conformance.revisions import MODERN
from conformance.vocabulary import COMPLETED
from process.daemon import Scratch
from process.kernel import is_gone, until
from process.sharing import FORM, NEWEST_LEGACY, PAGE, QUESTIONS, House, act, asked, called, heard_nothing, outcome

ERAS = pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
KINDS = pytest.mark.parametrize("kind", QUESTIONS)
AMBIGUOUS = "several clients share this server"

Begun = dict[str, tuple[Puppet, Message]]


@pytest.fixture
def house(scratch: Scratch) -> Iterator[House]:
    opened = House(scratch)
    yield opened
    opened.close()


def all_called(server: PuppetServer, clients: Sequence[Client]) -> tuple[list[object], Begun]:
    """Every client is inside a call: their ids, and by the client's name which puppet has which call."""
    ids = [act(client) for client in clients]
    begun: Begun = {}
    for _ in clients:
        puppet, call = server.next("tools/call")
        begun[call["params"]["arguments"]["who"]] = puppet, call
    return ids, begun


def expected_answer(client: Client, kind: str) -> Message:
    method, params = QUESTIONS[kind]
    answer = client.reply(method, params)
    assert answer is not None
    return answer


# --- everybody is inside a call


def all_are_asked_for_themselves(server: PuppetServer, clients: Sequence[Client]) -> None:
    """Each in a process of its own, at the same time and by the same id."""
    ids, begun = all_called(server, clients)
    assert len({id(puppet) for puppet, _ in begun.values()}) == len(clients)
    for name, (puppet, _) in begun.items():
        puppet.ask("q", "elicitation/create", **{**FORM, "message": f"Are you {name}?"})
    for client, id_ in zip(clients, ids, strict=True):
        question, id_ = asked(client, id_)
        assert question["params"]["message"] == f"Are you {client.name}?"
        puppet, answer = server.next(None)
        assert puppet is begun[client.name][0]
        assert answer["result"]["content"] == {"name": f"{client.name}: Are you {client.name}?"}
        puppet.say(begun[client.name][1], f"done for {client.name}")
        assert outcome(client, id_).text == f"done for {client.name}"


@pytest.mark.parametrize("revisions", [(NEWEST_LEGACY,) * 2, (MODERN,) * 2, (NEWEST_LEGACY, MODERN)])
def test_an_ambiguous_question_is_an_error_and_the_next_ones_have_a_process_each(
    house: House, revisions: tuple[str, str]
) -> None:
    server = house.server()
    daemon = house.start()
    clients = [house.client(revision, name) for revision, name in zip(revisions, ("ann", "bob"), strict=True)]
    ids, begun = all_called(server, clients)
    (puppet,) = {puppet for puppet, _ in begun.values()}
    (pid,) = house.pids()
    puppet.ask("q", "elicitation/create", **FORM)
    refusal = server.next(None)[1]["error"]
    assert refusal["code"] == -32603
    assert AMBIGUOUS in refusal["message"]
    for client, id_ in zip(clients, ids, strict=True):
        puppet.say(begun[client.name][1], f"done without {client.name}")
        found = outcome(client, id_)
        assert (found.text, found.questions) == (f"done without {client.name}", [])
    assert house.mode() == "session"
    all_are_asked_for_themselves(server, clients)
    until(lambda: is_gone(pid), "the process that was shared has ended")
    # It is remembered.
    assert daemon.stop() == 0
    house.scratch.start()
    assert house.mode() == "session"
    all_are_asked_for_themselves(server, [house.client(revision, f"{revision}-new") for revision in set(revisions)])


def test_a_question_that_can_be_attributed_is_answered_and_raises_the_mode_too(house: House) -> None:
    server = house.server()
    house.start()
    ann, bob = house.legacy("ann"), house.legacy("bob")
    for client in (bob, ann):
        puppet, call = called(server, client, id_ := act(client))
        if client is ann:
            puppet.ask("q", "elicitation/create", **FORM)
            ann.next_question()
            assert server.next(None)[1]["result"] == expected_answer(ann, "form")
        puppet.say(call, "done")
        assert outcome(client, id_).text == "done"
    assert house.mode() == "session"
    assert heard_nothing(bob)


@ERAS
def test_of_a_server_that_is_shared_by_hand_each_ambiguous_question_is_an_error(house: House, revision: str) -> None:
    server = house.server(isolation="shared")
    house.start()
    clients = [house.client(revision, name) for name in ("ann", "bob")]
    for _ in range(2):
        ids, begun = all_called(server, clients)
        (puppet,) = {puppet for puppet, _ in begun.values()}
        puppet.ask("q", "elicitation/create", **FORM)
        assert AMBIGUOUS in server.next(None)[1]["error"]["message"]
        # As soon as one is alone, it is certain again.
        ann, bob = clients
        puppet.say(begun["bob"][1], "done")
        assert outcome(bob, ids[1]).questions == []
        puppet.ask("q", "elicitation/create", **FORM)
        _, id_ = asked(ann, ids[0])
        assert server.next(None)[1]["result"] == expected_answer(ann, "form")
        puppet.say(begun["ann"][1], "done")
        assert outcome(ann, id_).text == "done"
        assert heard_nothing(bob)
    assert house.mode() == "shared"


# --- to whom


@KINDS
@ERAS
@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_question_reaches_the_client_in_whose_call_it_is_asked_and_nobody_else(
    house: House, isolation: str, revision: str, kind: str
) -> None:
    server = house.server(isolation=isolation)
    house.start()
    ann, bob = house.client(revision, "ann"), house.client(revision, "bob")
    puppet, call = called(server, bob, first := act(bob))
    puppet.say(call, "done")
    assert outcome(bob, first).text == "done"
    puppet, call = called(server, ann, id_ := act(ann))
    method, params = QUESTIONS[kind]
    puppet.ask(7, method, **params)
    question, id_ = asked(ann, id_)
    known = {key: value for key, value in params.items() if revision != MODERN or key != "elicitationId"}
    assert question == {"method": method, "params": known}
    asker, answer = server.next(None)
    assert asker is puppet
    assert (answer["id"], answer["result"]) == (7, expected_answer(ann, kind))
    puppet.say(call, "done")
    assert outcome(ann, id_).text == "done"
    assert heard_nothing(bob)


@pytest.mark.parametrize("alone", [True, False])
def test_a_question_out_of_the_blue_is_for_the_only_client_that_ever_was_or_for_nobody(
    house: House, alone: bool
) -> None:
    server = house.server(isolation="shared")
    house.start()
    ann, bob = house.legacy("ann"), house.legacy("bob")
    for client in (ann,) if alone else (ann, bob):
        puppet, call = called(server, client, id_ := act(client))
        puppet.say(call, "done")
        outcome(client, id_)
    puppet.ask("q", "sampling/createMessage", **QUESTIONS["sampling"][1])
    if alone:
        ann.next_question()
        assert server.next(None)[1]["result"] == expected_answer(ann, "sampling")
    else:
        assert "no client's request is in flight" in server.next(None)[1]["error"]["message"]
        assert heard_nothing(ann)
    assert heard_nothing(bob)


def test_an_answer_by_somebody_else_is_no_answer(house: House) -> None:
    server = house.server(isolation="shared")
    house.start()
    ann, bob = house.legacy("ann", silent=True), house.legacy("bob")
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    forged = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "bob"}}}
    bob.wire.send(forged)
    assert heard_nothing(bob)
    ann.wire.send({**forged, "result": expected_answer(ann, "form")})
    assert server.next(None)[1]["result"] == expected_answer(ann, "form")
    assert server.is_silent()
    puppet.say(call, "done")
    assert outcome(ann, id_).text == "done"


# --- clients that cannot be asked


@KINDS
@ERAS
@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_server_is_told_in_a_sentence_that_its_client_cannot_be_asked(
    house: House, isolation: str, revision: str, kind: str
) -> None:
    server = house.server(isolation=isolation)
    house.start()
    client = house.client(revision, bare=True)
    puppet, call = called(server, client, id_ := act(client))
    method, params = QUESTIONS[kind]
    puppet.ask("q", method, **params)
    refusal = server.next(None)[1]["error"]
    assert "the client has not declared" in refusal["message"]
    puppet.refuse(call, refusal["code"], refusal["message"])
    found = outcome(client, id_)
    assert found.failed and "the client has not declared" in found.text


@pytest.mark.parametrize("bare", [True, False])
def test_a_server_of_one_client_is_told_what_that_client_can_be_asked(house: House, bare: bool) -> None:
    server = house.server(isolation="session")
    house.start()
    client = house.client(NEWEST_LEGACY, bare=bare)
    act(client)
    assert server.next("initialize")[1]["params"]["capabilities"] == client.capabilities


@KINDS
def test_a_modern_server_s_wish_that_the_client_cannot_fulfil_fails_the_call_with_a_sentence(
    house: House, kind: str
) -> None:
    server = house.server(MODERN)
    house.start()
    client = house.client(NEWEST_LEGACY, bare=True)
    puppet, call = called(server, client, id_ := act(client))
    method, params = QUESTIONS[kind]
    wish = {"method": method, "params": {key: value for key, value in params.items() if key != "elicitationId"}}
    puppet.answer(call, resultType="input_required", inputRequests={"q": wish}, requestState="s")
    found = outcome(client, id_)
    assert found.failed and "the client has not declared" in found.text
    assert "'puppet'" in found.text


# --- questions that nobody answers


@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_cancelled_call_takes_its_own_question_back_and_no_other(house: House, isolation: str) -> None:
    server = house.server(isolation=isolation)
    other = house.server(name="other")
    house.start()
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
    server = house.server(MODERN)
    house.start()
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    wishes = {key: {"method": "elicitation/create", "params": FORM} for key in ("one", "two")}
    puppet.answer(call, resultType="input_required", inputRequests=wishes)
    questions = [ann.next_question()["id"] for _ in wishes]
    ann.cancel(id_)
    withdrawn = [ann.next_notice(CANCELLED)["params"]["requestId"] for _ in wishes]
    assert sorted(withdrawn) == sorted(questions)
    # Nobody called again.
    assert heard_nothing(ann)
    assert server.is_silent()


def test_a_client_that_leaves_in_the_middle_of_a_question_is_not_waited_for(house: House) -> None:
    server = house.server(isolation="shared")
    house.start()
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
    puppet.say(call, "done")
    assert outcome(bob, id_).text == "done"


def test_a_modern_client_that_leaves_with_a_parked_call_is_not_waited_for(house: House) -> None:
    server = house.server()
    house.start()
    ann = house.modern("ann")
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    assert outcome(ann, id_).result["resultType"] == "input_required"
    ann.close()
    assert server.next(None)[1]["result"] == {"action": "cancel"}
    assert server.next(CANCELLED)[1]["params"]["requestId"] == call["id"]
    until(lambda: house.scratch.status()["parked"] == 0, "nothing is parked any more")


@pytest.mark.parametrize("upstream", [NEWEST_LEGACY, MODERN])
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
    server = house.server()
    house.start()
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    puppet.say(call, "never mind")
    assert outcome(ann, id_).text == "never mind"
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]


def test_the_time_of_a_call_does_not_run_while_its_client_is_asked(house: House) -> None:
    server = house.server(call_timeout=2)
    house.start(question_timeout=3)
    ann = house.legacy("ann", silent=True)
    puppet, call = called(server, ann, id_ := act(ann))
    puppet.ask("q", "elicitation/create", **FORM)
    # Longer than the call's time, and the call is still there afterwards.
    assert "nobody answered" in server.next(None)[1]["error"]["message"]
    puppet.say(call, "done without")
    assert outcome(ann, id_).text == "done without"


# --- two calls of one client


def test_a_question_belongs_to_the_oldest_of_a_legacy_client_s_calls(house: House) -> None:
    server = house.server()
    house.start()
    ann = house.legacy("ann", silent=True)
    (first, second), calls = [act(ann), act(ann)], [server.next("tools/call"), server.next("tools/call")]
    puppet = calls[0][0]
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    ann.cancel(second)
    assert heard_nothing(ann)
    ann.cancel(first)
    assert ann.next_notice(CANCELLED)["params"]["requestId"] == question["id"]


def test_a_question_is_put_on_the_oldest_of_a_modern_client_s_calls(house: House) -> None:
    server = house.server()
    house.start()
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
    server = house.server()
    house.start()
    ann = house.legacy("ann", silent=True)
    ids, calls = [act(ann), act(ann), act(ann)], [server.next("tools/call") for _ in range(3)]
    puppet = calls[0][0]
    puppet.ask("q", "elicitation/create", **FORM)
    question = ann.next_question()
    for id_, (_, call) in list(zip(ids, calls, strict=True))[:2]:
        puppet.say(call, "done")
        assert outcome(ann, id_).text == "done"
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
    server = house.server()
    house.start()
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
    retry = act(ann, inputResponses={key: answer}, requestState=result["requestState"])
    assert outcome(ann, retry).text == "the first"
    assert server.next(None)[1] == {"jsonrpc": "2.0", "id": "shown", "result": expected_answer(ann, "form")}
    puppet.say(calls[1][1], "the second")
    assert outcome(ann, again).text == "the second"


def test_a_parked_question_that_was_left_unanswered_is_put_on_the_next_call(house: House) -> None:
    server = house.server()
    house.start()
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


def late_questions() -> list[Any]:
    return [pytest.param(how, id=how) for how in ("cancel", "leave", "time out")]


@ERAS
@pytest.mark.parametrize("how", late_questions())
def test_what_a_server_asks_for_a_call_that_was_given_up_reaches_nobody_else(
    house: House, revision: str, how: str
) -> None:
    server = house.server(isolation="shared", **({"call_timeout": 0.5} if how == "time out" else {}))
    house.start()
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


# --- notices


def test_a_completed_visit_is_told_to_who_was_sent_there(house: House) -> None:
    server = house.server(isolation="session")
    house.start()
    clients = [house.legacy(name) for name in ("ann", "bob")]
    ids, begun = all_called(server, clients)
    # Processes that know nothing of each other use the same id.
    for puppet, _ in begun.values():
        puppet.ask("q", "elicitation/create", **PAGE)
    for client in clients:
        client.next_question()
    begun["ann"][0].notify(COMPLETED, elicitationId="e-1")
    assert clients[0].next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    assert heard_nothing(clients[1])
    begun["bob"][0].notify(COMPLETED, elicitationId="e-1")
    assert clients[1].next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    for client, id_ in zip(clients, ids, strict=True):
        puppet, call = begun[client.name]
        puppet.say(call, "done")
        assert outcome(client, id_).text == "done"


@ERAS
def test_a_message_is_for_the_only_client_inside_a_call_or_for_nobody(house: House, revision: str) -> None:
    server = house.server(isolation="shared")
    house.start()
    ann, bob = house.client(revision, "ann"), house.client(revision, "bob")
    meta = {"io.modelcontextprotocol/logLevel": "debug"} if revision == MODERN else {}
    ids = {client.name: act(client, _meta=meta) for client in (ann, bob)}
    begun = {}
    for _ in ids:
        puppet, call = server.next("tools/call")
        begun[call["params"]["arguments"]["who"]] = call
    puppet.notify("notifications/message", level="error", data="of either")
    puppet.say(begun["bob"], "done")
    puppet.notify("notifications/message", level="error", data="of ann")
    puppet.say(begun["ann"], "done")
    found = {client.name: outcome(client, ids[client.name]) for client in (ann, bob)}
    assert [log["data"] for log in found["ann"].logs] == ["of ann"]
    assert found["bob"].logs == []
    assert heard_nothing(bob)


def test_a_modern_call_s_own_level_and_progress_come_from_a_legacy_server_with_its_first_call(house: House) -> None:
    server = house.server()
    house.start()
    ann = house.modern("ann")
    meta = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "mine"}
    puppet, call = called(server, ann, id_ := act(ann, _meta=meta))
    token = call["params"]["_meta"]["progressToken"]
    puppet.notify("notifications/progress", progressToken=token, progress=1)
    puppet.notify("notifications/message", level="debug", data="fine")
    puppet.say(call, "done")
    found = outcome(ann, id_)
    assert [item["progressToken"] for item in found.progress] == ["mine"]
    assert [item["data"] for item in found.logs] == ["fine"]

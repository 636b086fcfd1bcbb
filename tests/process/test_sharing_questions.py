"""Questions of servers that several clients share: each reaches the client that caused it, or nobody and says so."""

from collections.abc import Sequence

import pytest

from support.conformance.clients import Client
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.conformance.vocabulary import COMPLETED
from support.kernel import is_gone, until
from support.puppets.server import PuppetServer, outcome
from support.puppets.shared_questions import AMBIGUOUS, KINDS, all_called, expected_answer
from support.puppets.sharing import FORM, PAGE, QUESTIONS, House, act, asked, called, finish, heard_nothing

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
    # A server that was not yet asked for the modern era is tried in it first.
    all_are_asked_for_themselves(server, clients)
    assert house.mode() == "session"
    until(lambda: is_gone(pid), "the process that was shared has ended")
    # It is remembered.
    assert daemon.stop() == 0
    house.scratch.start()
    assert house.mode() == "session"
    all_are_asked_for_themselves(server, [house.client(revision, f"{revision}-new") for revision in set(revisions)])


def test_a_question_that_can_be_attributed_is_answered_and_raises_the_mode_too(house: House) -> None:
    server = house.serve()
    ann, bob = house.legacy("ann"), house.legacy("bob")
    for client in (bob, ann):
        puppet, call = called(server, client, id_ := act(client))
        if client is ann:
            puppet.ask("q", "elicitation/create", **FORM)
            ann.next_question()
            assert server.next(None)[1]["result"] == expected_answer(ann, "form")
        finish(client, id_, puppet, call, "done")
    assert heard_nothing(bob)
    puppet, call = called(server, bob, id_ := act(bob))
    finish(bob, id_, puppet, call, "done")
    assert house.mode() == "session"


def test_of_a_server_that_is_shared_by_hand_each_ambiguous_question_is_an_error(house: House, revision: str) -> None:
    server = house.serve(isolation="shared")
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
@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_question_reaches_the_client_in_whose_call_it_is_asked_and_nobody_else(
    house: House, isolation: str, revision: str, kind: str
) -> None:
    server = house.serve(isolation=isolation)
    ann, bob = house.client(revision, "ann"), house.client(revision, "bob")
    puppet, call = called(server, bob, first := act(bob))
    finish(bob, first, puppet, call, "done")
    puppet, call = called(server, ann, id_ := act(ann))
    method, params = QUESTIONS[kind]
    puppet.ask(7, method, **params)
    question, id_ = asked(ann, id_)
    known = {key: value for key, value in params.items() if revision != MODERN or key != "elicitationId"}
    assert question == {"method": method, "params": known}
    asker, answer = server.next(None)
    assert asker is puppet
    assert (answer["id"], answer["result"]) == (7, expected_answer(ann, kind))
    finish(ann, id_, puppet, call, "done")
    assert heard_nothing(bob)


@pytest.mark.parametrize("alone", [True, False])
def test_a_question_out_of_the_blue_is_for_the_only_client_that_ever_was_or_for_nobody(
    house: House, alone: bool
) -> None:
    server = house.serve(isolation="shared")
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
    server = house.serve(isolation="shared")
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
    finish(ann, id_, puppet, call, "done")


# --- clients that cannot be asked


@KINDS
@pytest.mark.parametrize("isolation", ["shared", "session"])
def test_a_server_is_told_in_a_sentence_that_its_client_cannot_be_asked(
    house: House, isolation: str, revision: str, kind: str
) -> None:
    server = house.serve(isolation=isolation)
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
    server = house.serve(isolation="session")
    client = house.client(NEWEST_LEGACY, bare=bare)
    act(client)
    assert server.next("initialize")[1]["params"]["capabilities"] == client.capabilities


@KINDS
def test_a_modern_server_s_wish_that_the_client_cannot_fulfil_fails_the_call_with_a_sentence(
    house: House, kind: str
) -> None:
    server = house.serve(MODERN)
    client = house.client(NEWEST_LEGACY, bare=True)
    puppet, call = called(server, client, id_ := act(client))
    method, params = QUESTIONS[kind]
    wish = {"method": method, "params": {key: value for key, value in params.items() if key != "elicitationId"}}
    puppet.answer(call, resultType="input_required", inputRequests={"q": wish}, requestState="s")
    found = outcome(client, id_)
    assert found.failed and "the client has not declared" in found.text
    assert "'puppet'" in found.text


# --- notices


def test_a_completed_visit_is_told_to_who_was_sent_there(house: House) -> None:
    server = house.serve(isolation="session")
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
        finish(client, id_, puppet, call, "done")


def test_a_message_is_for_the_only_client_inside_a_call_or_for_nobody(house: House, revision: str) -> None:
    server = house.serve(isolation="shared")
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
    server = house.serve()
    ann = house.modern("ann")
    meta = {"io.modelcontextprotocol/logLevel": "debug", "progressToken": "mine"}
    puppet, call = called(server, ann, id_ := act(ann, _meta=meta))
    puppet.notify("notifications/progress", progressToken=call["params"]["_meta"]["progressToken"], progress=1)
    puppet.notify("notifications/message", level="debug", data="fine")
    puppet.say(call, "done")
    found = outcome(ann, id_)
    assert [item["progressToken"] for item in found.progress] == ["mine"]
    assert [item["data"] for item in found.logs] == ["fine"]

"""Questions in the midst of calls between eras, and those who leave in the midst of them."""

import json

from support.conformance.clients import CANCELLED, LegacyClient, Message
from support.conformance.edge_case_calls import (
    ANSWER,
    FORM,
    NEWEST_LEGACY,
    heard,
    parked,
)
from support.conformance.edge_cases import LEGACY_SERVER, Corner, act, outcome, retry
from support.conformance.revisions import MODERN
from support.puppets.server import Puppet

# --- parked calls


def test_what_a_server_finishes_while_its_call_is_parked_is_kept_for_the_retry(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    puppet.say(call, "could not wait")
    # The daemon has taken it when it answers what came later.
    puppet.ask("p-1", "ping")
    heard(corner, None)
    assert outcome(client, retry(client, result)).text == "could not wait"


def test_a_server_that_dies_while_its_call_is_parked_fails_the_retry(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, _, result = parked(corner, client)
    puppet.close()
    failed = outcome(client, retry(client, result))
    assert failed.failed and "puppet" in failed.text


def test_questions_that_come_together_are_asked_together_or_in_rounds_and_each_gets_its_answer(corner: Corner) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    id = act(client)
    puppet, call = server.next("tools/call")
    names = ("first", "second", "third")
    for name in names:
        puppet.ask(name, "elicitation/create", **{**FORM, "message": name})
    asked = 0
    while asked < len(names):
        result = outcome(client, id).result
        asked += len(result["inputRequests"])
        id = retry(client, result)
    answers = [heard(corner, None) for _ in names]
    given = {answer["id"]: answer["result"]["content"]["name"] for answer in answers}
    assert given == {name: f"somebody: {name}" for name in names}
    puppet.say(call, "done")
    assert outcome(client, id).text == "done"


def test_a_cancelled_retry_withdraws_the_call(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    _, call, result = parked(corner, client)
    last = retry(client, result)
    heard(corner, None)
    client.cancel(last)
    assert heard(corner, CANCELLED)["params"]["requestId"] == call["id"]


def test_a_question_that_its_server_withdraws_while_it_is_parked_needs_no_answer(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    puppet.notify(CANCELLED, requestId="q-1")
    puppet.ask("p-1", "ping")
    assert heard(corner, None)["id"] == "p-1"
    last = retry(client, result)
    puppet.say(call, "never mind")
    assert outcome(client, last).text == "never mind"
    assert corner.servers[0].is_silent()


def asked(corner: Corner) -> tuple[LegacyClient, object, Puppet, Message, Message]:
    """A legacy client in whose call a question has come that it does not answer."""
    (server,) = corner.servers
    client = corner.client(NEWEST_LEGACY)
    assert isinstance(client, LegacyClient)
    client.silent = True
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.ask("q-1", "elicitation/create", **FORM)
    return client, id, puppet, call, client.next_question()


def test_a_question_that_its_server_withdraws_is_withdrawn_from_the_client(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client, id, puppet, call, question = asked(corner)
    puppet.notify(CANCELLED, requestId="q-1")
    assert client.next_notice(CANCELLED)["params"]["requestId"] == question["id"]
    puppet.say(call, "never mind")
    assert outcome(client, id).text == "never mind"


def test_cancelling_the_call_withdraws_its_question(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client, id, _, call, question = asked(corner)
    client.cancel(id)
    assert client.next_notice(CANCELLED)["params"]["requestId"] == question["id"]
    assert heard(corner, CANCELLED)["params"]["requestId"] == call["id"]


# --- the input loop


def test_a_client_s_error_inside_the_input_loop_ends_the_call_with_it(corner: Corner) -> None:
    server = corner.server(MODERN)
    corner.start()
    client = corner.client(NEWEST_LEGACY)
    client.refusal = {"code": -32050, "message": "my person is asleep"}
    id = act(client)
    puppet, call = server.next("tools/call")
    asking = {"q": {"method": "elicitation/create", "params": FORM}}
    puppet.answer(call, resultType="input_required", inputRequests=asking, requestState="s")
    failed = outcome(client, id)
    assert failed.error == {"code": -32050, "message": "my person is asleep"}
    # Nobody called again.
    assert outcome(client, client.begin("ping")).result == {}
    assert server.is_silent()


def test_several_wishes_at_once_are_answered_together(corner: Corner) -> None:
    server = corner.server(MODERN)
    corner.start()
    client = corner.client(NEWEST_LEGACY)
    id = act(client)
    puppet, call = server.next("tools/call")
    said = {"role": "user", "content": {"type": "text", "text": "Say something."}}
    asking = {
        "form": {"method": "elicitation/create", "params": FORM},
        "model": {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": 1}},
        "folders": {"method": "roots/list"},
    }
    puppet.answer(call, resultType="input_required", inputRequests=asking, requestState="s")
    for _ in asking:
        client.take(client.wire.receive())
    puppet, call = server.next("tools/call")
    puppet.say(call, json.dumps(call["params"]["inputResponses"]))
    found = json.loads(outcome(client, id).text)
    assert set(found) == set(asking)
    assert found["form"] == ANSWER
    assert found["model"]["content"]["text"] == "said for somebody"
    assert found["folders"]["roots"][0]["uri"] == "file:///home/somebody"

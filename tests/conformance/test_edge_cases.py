"""Where clients and servers of different eras meet and one of them does the unexpected, or nothing at all."""

import pytest

from support.conformance.clients import CANCELLED, UPDATED
from support.conformance.edge_case_calls import (
    ANSWER,
    INVALID_PARAMS,
    NEWEST_LEGACY,
    PAGE,
    RESOURCE_NOT_FOUND,
    heard,
    parked,
)
from support.conformance.edge_cases import LEGACY_SERVER, Corner, act, outcome, retry
from support.conformance.revisions import LEGACY, MODERN, is_modern
from support.conformance.vocabulary import COMPLETED
from support.kernel import until

# --- URLs


def test_a_demand_for_urls_is_a_wish_for_input_and_the_call_is_made_afresh_when_they_are_complete(
    corner: Corner,
) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.refuse(call, -32042, "Go there first.", {"elicitations": [PAGE]})
    result = outcome(client, id).result
    (question,) = result["inputRequests"].values()
    shown = {key: value for key, value in PAGE.items() if key != "elicitationId"}
    assert question == {"method": "elicitation/create", "params": shown}
    second = retry(client, result)
    puppet.notify(COMPLETED, elicitationId="e-1")
    again, call = server.next("tools/call")
    assert again is puppet
    assert call["params"] == {"name": "act", "arguments": {"key": "value"}}
    puppet.say(call, "visited")
    assert outcome(client, second).text == "visited"


def test_a_demand_for_urls_that_the_client_declines_fails_the_call(corner: Corner) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.refuse(call, -32042, "Go there first.", {"elicitations": [PAGE]})
    result = outcome(client, id).result
    (key,) = result["inputRequests"]
    failed = outcome(client, retry(client, result, **{key: {"action": "decline"}}))
    assert failed.failed and "declined" in failed.text


def test_a_demand_for_urls_reaches_a_client_that_knows_it_and_so_does_their_completion(corner: Corner) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client("2025-11-25")
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.refuse(call, -32042, "Go there first.", {"elicitations": [PAGE]})
    error = outcome(client, id).error
    assert (error["code"], error["data"]) == (-32042, {"elicitations": [PAGE]})
    puppet.notify(COMPLETED, elicitationId="e-1")
    assert client.next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}


def test_of_two_processes_of_a_server_each_announces_its_own_completions(corner: Corner) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    clients = [corner.client("2025-11-25", name) for name in ("first", "second")]
    puppets = []
    for client in clients:
        id = act(client)
        puppet, call = server.next("tools/call")
        puppet.refuse(call, -32042, "Go there first.", {"elicitations": [PAGE]})
        assert outcome(client, id).error["code"] == -32042
        puppets.append(puppet)
    assert puppets[0] is not puppets[1]
    puppets[0].notify(COMPLETED, elicitationId="e-1")
    assert clients[0].next_notice(COMPLETED)["params"] == {"elicitationId": "e-1"}
    assert clients[1].ask("ping").result == {}
    assert clients[1].notices == []


@pytest.mark.parametrize("revision", LEGACY[:-1])
def test_a_demand_for_urls_is_another_error_for_a_client_that_does_not_know_it(corner: Corner, revision: str) -> None:
    server = corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(revision)
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.refuse(call, -32042, "Go there first.", {"elicitations": [PAGE]})
    failed = outcome(client, id)
    assert failed.error["code"] == -32603
    assert "Go there first." in failed.text


# --- requestState


def test_a_state_without_questions_is_called_again_for_a_legacy_client(corner: Corner) -> None:
    server = corner.server(MODERN)
    corner.start()
    client = corner.client(NEWEST_LEGACY)
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.answer(call, resultType="input_required", requestState="st\u00e4te \u2028 1")
    puppet, call = server.next("tools/call")
    assert call["params"]["requestState"] == "st\u00e4te \u2028 1"
    assert "inputResponses" not in call["params"]
    puppet.say(call, "now")
    assert outcome(client, id).text == "now"


def test_a_modern_server_s_state_is_passed_on_as_it_is(corner: Corner) -> None:
    server = corner.server(MODERN)
    corner.start()
    client = corner.client(MODERN)
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.answer(call, resultType="input_required", requestState="hearth.AAAA")
    result = outcome(client, id).result
    assert result["requestState"] == "hearth.AAAA"
    second = retry(client, result)
    puppet, call = server.next("tools/call")
    assert call["params"]["requestState"] == "hearth.AAAA"
    puppet.say(call, "now")
    assert outcome(client, second).text == "now"


def test_a_forged_state_is_refused_and_the_parked_call_goes_on(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    state = result["requestState"]
    place = len(state) // 2
    forged = state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :]
    for wrong in (forged, "", "hearth.", state + "A", state[:-4], "other"):
        assert outcome(client, retry(client, {**result, "requestState": wrong})).error["code"] == INVALID_PARAMS
    last = retry(client, result)
    assert heard(corner, None)["result"] == ANSWER
    puppet.say(call, "done")
    assert outcome(client, last).text == "done"


def test_a_state_is_good_once(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    first = retry(client, result)
    assert heard(corner, None)["result"] == ANSWER
    error = outcome(client, retry(client, result)).error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "spent")
    puppet.say(call, "done")
    assert outcome(client, first).text == "done"
    assert outcome(client, retry(client, result)).error["code"] == INVALID_PARAMS


def test_a_state_is_no_good_for_another_call(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    params = {"name": "puppet__act", "arguments": {"key": "other"}, "requestState": result["requestState"]}
    error = outcome(client, client.begin("tools/call", **params, inputResponses={})).error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "request")
    last = retry(client, result)
    puppet.say(call, "done")
    assert outcome(client, last).text == "done"


def test_a_state_is_no_good_for_another_client(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client, other = corner.client(MODERN), corner.client(MODERN, "another")
    puppet, call, result = parked(corner, client)
    error = outcome(other, retry(other, result)).error
    assert (error["code"], error["data"]["reason"]) == (INVALID_PARAMS, "principal")
    last = retry(client, result)
    assert heard(corner, None)["result"] == ANSWER
    puppet.say(call, "done")
    assert outcome(client, last).text == "done"


def test_a_state_that_expired_is_refused_and_the_server_is_told_before(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start(parked_timeout=0.2)
    client = corner.client(MODERN)
    _, call, result = parked(corner, client)
    assert heard(corner, None)["result"] == {"action": "cancel"}
    assert heard(corner, CANCELLED)["params"]["requestId"] == call["id"]
    failed = outcome(client, retry(client, result))
    assert failed.error["code"] == INVALID_PARAMS
    assert "expired" in failed.text
    # It was not run again behind the client's back.
    assert outcome(client, client.begin("tools/list")).result["tools"]
    assert corner.servers[0].is_silent()


def test_what_is_missing_in_a_retry_is_asked_again_and_what_is_too_much_is_ignored(corner: Corner) -> None:
    corner.server(LEGACY_SERVER)
    corner.start()
    client = corner.client(MODERN)
    puppet, call, result = parked(corner, client)
    result = outcome(client, retry(client, result, stray={"action": "accept"})).result
    assert [item["method"] for item in result["inputRequests"].values()] == ["elicitation/create"]
    last = retry(client, result)
    assert heard(corner, None)["result"] == ANSWER
    puppet.say(call, "done")
    assert outcome(client, last).text == "done"


# --- roots, lists, links, collisions


@pytest.mark.parametrize("isolation", ["shared", "workspace", "session"])
def test_roots_may_be_asked_for_out_of_the_blue(corner: Corner, isolation: str) -> None:
    server = corner.server(LEGACY_SERVER, isolation=isolation)
    corner.start()
    client = corner.client(NEWEST_LEGACY)
    client.ask("tools/list")
    puppet, _ = server.next("notifications/initialized")
    puppet.ask("r-1", "roots/list")
    # Nobody has a request open. The client looks around now and then, as it may be asked itself.
    answer = until(lambda: server.answer_heard() if client.ask("ping").error == {} else None, "there is an answer")
    assert answer is not None and answer["id"] == "r-1"
    assert isolation == "shared" or answer["result"]["roots"] == [{"uri": "file:///home/somebody", "name": "somebody"}]


def test_a_burst_of_changes_is_told_at_least_once_and_not_each_time(corner: Corner, revision: str) -> None:
    server = corner.server(LEGACY_SERVER, isolation="shared")
    corner.start()
    client = corner.client(revision)
    assert len(client.everything("tools/list", "tools")) == 1
    if is_modern(revision):
        client.begin("subscriptions/listen", notifications={"toolsListChanged": True})
        client.next_notice("notifications/subscriptions/acknowledged")
    puppet, _ = server.next("tools/list")
    server.offers["tools"] = [*server.offers["tools"], {**server.offers["tools"][0], "name": "more"}]
    for _ in range(200):
        puppet.notify("notifications/tools/list_changed")
    puppet.ask("p-1", "ping")
    server.next(None)
    client.next_notice("notifications/tools/list_changed")
    assert len(client.everything("tools/list", "tools")) == 2
    assert len(client.notices) < 20


def test_a_link_that_was_never_listed_leads_to_the_server_that_gave_it(corner: Corner, revision: str) -> None:
    server, other = corner.server(LEGACY_SERVER), corner.server(LEGACY_SERVER, "other")
    corner.start()
    client, stranger = corner.client(revision), corner.client(revision, "stranger")
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.answer(call, content=[{"type": "resource_link", "uri": "made:up/1", "name": "one"}])
    assert outcome(client, id).result["content"][0]["uri"] == "made:up/1"
    id = client.begin("resources/read", uri="made:up/1")
    puppet, read = server.next("resources/read")
    puppet.answer(read, contents=[{"uri": "made:up/1", "text": "content"}])
    assert outcome(client, id).result["contents"][0]["text"] == "content"
    # Nobody told the other client where that is.
    code = stranger.ask("resources/read", uri="made:up/1").error["code"]
    assert code == (INVALID_PARAMS if is_modern(revision) else RESOURCE_NOT_FOUND)
    assert "resources/read" not in other.methods() + server.methods()


def test_of_two_servers_with_one_uri_the_first_keeps_it_and_the_other_s_is_prefixed(
    corner: Corner, revision: str
) -> None:
    listed = [{"uri": "same:thing", "name": "thing"}]
    servers = {name: corner.server(LEGACY_SERVER, name, resources=listed) for name in ("first", "second")}
    corner.start()
    client = corner.client(revision)
    uris = [item["uri"] for item in client.everything("resources/list", "resources")]
    assert uris[0] == "same:thing" and len(set(uris)) == 2
    for uri, (name, server) in zip(uris, servers.items(), strict=True):
        subscription = client.subscribe(uri)
        id = client.begin("resources/read", uri=uri)
        puppet, read = server.next("resources/read")
        assert read["params"]["uri"] == "same:thing"
        puppet.answer(read, contents=[{"uri": "same:thing", "text": name}])
        assert outcome(client, id).result["contents"] == [{"uri": uri, "text": name}]
        puppet.notify(UPDATED, uri="same:thing")
        assert client.next_notice(UPDATED)["params"]["uri"] == uri
        client.unsubscribe(uri, subscription)
        id = act(client, name)
        puppet, call = server.next("tools/call")
        puppet.answer(call, content=[{"type": "resource_link", "uri": "same:thing", "name": "thing"}])
        assert outcome(client, id).result["content"][0]["uri"] == uri


def test_of_two_subscriptions_to_one_uri_of_two_servers_one_may_end_alone(corner: Corner, revision: str) -> None:
    listed = [{"uri": "same:thing", "name": "thing"}]
    first, second = (corner.server(LEGACY_SERVER, name, resources=listed) for name in ("first", "second"))
    corner.start()
    client = corner.client(revision)
    uris = [item["uri"] for item in client.everything("resources/list", "resources")]
    subscriptions = [client.subscribe(uri) for uri in uris]
    puppets = [server.next("resources/subscribe")[0] for server in (first, second)]
    client.unsubscribe(uris[0], subscriptions[0])
    first.next("resources/unsubscribe")
    puppets[1].notify(UPDATED, uri="same:thing")
    assert client.next_notice(UPDATED)["params"]["uri"] == uris[1]


def test_a_subscription_that_is_withdrawn_before_it_is_made_is_not_made(corner: Corner) -> None:
    server = corner.server(LEGACY_SERVER, resources=[{"uri": "some:thing", "name": "thing"}])
    corner.start()
    client = corner.client(NEWEST_LEGACY)
    ids = [client.begin(f"resources/{verb}", uri="some:thing") for verb in ("subscribe", "unsubscribe")]
    # Both are answered, in whichever order.
    answers = [client.wire.receive() for _ in ids]
    assert {answer["id"]: answer["result"] for answer in answers} == {id: {} for id in ids}
    id = act(client)
    puppet, call = server.next("tools/call")
    puppet.notify(UPDATED, uri="some:thing")
    puppet.say(call, "said")
    assert outcome(client, id).text == "said"
    assert client.notices == []

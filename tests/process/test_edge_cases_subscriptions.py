"""Resources that clients want to hear of: counted per server, and carried over whatever ends in between."""

from itertools import pairwise

from support.conformance.clients import CANCELLED, UPDATED, Client, Message, ModernClient
from support.conformance.revisions import MODERN, NEWEST_LEGACY
from support.conformance.vocabulary import ACKNOWLEDGED
from support.kernel import until
from support.puppets.server import Puppet
from support.puppets.stage import INVALID_PARAMS, Actor, Stage

LISTEN = "subscriptions/listen"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
RESOURCE_NOT_FOUND = -32002
RESOURCES = [{"uri": f"made:{name}", "name": name} for name in ("one", "two", "dir", "dir/file")]


def serve(stage: Stage, upstream: str, **settings: object) -> Actor:
    actor = stage.actor(upstream, keys={"isolation": "shared"}, resources=RESOURCES)
    stage.start(**settings)
    return actor


def wanted(actor: Actor) -> tuple[Puppet, set[str]]:
    """The process that was last told what to tell of, and what that is."""
    puppet, message = actor.next(LISTEN if actor.revision == MODERN else "resources/subscribe")
    params = message["params"]
    if actor.revision != MODERN:
        return puppet, {params["uri"]}
    if "resourceSubscriptions" not in params["notifications"]:
        # That one is about lists.
        return wanted(actor)
    return puppet, set(params["notifications"]["resourceSubscriptions"])


def update(actor: Actor, puppet: Puppet, uri: str) -> None:
    """The server says that the resource has changed."""
    params: Message = {"uri": uri}
    if actor.revision == MODERN:
        # The other stream is about lists; which of the two is asked for last is not fixed.
        asked = [message for message in actor.record if message.get("method") == LISTEN]
        listens = [each for each in asked if "resourceSubscriptions" in each["params"]["notifications"]]
        params["_meta"] = {SUBSCRIPTION: listens[-1]["id"]}
    puppet.notify(UPDATED, **params)


def heard(client: Client, subscription: object) -> str:
    """The URI of the next update, which must come by that subscription."""
    params = client.next_notice(UPDATED)["params"]
    if client.revision == MODERN:
        assert params["_meta"] == {SUBSCRIPTION: subscription}
    else:
        assert set(params) == {"uri"}
    return params["uri"]


def assert_silent(client: Client) -> None:
    """Nothing else has come to the client; it is asked something so that there is an end to wait for."""
    assert client.ask("prompts/list").result["prompts"] == []
    assert [notice for notice in client.notices if notice["method"] == UPDATED] == []


# --- the set that is wanted


def test_what_two_clients_want_is_asked_for_once_and_dropped_with_the_last(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = serve(stage, upstream)
    one, other = stage.guest(revision, "one"), stage.guest(revision, "other")
    first = one.subscribe("made:one")
    puppet, uris = wanted(actor)
    assert uris == {"made:one"}
    second = other.subscribe("made:one")
    update(actor, puppet, "made:one")
    assert heard(one, first) == heard(other, second) == "made:one"
    one.unsubscribe("made:one", first)
    assert_silent(one)
    update(actor, puppet, "made:one")
    assert heard(other, second) == "made:one"
    assert_silent(one)
    asked = LISTEN if upstream == MODERN else "resources/subscribe"
    assert len([params for params in actor.told(asked) if "made:one" in str(params)]) == 1
    assert actor.told(CANCELLED) == actor.told("resources/unsubscribe") == []
    other.unsubscribe("made:one", second)
    actor.next(CANCELLED if upstream == MODERN else "resources/unsubscribe")


def test_a_client_that_leaves_wants_nothing_any_more(stage: Stage, revision: str, upstream: str) -> None:
    actor = serve(stage, upstream)
    gone, client = stage.guest(revision, "gone"), stage.guest(revision)
    for each, uri in ((gone, "made:two"), (client, "made:one")):
        each.subscribe(uri)
        wanted(actor)
    gone.close()
    if upstream == MODERN:
        assert wanted(actor)[1] == {"made:one"}
    else:
        assert actor.next("resources/unsubscribe")[1]["params"] == {"uri": "made:two"}


def test_to_end_a_subscription_that_is_none_ends_nobody_s(stage: Stage, upstream: str) -> None:
    actor = serve(stage, upstream)
    one, other = stage.legacy(name="one"), stage.legacy(name="other")
    one.subscribe("made:one")
    puppet, _ = wanted(actor)
    other.unsubscribe("made:one", None)
    one.unsubscribe("made:two", None)
    one.subscribe("made:one")
    update(actor, puppet, "made:one")
    assert heard(one, None) == "made:one"
    assert_silent(one)
    assert_silent(other)


def test_a_part_of_a_resource_is_told_to_who_wants_the_whole_and_once_to_who_wants_both(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = serve(stage, upstream)
    client = stage.guest(revision)
    if isinstance(client, ModernClient):
        subscription = client.begin(LISTEN, notifications={"resourceSubscriptions": ["made:dir", "made:dir/file"]})
        client.next_notice(ACKNOWLEDGED)
    else:
        subscription = [client.subscribe(uri) for uri in ("made:dir", "made:dir/file")]
    known: set[str] = set()
    while known != {"made:dir", "made:dir/file"}:
        puppet, uris_now = wanted(actor)
        known = uris_now if upstream == MODERN else known | uris_now
    update(actor, puppet, "made:dir/file")
    assert heard(client, subscription) == "made:dir/file"
    assert_silent(client)
    update(actor, puppet, "made:dir/other")
    assert heard(client, subscription) == "made:dir/other"
    update(actor, puppet, "made:directory")
    assert_silent(client)


def test_a_subscription_that_is_withdrawn_before_it_is_made_is_not_made(stage: Stage) -> None:
    actor = serve(stage, NEWEST_LEGACY)
    client = stage.legacy()
    ids = [client.begin(f"resources/{verb}", uri="made:one") for verb in ("subscribe", "unsubscribe")]
    # Both are answered, in whichever order.
    answers = [client.wire.receive() for _ in ids]
    assert {answer["id"]: answer["result"] for answer in answers} == {id: {} for id in ids}
    errand, puppet, call = actor.called_by(client)
    puppet.notify(UPDATED, uri="made:one")
    errand.finish(puppet, call, "said")
    assert client.notices == []


# --- streams of modern clients


def test_a_stream_may_be_replaced_by_another_with_other_resources(stage: Stage, upstream: str) -> None:
    actor = serve(stage, upstream)
    client = stage.modern()
    old = client.subscribe("made:one")
    puppet, _ = wanted(actor)
    new = client.begin(LISTEN, notifications={"resourceSubscriptions": ["made:one", "made:two"]})
    honoured = client.next_notice(ACKNOWLEDGED)["params"]["notifications"]
    assert honoured == {"resourceSubscriptions": ["made:one", "made:two"]}
    assert "made:two" in wanted(actor)[1]
    client.cancel(old)
    assert_silent(client)
    for uri in ("made:one", "made:two"):
        update(actor, puppet, uri)
        assert heard(client, new) == uri
    assert_silent(client)


def test_each_stream_is_told_of_what_it_asked_for(stage: Stage) -> None:
    actor = serve(stage, NEWEST_LEGACY)
    client = stage.modern()
    one, two = client.subscribe("made:one"), client.subscribe("made:two")
    lists = client.begin(LISTEN, notifications={"toolsListChanged": True, "resourceSubscriptions": []})
    assert client.next_notice(ACKNOWLEDGED)["params"] == {
        "notifications": {"toolsListChanged": True},
        "_meta": {SUBSCRIPTION: lists},
    }
    puppet, _ = wanted(actor)
    for uri, subscription in (("made:two", two), ("made:one", one)):
        update(actor, puppet, uri)
        assert heard(client, subscription) == uri
    assert_silent(client)


def test_a_resource_that_nobody_has_costs_the_stream_nothing_else(stage: Stage, upstream: str) -> None:
    actor = serve(stage, upstream)
    stage.modern("first").ask("tools/list")
    client = stage.modern()
    stream = client.begin(LISTEN, notifications={"resourceSubscriptions": [7, "made:one", "made:one", None]})
    assert client.next_notice(ACKNOWLEDGED)["params"]["notifications"]["resourceSubscriptions"] == ["made:one"]
    puppet, _ = wanted(actor)
    update(actor, puppet, "made:one")
    assert heard(client, stream) == "made:one"


def test_a_legacy_client_is_told_that_nobody_has_a_resource(stage: Stage) -> None:
    actors = [stage.actor(name=name, resources=RESOURCES[:1]) for name in ("first", "second")]
    stage.start()
    client = stage.legacy()
    error = client.ask("resources/subscribe", uri="other:thing").error
    assert (error["code"], error["data"]["uri"]) == (RESOURCE_NOT_FOUND, "other:thing")
    for params in ({}, {"uri": 7}):
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert client.ask(method, **params).error["code"] == INVALID_PARAMS
    assert all(actor.told("resources/subscribe") == [] for actor in actors)


# --- modern servers


def test_a_modern_server_has_one_stream_for_resources_which_is_replaced_before_it_is_given_up(
    stage: Stage, revision: str
) -> None:
    actor = serve(stage, MODERN)
    client = stage.guest(revision)
    subscriptions = [client.subscribe(uri) for uri in ("made:one", "made:two", "made:dir")]
    while (found := wanted(actor)[1]) != {"made:one", "made:two", "made:dir"}:
        assert found < {"made:one", "made:two", "made:dir"}
    client.unsubscribe("made:two", subscriptions[1])
    assert wanted(actor)[1] == {"made:one", "made:dir"}
    assert_one_after_another(actor, 4)


def assert_one_after_another(actor: Actor, streams: int) -> None:
    """Each stream was cancelled after the next was asked for, so that there was one at all times."""
    opened = [each["id"] for each in actor.record if each.get("method") == LISTEN and not is_about_lists(each)]
    assert len(opened) == streams
    until(lambda: len(actor.told(CANCELLED)) == streams - 1, "all but the last are given up")
    story = [
        each["id"] if "id" in each else each["params"]["requestId"] for each in actor.record if is_of_streams(each)
    ]
    places = {id: [place for place, other in enumerate(story) if other == id] for id in opened}
    for former, successor in pairwise(opened):
        begun, ended = places[former]
        assert begun < places[successor][0] < ended


def is_of_streams(message: Message) -> bool:
    return message.get("method") == CANCELLED or (message.get("method") == LISTEN and not is_about_lists(message))


def is_about_lists(message: Message) -> bool:
    wish = message.get("params", {}).get("notifications", {})
    return message.get("method") == LISTEN and "resourceSubscriptions" not in wish


def test_the_former_stream_is_kept_until_the_next_is_acknowledged(stage: Stage) -> None:
    actor = serve(stage, MODERN)
    client = stage.legacy()
    client.subscribe("made:one")
    puppet, _ = wanted(actor)
    actor.silent_about = LISTEN
    client.subscribe("made:two")
    _, second = actor.next(LISTEN)
    assert_silent(client)
    assert actor.told(CANCELLED) == []
    meta = {SUBSCRIPTION: second["id"]}
    puppet.notify(ACKNOWLEDGED, notifications=second["params"]["notifications"], _meta=meta)
    actor.next(CANCELLED)


# --- ends


def test_a_server_that_dies_is_started_again_for_those_who_want_to_hear_of_it(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = serve(stage, upstream)
    client = stage.guest(revision)
    subscription = client.subscribe("made:one")
    puppet, _ = wanted(actor)
    # The second death is not forgiven at once, and forgotten all the same.
    for _ in range(2):
        puppet.close()
        successor, uris = wanted(actor)
        assert successor is not puppet
        assert uris == {"made:one"}
        puppet = successor
        update(actor, puppet, "made:one")
        assert heard(client, subscription) == "made:one"
    client.unsubscribe("made:one", subscription)
    assert_silent(client)


def test_what_was_subscribed_to_by_request_survives_the_daemon(stage: Stage, upstream: str) -> None:
    actor = serve(stage, upstream)
    client = stage.legacy(wire=stage.bridge())
    for uri in ("made:one", "made:two"):
        client.subscribe(uri)
        former, _ = wanted(actor)
    client.unsubscribe("made:two", None)
    stage.crash()
    puppet, uris = wanted(actor)
    while puppet is former:
        puppet, uris = wanted(actor)
    assert uris == {"made:one"}
    update(actor, puppet, "made:two")
    update(actor, puppet, "made:one")
    assert heard(client, None) == "made:one"


def test_what_a_stream_asked_for_survives_the_daemon(stage: Stage, upstream: str) -> None:
    actor = serve(stage, upstream)
    client = stage.modern(wire=stage.bridge())
    ended = client.subscribe("made:two")
    wanted(actor)
    client.cancel(ended)
    stream = client.subscribe("made:one")
    while "made:one" not in wanted(actor)[1]:
        pass
    stage.crash()
    puppet, uris = wanted(actor)
    assert uris == {"made:one"}
    update(actor, puppet, "made:two")
    update(actor, puppet, "made:one")
    assert heard(client, stream) == "made:one"


def test_a_collision_is_told_apart_by_the_next_daemon_too(stage: Stage, revision: str) -> None:
    actors = [stage.actor(name=name, resources=RESOURCES[:1]) for name in ("first", "second")]
    stage.start()
    client = stage.guest(revision, wire=stage.bridge())
    _, theirs = (item["uri"] for item in client.everything("resources/list", "resources"))
    subscription = client.subscribe(theirs)
    wanted(actors[1])
    stage.crash()
    puppet, uris = wanted(actors[1])
    assert uris == {"made:one"}
    assert actors[0].told("resources/subscribe") == []
    update(actors[1], puppet, "made:one")
    # Which of the two it is must not depend on which server has been started again already.
    assert heard(client, subscription) == theirs


def test_a_subscription_follows_its_client_when_its_server_is_shared_less(stage: Stage) -> None:
    actor = stage.serve(keys={"isolation": "auto"}, resources=RESOURCES)
    client = stage.legacy()
    client.subscribe("made:one")
    first, _ = wanted(actor)
    errand, puppet, call = actor.called_by(client)
    assert puppet is first
    puppet.ask("q-1", "sampling/createMessage", messages=[], maxTokens=1)
    client.next_question()
    errand.finish(puppet, call, "done")
    second, uris = wanted(actor)
    assert second is not first
    assert uris == {"made:one"}
    update(actor, second, "made:one")
    assert heard(client, None) == "made:one"

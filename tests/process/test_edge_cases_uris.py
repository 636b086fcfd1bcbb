"""Whose a URI is: listed, matched by a template, mentioned in a result, or on two servers at once."""

from typing import Any

from support.conformance.clients import UPDATED
from support.conformance.revisions import NEWEST_LEGACY
from support.puppets.stage import INVALID_PARAMS, MODERN, Actor, Client, Errand, Message, Stage

RESOURCE_NOT_FOUND = -32002

THING = {"uri": "same:thing", "name": "thing"}
ANY = {"uriTemplate": "same:{id}", "name": "any"}


def two(stage: Stage, upstream: str, **offers: Any) -> tuple[Actor, Actor]:
    """Two servers that offer the same, and a daemon in front of them."""
    first, second = (stage.actor(upstream, name, {"isolation": "shared"}, **offers) for name in ("first", "second"))
    stage.start()
    return first, second


def uris(client: Client) -> list[str]:
    return [item["uri"] for item in client.everything("resources/list", "resources")]


def read(actor: Actor, client: Client, uri: str, own: str) -> Message:
    """Read a resource that is called `own` on its server; the contents as the client sees them."""
    errand = Errand(client, method="resources/read", uri=uri)
    puppet, call = actor.next("resources/read")
    assert call["params"]["uri"] == own
    puppet.answer(call, contents=[{"uri": own, "text": actor.name}])
    (contents,) = errand.outcome().result["contents"]
    assert contents["text"] == actor.name
    return contents


def mentioned(actor: Actor, client: Client, *uris: str) -> list[str]:
    """What the client sees of URIs that a tool of that server mentions: as links, and within embedded resources."""
    errand, puppet, call = actor.called_by(client, actor.name)
    links = [{"type": "resource_link", "uri": uri, "name": "link"} for uri in uris]
    embedded = [{"type": "resource", "resource": {"uri": uri, "text": "content"}} for uri in uris]
    puppet.answer(call, content=[*links, *embedded])
    content = errand.outcome().result["content"]
    seen = [block["uri"] for block in content[: len(uris)]]
    assert seen == [block["resource"]["uri"] for block in content[len(uris) :]]
    return seen


def assert_not_found(client: Client, uri: str) -> None:
    error = client.ask("resources/read", uri=uri).error
    assert error["code"] == (INVALID_PARAMS if client.revision == MODERN else RESOURCE_NOT_FOUND)
    assert error["data"]["uri"] == uri
    assert uri in error["message"]


# --- links that were never listed


def test_a_link_is_read_from_the_server_that_gave_it(stage: Stage, revision: str, upstream: str) -> None:
    first, second = two(stage, upstream)
    client, stranger = stage.guest(revision), stage.guest(revision, "stranger")
    for actor in (first, second):
        uri = f"from:{actor.name}"
        assert mentioned(actor, client, uri) == [uri]
        assert read(actor, client, uri, uri)["uri"] == uri
        # Nobody has told the other client where that is.
        assert_not_found(stranger, uri)
    assert len(first.told("resources/read")) == len(second.told("resources/read")) == 1


def test_a_link_in_a_prompt_and_in_what_was_read_is_remembered_too(stage: Stage, revision: str) -> None:
    first, second = two(stage, NEWEST_LEGACY, prompts=[{"name": "greet"}], resources=[THING])
    client = stage.guest(revision)
    assert uris(client)[0] == "same:thing"
    errand = Errand(client, method="prompts/get", name="second__greet")
    puppet, call = second.next("prompts/get")
    link = {"type": "resource_link", "uri": "by:prompt", "name": "link"}
    puppet.answer(call, messages=[{"role": "user", "content": link}])
    assert errand.outcome().result["messages"][0]["content"]["uri"] == "by:prompt"
    read(second, client, "by:prompt", "by:prompt")
    errand = Errand(client, method="resources/read", uri="same:thing")
    puppet, call = first.next("resources/read")
    puppet.answer(call, contents=[{"uri": "same:thing/inside", "text": "part"}])
    assert errand.outcome().result["contents"][0]["uri"] == "same:thing/inside"
    read(first, client, "same:thing/inside", "same:thing/inside")


def test_a_link_that_two_servers_give_is_two(stage: Stage, revision: str) -> None:
    first, second = two(stage, NEWEST_LEGACY)
    client = stage.guest(revision)
    seen = {actor.name: mentioned(actor, client, "made:up")[0] for actor in (first, second)}
    assert seen["first"] == "made:up"
    assert seen["second"] != "made:up"
    for actor in (second, first):
        assert read(actor, client, seen[actor.name], "made:up")["uri"] == seen[actor.name]
        # It stays what it was.
        assert mentioned(actor, client, "made:up") == [seen[actor.name]]


def test_a_link_that_another_server_lists_is_not_taken_for_that_one(stage: Stage, revision: str) -> None:
    first = stage.actor(name="first", resources=[THING], resourceTemplates=[{"uriTemplate": "wide:{+x}", "name": "x"}])
    second = stage.serve(name="second")
    client = stage.guest(revision)
    assert uris(client) == ["same:thing"]
    listed, matched, free = mentioned(second, client, "same:thing", "wide:open", "second:only")
    assert free == "second:only"
    assert "same:thing" != listed != matched != "wide:open"
    read(second, client, listed, "same:thing")
    read(second, client, matched, "wide:open")
    read(first, client, "same:thing", "same:thing")
    read(first, client, "wide:open", "wide:open")


def test_the_only_server_with_resources_gets_every_uri_although_another_does_not_start(
    stage: Stage, revision: str
) -> None:
    actor = stage.actor()
    stage.add("broken", {"command": "/no/such/program"})
    stage.start()
    read(actor, stage.guest(revision), "made:up", "made:up")


def test_a_uri_of_nobody_is_not_found(stage: Stage, revision: str) -> None:
    first, second = two(stage, NEWEST_LEGACY, resources=[THING], resourceTemplates=[ANY])
    client = stage.guest(revision)
    for uri in ("other:thing", "same:thing/inside", "hearth:third:same:thing", "", "no uri at all"):
        assert_not_found(client, uri)
    assert first.told("resources/read") == second.told("resources/read") == []


def test_a_uri_that_is_no_text_is_refused(stage: Stage, revision: str) -> None:
    stage.start()
    client = stage.guest(revision)
    for uri in (None, 7, ["same:thing"]):
        assert client.ask("resources/read", uri=uri).error["code"] == INVALID_PARAMS


def test_the_only_server_s_not_found_names_the_uri_as_the_client_did(
    stage: Stage, revision: str, upstream: str
) -> None:
    actor = stage.serve(upstream)
    errand = Errand(stage.guest(revision), method="resources/read", uri="made:up")
    puppet, call = actor.next("resources/read")
    code = INVALID_PARAMS if upstream == MODERN else RESOURCE_NOT_FOUND
    puppet.refuse(call, code, "Not there.", {"uri": "made:up"})
    error = errand.outcome().error
    assert error["code"] == (INVALID_PARAMS if revision == MODERN else RESOURCE_NOT_FOUND)
    assert error["data"] == {"uri": "made:up"}


# --- collisions


def test_of_two_resources_by_one_uri_each_is_read_watched_and_mentioned_under_a_name_of_its_own(
    stage: Stage, revision: str, upstream: str
) -> None:
    actors = two(stage, upstream, resources=[THING, {"uri": "same:other", "name": "other"}])
    client = stage.guest(revision)
    listed = uris(client)
    names = {"first": "same:thing", "second": next(uri for uri in listed if uri.endswith("thing") and "second" in uri)}
    assert len(set(listed)) == 4
    assert listed[:2] == ["same:other", "same:thing"]
    for actor in actors:
        uri = names[actor.name]
        assert read(actor, client, uri, "same:thing")["uri"] == uri
        assert mentioned(actor, client, "same:thing", "own:" + actor.name) == [uri, "own:" + actor.name]
    subscriptions = {actor.name: client.subscribe(names[actor.name]) for actor in actors}
    puppets = [watched(actor, "same:thing") for actor in actors]
    for actor, puppet in zip(actors, puppets, strict=True):
        puppet.notify(UPDATED, uri="same:thing")
        assert client.next_notice(UPDATED)["params"]["uri"] == names[actor.name]
    client.unsubscribe(names["first"], subscriptions["first"])
    puppets[1].notify(UPDATED, uri="same:thing")
    assert client.next_notice(UPDATED)["params"]["uri"] == names["second"]
    assert client.notices == []


def watched(actor: Actor, uri: str) -> Any:
    """The process that was asked to tell of that resource."""
    method = "subscriptions/listen" if actor.revision == MODERN else "resources/subscribe"
    puppet, message = actor.next(method)
    while uri not in str(message["params"]):
        puppet, message = actor.next(method)
    return puppet


def test_of_two_templates_each_is_read_and_completed_under_a_name_of_its_own(
    stage: Stage, revision: str, upstream: str
) -> None:
    actors = two(stage, upstream, resourceTemplates=[ANY])
    client = stage.guest(revision)
    listed = [item["uriTemplate"] for item in client.everything("resources/templates/list", "resourceTemplates")]
    assert listed[0] == "same:{id}" and len(set(listed)) == 2
    for actor, template in zip(actors, listed, strict=True):
        uri = template.replace("{id}", "seven")
        assert read(actor, client, uri, "same:seven")["uri"] == uri
        errand = Errand(
            client,
            method="completion/complete",
            ref={"type": "ref/resource", "uri": template},
            argument={"name": "id", "value": "s"},
        )
        puppet, call = actor.next("completion/complete")
        assert call["params"]["ref"] == {"type": "ref/resource", "uri": "same:{id}"}
        puppet.answer(call, completion={"values": ["seven"]})
        assert errand.outcome().result["completion"]["values"] == ["seven"]


def test_a_completion_refers_to_a_prompt_by_the_name_that_the_client_sees(stage: Stage, revision: str) -> None:
    first, second = two(stage, NEWEST_LEGACY, prompts=[{"name": "greet"}])
    client = stage.guest(revision)
    errand = Errand(
        client,
        method="completion/complete",
        ref={"type": "ref/prompt", "name": "second__greet", "title": "kept"},
        argument={"name": "name", "value": "A"},
    )
    puppet, call = second.next("completion/complete")
    assert call["params"]["ref"] == {"type": "ref/prompt", "name": "greet", "title": "kept"}
    puppet.answer(call, completion={"values": []})
    assert errand.outcome().result["completion"] == {"values": []}
    for ref in ({"type": "ref/prompt", "name": "none"}, {"type": "ref/resource", "uri": "none:{id}"}, {}):
        assert client.ask("completion/complete", ref=ref, argument={}).error["code"] == INVALID_PARAMS
    assert first.told("completion/complete") == []


def test_a_not_found_of_a_prefixed_uri_names_it_with_its_prefix(stage: Stage, revision: str) -> None:
    _, second = two(stage, NEWEST_LEGACY, resources=[THING])
    client = stage.guest(revision)
    prefixed = uris(client)[1]
    errand = Errand(client, method="resources/read", uri=prefixed)
    puppet, call = second.next("resources/read")
    puppet.refuse(call, RESOURCE_NOT_FOUND, "Not there.", {"uri": "same:thing"})
    assert errand.outcome().error["data"]["uri"] == prefixed


def test_a_server_whose_own_uri_looks_prefixed_is_not_taken_for_another(stage: Stage, revision: str) -> None:
    first = stage.actor(name="first", resources=[THING])
    second = stage.serve(name="second", resources=[{"uri": "hearth:first:same:thing", "name": "trap"}])
    client = stage.guest(revision)
    listed = uris(client)
    assert listed[0] == "same:thing"
    assert listed[1] != "hearth:first:same:thing"
    read(second, client, listed[1], "hearth:first:same:thing")
    read(first, client, "hearth:first:same:thing", "same:thing")


# --- pages of apps


def test_of_two_servers_with_the_same_page_each_tool_s_page_is_read_from_its_own(
    stage: Stage, revision: str, upstream: str
) -> None:
    own = "ui://app/main.html"
    tool = {"name": "act", "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": own}}}
    actors = two(stage, upstream, tools=[tool], resources=[{"uri": own, "name": "page"}])
    client = stage.guest(revision)
    pages = [item["_meta"]["ui"]["resourceUri"] for item in client.everything("tools/list", "tools")]
    assert pages == uris(client) == [own, "ui://second/hearth/app/main.html"]
    for actor, page in zip(actors, pages, strict=True):
        assert read(actor, client, page, own)["uri"] == page
        errand, puppet, call = actor.called_by(client, actor.name)
        info = {"io.modelcontextprotocol/serverInfo": {"name": "p", "version": "1"}} if upstream == MODERN else {}
        puppet.answer(call, content=[], _meta={**info, "ui": {"resourceUri": own}})
        assert errand.outcome().result["_meta"]["ui"]["resourceUri"] == page

"""What a client sees: order, names, URIs and whose they are, eras and revisions, and when it counts as changed."""

from typing import Any

import pytest

from hearth.hub.catalog import Catalog, View, list_result
from hearth.mcp import capabilities, versions
from hearth.mcp.catalog import KINDS, PROMPTS, RESOURCES, TEMPLATES, TOOLS, Item, ListKind, ServerCatalog
from hearth.upstreams.server import Server
from hearth.wire import json
from unit.hub.stage import client, offering, server

NO_LINKS: dict[str, str] = {}


def view(*offerings: tuple[Server, ServerCatalog], alone: bool = False) -> View:
    return View(offerings, alone)


def offers(name: str, declared: bytes | None = None, **lists: list[object]) -> tuple[Server, ServerCatalog]:
    keys = {} if declared is None else {"declared": declared}
    return server(name), offering(name, **keys, **lists)  # type: ignore[arg-type]


def rendered(
    found: View, kind: ListKind, era: str = versions.LEGACY, version: str = "2025-11-25"
) -> list[dict[str, Any]]:
    return json.loads(found.render(kind, era, version))


def names(found: View, kind: ListKind) -> list[str]:
    return [shown[kind.key] for shown in rendered(found, kind)]


# --- names


@pytest.mark.parametrize("kind", [TOOLS, PROMPTS])
def test_servers_come_in_the_config_s_order_and_what_they_have_by_name(kind: ListKind) -> None:
    found = view(offers("b", **{kind.member: ["z", "a"]}), offers("a", **{kind.member: ["x"]}), offers("c"))
    assert names(found, kind) == ["b__a", "b__z", "a__x"]


@pytest.mark.parametrize("kind", [TOOLS, PROMPTS])
def test_one_server_alone_is_seen_under_its_own_names(kind: ListKind) -> None:
    assert names(view(offers("b", **{kind.member: ["z", "a__x"]}), alone=True), kind) == ["a__x", "z"]


@pytest.mark.parametrize("kind", [TOOLS, PROMPTS])
def test_two_never_meet_under_one_name_and_the_first_keeps_it(kind: ListKind) -> None:
    found = view(offers("a", **{kind.member: ["b__c"]}), offers("a__b", **{kind.member: ["c"]}))
    first, second = names(found, kind)
    assert first == "a__b__c"
    assert second.startswith("a__b__c_")
    assert [found.offers[kind][name].server.name for name in (first, second)] == ["a", "a__b"]


def test_a_request_goes_to_the_server_under_its_own_name_written_as_the_server_writes_it() -> None:
    owner, offered = offers("s")
    offered.take(TOOLS, [Item(TOOLS, "s", json.split(rb'{"name":"\u0074\u00e4"}'))])
    (offer,) = view((owner, offered)).tools.values()
    assert offer.target.server is owner
    assert {key: bytes(value) for key, value in offer.target.changes.items()} == {"name": rb'"\u0074\u00e4"'}


@pytest.mark.parametrize(
    ("annotations", "unrepeatable"), [({"readOnlyHint": True}, None), ({"idempotentHint": True}, None), ({}, "t")]
)
def test_only_what_a_tool_says_makes_it_fit_to_run_twice(annotations: object, unrepeatable: str | None) -> None:
    found = view(offers("s", tools=[{"name": "t", "annotations": annotations}]))
    assert found.tools["s__t"].target.unrepeatable == unrepeatable


def test_prompts_may_always_be_asked_for_twice() -> None:
    assert view(offers("s", prompts=["p"])).offers[PROMPTS]["s__p"].target.unrepeatable is None


# --- URIs


@pytest.mark.parametrize("kind", [RESOURCES, TEMPLATES])
@pytest.mark.parametrize("alone", [True, False])
def test_uris_stay_as_they_are(kind: ListKind, alone: bool) -> None:
    assert names(view(offers("s", **{kind.member: ["file:///a"]}), alone=alone), kind) == ["file:///a"]


@pytest.mark.parametrize("kind", [RESOURCES, TEMPLATES])
def test_of_two_equal_uris_the_first_server_keeps_it_and_the_other_s_is_prefixed(kind: ListKind) -> None:
    found = view(offers("a", **{kind.member: ["r:1"]}), offers("b", **{kind.member: ["r:1", "r:2"]}))
    assert names(found, kind) == ["r:1", "hearth:b:r:1", "r:2"]
    offer = found.offers[kind]["hearth:b:r:1"]
    assert (offer.server.name, offer.item.name) == ("b", "r:1")


def test_a_server_cannot_pass_its_uri_off_as_another_s_prefixed_one() -> None:
    found = view(
        offers("a", resources=["hearth:b:r:1"]), offers("b", resources=["r:1"]), offers("c", resources=["r:1"])
    )
    assert names(found, RESOURCES) == ["hearth:a:hearth:b:r:1", "r:1", "hearth:c:r:1"]
    assert located(found, "hearth:b:r:1") == ("b", "r:1")
    assert located(found, "hearth:a:hearth:b:r:1") == ("a", "hearth:b:r:1")


def located(found: View, uri: str, links: dict[str, str] = NO_LINKS) -> tuple[str, str] | None:
    place = found.locate(uri, links, settled=True)
    return (place[0].name, place[1]) if place else None


def test_a_uri_is_the_server_s_that_lists_it_before_anything_else() -> None:
    found = view(
        offers("a", resourceTemplates=["r:{n}"]),
        offers("b", resources=["r:1"]),
        offers("c", resources=["hearth:a:r:1"]),
    )
    assert located(found, "r:1", {"r:1": "a"}) == ("b", "r:1")


def test_a_prefixed_uri_is_the_named_server_s_before_any_template() -> None:
    found = view(offers("a", resourceTemplates=["hearth:{+any}"]), offers("b"))
    assert located(found, "hearth:b:x:1") == ("b", "x:1")
    assert located(found, "hearth:nobody:x:1") == ("a", "hearth:nobody:x:1")


def test_a_uri_of_a_template_is_that_server_s_before_whoever_mentioned_it() -> None:
    found = view(offers("a"), offers("b", resourceTemplates=["r:{n}"]), offers("c", resourceTemplates=["r:{n}"]))
    assert located(found, "r:9", {"r:9": "a"}) == ("b", "r:9")


def test_a_template_that_is_shown_prefixed_is_expanded_to_uris_of_its_own_server() -> None:
    found = view(offers("a", resourceTemplates=["r:{n}"]), offers("b", resourceTemplates=["r:{n}"]))
    assert names(found, TEMPLATES) == ["r:{n}", "hearth:b:r:{n}"]
    assert located(found, "hearth:b:r:9") == ("b", "r:9")


def test_a_uri_that_a_result_mentioned_is_that_server_s() -> None:
    found = view(offers("a"), offers("b"))
    assert located(found, "x:1", {"x:1": "b"}) == ("b", "x:1")
    assert located(found, "x:1", {"x:1": "gone"}) is None


def test_any_other_uri_is_the_only_server_s_that_has_resources_or_nobody_s() -> None:
    tools_only = b'{"tools":{}}'
    assert located(view(offers("a", tools_only), offers("b")), "x:1") == ("b", "x:1")
    assert located(view(offers("a"), offers("b")), "x:1") is None
    assert located(view(offers("a", tools_only)), "x:1") is None


def test_nobody_is_the_only_one_while_others_may_still_turn_up() -> None:
    assert view(offers("a")).locate("x:1", NO_LINKS, settled=False) is None


def test_a_server_that_declares_nothing_at_all_may_have_resources() -> None:
    assert located(view(offers("a", b"{}")), "x:1") == ("a", "x:1")


def test_a_completion_s_template_is_found_by_the_name_that_the_client_sees() -> None:
    found = view(
        offers("a", resourceTemplates=["r:{n}"]), offers("b", resourceTemplates=["r:{n}"], resources=["plain:1"])
    )
    places = [found.locate_template(name) for name in ("r:{n}", "hearth:b:r:{n}", "plain:1", "other:{n}")]
    shown = [(place[0].name, place[1]) if place else None for place in places]
    assert shown == [("a", "r:{n}"), ("b", "r:{n}"), ("b", "plain:1"), None]


# --- URIs in what servers say


def test_a_server_s_uri_is_prefixed_where_the_client_would_take_it_for_another_s() -> None:
    found = view(
        offers("a", resources=["r:1"], resourceTemplates=["t:{n}"]), offers("b", resources=["r:1", "hearth:a:r:1"])
    )
    first, second = (of for of, _ in found.offerings)

    def exposed(of: Server, uri: str, links: dict[str, str] = NO_LINKS) -> str:
        return found.expose(of, uri, links)

    assert [exposed(first, uri) for uri in ("r:1", "t:1", "x:1")] == ["r:1", "t:1", "x:1"]
    assert exposed(second, "r:1") == "hearth:b:r:1"
    # Neither listed by it nor by anybody: but it would be read from the template's owner.
    assert exposed(second, "t:1") == "hearth:b:t:1"
    assert exposed(second, "hearth:a:r:1") == "hearth:b:hearth:a:r:1"
    assert exposed(second, "x:1", {"x:1": "a"}) == "hearth:b:x:1"
    assert exposed(second, "x:1", {"x:1": "b"}) == exposed(second, "x:1") == "x:1"


def test_links_are_shown_as_the_client_can_read_them_and_remembered() -> None:
    found = view(offers("a", resources=["r:1"]), offers("b", resources=["r:1"]))
    (first, _), (second, _) = found.offerings
    member, _ = client()
    result = {"content": [{"type": "resource_link", "name": "n", "uri": uri} for uri in ("r:1", "new:1")]}
    shown = json.loads(found.with_links(member, second, json.dumps(result)))
    assert [block["uri"] for block in shown["content"]] == ["hearth:b:r:1", "new:1"]
    assert [located(found, block["uri"], member.links) for block in shown["content"]] == [("b", "r:1"), ("b", "new:1")]
    # The same, mentioned by the other: the first that mentioned it keeps it.
    again = json.loads(found.with_links(member, first, json.dumps(result)))
    assert [block["uri"] for block in again["content"]] == ["r:1", "hearth:a:new:1"]
    assert located(found, "new:1", member.links) == ("b", "new:1")
    assert located(found, "hearth:a:new:1", member.links) == ("a", "new:1")


def test_results_are_looked_at_for_uris_only_where_several_servers_have_resources() -> None:
    assert view(offers("a"), offers("b", b'{"tools":{}}')).looks_at_links is False
    assert view(offers("a"), offers("b")).looks_at_links is True
    # Another may turn up before the client comes back with it.
    assert View([offers("a")], alone=False, complete=False).looks_at_links is True


# --- eras and revisions


def test_a_list_has_what_its_era_wants() -> None:
    found = view(offers("s", tools=["t"]))
    items = found.render(TOOLS, versions.LEGACY, "2025-11-25")
    legacy = json.loads(list_result(TOOLS, items, versions.LEGACY, b"{}"))
    items = found.render(TOOLS, versions.MODERN, versions.NEWEST_MODERN)
    modern = json.loads(list_result(TOOLS, items, versions.MODERN, b'{"name":"hearth"}'))
    assert set(legacy) == {"tools"}
    assert (modern["resultType"], modern["ttlMs"], modern["cacheScope"]) == ("complete", 0, "private")
    assert modern["_meta"] == {versions.SERVER_INFO_KEY: {"name": "hearth"}}
    assert [tool["name"] for tool in modern["tools"]] == [tool["name"] for tool in legacy["tools"]] == ["s__t"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_list_is_under_its_own_name(kind: ListKind) -> None:
    items = view(offers("s", **{kind.member: ["x"]})).render(kind, versions.LEGACY, "2025-11-25")
    assert set(json.loads(list_result(kind, items, versions.LEGACY, b"{}"))) == {kind.member}


@pytest.mark.parametrize(
    ("era", "version", "objects", "arrays"),
    [
        (versions.LEGACY, "2025-03-26", False, False),
        (versions.LEGACY, "2025-06-18", True, False),
        (versions.MODERN, versions.NEWEST_MODERN, True, True),
    ],
)
def test_a_tool_is_shown_as_the_revision_can_take_it(era: str, version: str, objects: bool, arrays: bool) -> None:
    tools = [{"name": kind, "inputSchema": {}, "outputSchema": {"type": kind}} for kind in ("object", "array")]
    found = view(offers("s", tools=tools))  # type: ignore[arg-type]
    # Twice: what was rendered for one revision is not given to another.
    for _ in range(2):
        shown = {tool["name"]: "outputSchema" in tool for tool in rendered(found, TOOLS, era, version)}
        assert shown == {"s__object": objects, "s__array": arrays}
        rendered(found, TOOLS, versions.MODERN, versions.NEWEST_MODERN)


def test_a_definition_that_nobody_has_to_change_goes_through_byte_for_byte() -> None:
    owner, offered = offers("s")
    raw = rb'{"uri":"r:1","name":"\ud800","size":123456789012345678901,"later":[1, 2]}'
    offered.take(RESOURCES, [Item(RESOURCES, "s", json.split(raw))])
    assert view((owner, offered)).render(RESOURCES, versions.LEGACY, "2025-11-25") == b"[%b]" % raw


# --- when it counts as changed


def test_the_content_of_each_list_tells_whether_a_client_could_see_a_difference() -> None:
    def content(**lists: list[object]) -> dict[ListKind, int]:
        return view(offers("s", **lists)).content

    before = content(tools=["t"], prompts=["p"])
    assert content(tools=["t"], prompts=["p"]) == before
    after = content(tools=[{"name": "t", "description": "other"}], prompts=["p"])
    assert [kind for kind in KINDS if after[kind] != before[kind]] == [TOOLS]


class Place:
    """A catalogue over servers that have said what they offer, or not."""

    def __init__(self, *names: str, **keys: object) -> None:
        self.servers = [server(name, **keys) for name in names]  # type: ignore[arg-type]
        self.catalogue = Catalog(lambda: self.servers)

    def know(self, number: int, profile: bytes = capabilities.FULL, **lists: list[object]) -> None:
        of = self.servers[number]
        of.catalogs.known[profile] = offering(of.name, **lists)
        self.catalogue.changed()


def test_clients_of_the_same_servers_share_a_view_until_something_changes() -> None:
    place = Place("a", "b")
    place.know(0, tools=["x"])
    (first, _), (second, _) = client(), client()
    found = place.catalogue.view(first)
    assert found is place.catalogue.view(first) is place.catalogue.view(second)
    assert list(found.tools) == ["a__x"]
    place.know(1, tools=["y"])
    assert list(place.catalogue.view(first).tools) == ["a__x", "b__y"]


def test_a_client_of_one_server_sees_that_one_and_waits_for_that_one() -> None:
    place = Place("a", "b")
    place.know(0, tools=["x"])
    member, _ = client()
    member.server = "b"
    assert [of.name for of in place.catalogue.in_view(member)] == ["b"]
    assert [of.name for of in place.catalogue.unknown(member)] == ["b"]
    assert place.catalogue.view(member).tools == {}
    place.know(1, tools=["y"])
    assert list(place.catalogue.view(member).tools) == ["y"]
    assert place.catalogue.unknown(member) == []


def test_clients_of_the_same_offerings_share_no_view_if_one_sees_a_server_alone() -> None:
    place = Place("a")
    place.know(0, tools=["x"])
    (alone, _), (other, _) = client(), client()
    alone.server = "a"
    assert [list(place.catalogue.view(member).tools) for member in (alone, other)] == [["x"], ["a__x"]]


def test_where_each_client_has_its_own_instance_it_sees_what_its_own_capabilities_bring() -> None:
    place = Place("a", isolation="session")
    place.know(0, b"{}", tools=["x"])
    place.know(0, b'{"roots":{}}', tools=["x", "y"])
    (plain, _), (rich, _) = client(), client(declared=b'{"roots":{}}')
    (other, _) = client(declared=b'{"sampling":{}}')
    assert [list(place.catalogue.view(member).tools) for member in (plain, rich)] == [["a__x"], ["a__x", "a__y"]]
    # Nothing is known for such a client: somebody else's will do until it is.
    assert list(place.catalogue.view(other).tools) == ["a__x"]
    assert [len(place.catalogue.unknown(member)) for member in (plain, rich, other)] == [0, 0, 1]


def test_clients_that_see_the_same_lists_share_no_view_if_something_is_withheld_from_one() -> None:
    place = Place("a", isolation="session")
    place.know(0, b"{}", tools=["x", "y"])
    place.know(0, b'{"roots":{}}', tools=["x"])
    place.servers[0].withheld = lambda offered: frozenset({"y"} & offered.lists[TOOLS].keys())  # type: ignore[method-assign]
    (first, _), (second, _) = client(), client(declared=b'{"roots":{}}')
    found = [place.catalogue.view(member) for member in (first, second)]
    assert [list(each.tools) for each in found] == [["a__x"], ["a__x"]]
    assert [dict(each.withheld) for each in found] == [{"a__y": ("a", "y", False)}, {}]


def test_as_long_as_a_server_may_still_have_resources_results_are_looked_at_for_uris() -> None:
    place = Place("a", "b")
    member, _ = client()
    place.know(0, resources=["r:1"])
    assert place.catalogue.view(member).looks_at_links is True
    place.servers[1].catalogs.known[capabilities.FULL] = offering("b", declared=b'{"tools":{}}')
    place.catalogue.changed()
    assert place.catalogue.view(member).looks_at_links is False


# --- pages of apps


def app_tool(name: str, uri: str) -> dict[str, object]:
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": {"ui": {"resourceUri": uri}}}


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
def test_a_page_that_tools_of_two_servers_name_is_two_and_each_is_found(era: str) -> None:
    first, second = (offers(name, tools=[app_tool("t", "ui://app/main")]) for name in ("a", "b"))
    found = view(first, second)
    version = versions.NEWEST_MODERN if era == versions.MODERN else "2025-11-25"
    pages = [shown["_meta"]["ui"]["resourceUri"] for shown in rendered(found, TOOLS, era, version)]
    assert pages == ["ui://app/main", "ui://b/hearth/app/main"]
    assert found.locate(pages[0], NO_LINKS, True) == (first[0], "ui://app/main")
    assert found.locate(pages[1], NO_LINKS, True) == (second[0], "ui://app/main")


def test_a_tool_names_its_page_as_the_list_of_resources_does() -> None:
    page = {"uri": "ui://app/main", "name": "page"}
    found = view(*(offers(name, tools=[app_tool("t", "ui://app/main")], resources=[page]) for name in ("a", "b")))
    pages = [shown["_meta"]["ui"]["resourceUri"] for shown in rendered(found, TOOLS)]
    assert pages == names(found, RESOURCES) == ["ui://app/main", "ui://b/hearth/app/main"]


def test_of_one_server_alone_pages_stay_as_they_are() -> None:
    found = view(offers("b", tools=[app_tool("t", "ui://app/main")]), alone=True)
    assert rendered(found, TOOLS)[0]["_meta"] == {"ui": {"resourceUri": "ui://app/main"}}


@pytest.mark.parametrize(
    ("called", "has_it"),
    [
        ("self-id__set_title", True),
        ("self_id__set_title", True),
        ("self_id__set_titles", False),
        ("self_id__set-title", True),
        # Codex cuts a long name, of which `mcp__hearth__` is the beginning, and adds a hash.
        ("self_id__ab" + "0123456789" * 4, True),
        ("self_id__" + "ab" * 14 + "_0123456789ab", True),
        ("self_id__" + "cd" * 14 + "_0123456789ab", False),
        ("self_id__set_0123456789ab", False),
    ],
)
def test_a_tool_is_found_by_its_name_as_a_client_writes_it(called: str, has_it: bool) -> None:
    place = Place("self-id")
    place.know(0, tools=["set_title", "ab" * 30])
    session, _ = client()
    assert place.catalogue.has_tool(session, called) == has_it

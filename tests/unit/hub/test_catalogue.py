"""The merged list of tools: order, names, eras, and when it counts as changed."""

import pytest

from hearth.config import Config, ServerSpec
from hearth.hub.catalogue import Catalogue
from hearth.mcp import eras
from hearth.mcp.tools import Tool
from hearth.upstreams.upstream import Upstream
from hearth.wire import json


def upstream(name: str, *tools: str, known: bool = True) -> Upstream:
    found = Upstream(ServerSpec(name=name, command="true"), Config(), lambda: None)
    if known:
        found.tools = [Tool(name, json.split(b'{"name":%b}' % json.dumps(tool))) for tool in tools]
    return found


def names(catalogue: Catalogue, server: str | None = None, era: str = eras.LEGACY) -> list[str]:
    return [tool["name"] for tool in json.loads(catalogue.render(era, server))]


@pytest.fixture
def catalogue() -> Catalogue:
    found = Catalogue()
    found.rebuild([upstream("b", "z", "a"), upstream("a", "x"), upstream("c", known=False)])
    return found


def test_servers_come_in_the_config_s_order_and_their_tools_by_name(catalogue: Catalogue) -> None:
    assert names(catalogue) == ["b__a", "b__z", "a__x"]


def test_one_server_s_tools_come_under_their_own_names(catalogue: Catalogue) -> None:
    assert names(catalogue, "b") == ["a", "z"]
    assert names(catalogue, "c") == names(catalogue, "unknown") == []


def test_a_tool_is_found_by_the_name_that_its_client_sees(catalogue: Catalogue) -> None:
    offer = catalogue.find(None, "b__z")
    assert offer
    assert (offer.upstream.name, offer.tool.name) == ("b", "z")
    assert catalogue.find("b", "z") == offer
    assert catalogue.find(None, "z") is catalogue.find("a", "z") is catalogue.find("d", "z") is None


def test_two_tools_never_meet_under_one_name_and_the_first_keeps_it() -> None:
    catalogue = Catalogue()
    catalogue.rebuild([upstream("a", "b__c"), upstream("a__b", "c")])
    first, second = names(catalogue)
    assert first == "a__b__c"
    assert second != first
    assert [catalogue.find(None, name).upstream.name for name in (first, second)] == ["a", "a__b"]  # type: ignore[union-attr]


def test_the_version_grows_only_with_a_difference_that_a_client_can_see(catalogue: Catalogue) -> None:
    before = catalogue.version
    same = [upstream("b", "a", "z"), upstream("a", "x"), upstream("c")]
    assert catalogue.rebuild(same) is False
    assert catalogue.version == before
    assert catalogue.rebuild([*same[:2], upstream("c", "new")]) is True
    assert catalogue.version == before + 1


def test_a_changed_definition_counts_although_the_name_is_the_same() -> None:
    catalogue, server = Catalogue(), upstream("s", "t")
    catalogue.rebuild([server])
    server.tools = [Tool("s", json.split(b'{"name":"t","description":"other"}'))]
    assert catalogue.rebuild([server]) is True


def test_the_result_has_what_its_era_wants(catalogue: Catalogue) -> None:
    legacy = json.loads(catalogue.list_result(eras.LEGACY, None, b"{}"))
    modern = json.loads(catalogue.list_result(eras.MODERN, None, b'{"name":"hearth"}'))
    assert set(legacy) == {"tools"}
    assert (modern["resultType"], modern["ttlMs"], modern["cacheScope"]) == ("complete", 0, "private")
    assert modern["_meta"] == {eras.SERVER_INFO_KEY: {"name": "hearth"}}
    assert modern["tools"] == legacy["tools"]

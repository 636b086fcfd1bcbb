"""The tools of some servers for a person to look at."""

from typing import Any

from hearth.mcp.catalog import ServerCatalog
from hearth.mcp.search.tool_listing import document, merged
from hearth.wire import json
from unit.hub.stage import offering


def offered(server: str, *names: str) -> tuple[str, ServerCatalog]:
    tools: list[object] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return server, offering(server, tools=tools)


def listed(*offerings: tuple[str, ServerCatalog | None], **wanted: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(document(offerings, **wanted))
    return found


def names(found: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in found["tools"]]


def test_all_are_listed_in_the_order_of_the_config_under_the_names_that_clients_see() -> None:
    found = listed(offered("b", "y", "x"), offered("a", "z"))
    assert names(found) == ["b__x", "b__y", "a__z"]
    assert found["tools"][0] == {
        "name": "b__x", "server": "b", "tool": "x", "definition": {"name": "x", "inputSchema": {"type": "object"}}
    }  # fmt: skip
    assert (found["fitting"], found["unknown"]) == (3, [])


def test_names_that_meet_are_told_apart() -> None:
    found = merged([offered("a", "b__c"), offered("a__b", "c")])
    assert found[0].exposed == "a__b__c" != found[1].exposed


def test_those_that_fit_a_query_come_best_first_and_are_counted() -> None:
    found = listed(offered("a", "read_file", "write_file", "other"), query="write a file", limit=1)
    assert (names(found), found["fitting"]) == (["a__write_file"], 2)


def test_a_limit_holds_without_a_query_too() -> None:
    found = listed(offered("a", "x", "y", "z"), limit=2)
    assert (names(found), found["fitting"]) == (["a__x", "a__y"], 3)


def test_of_one_server_only_its_own_are_found_under_the_same_names() -> None:
    found = listed(offered("a", "read"), offered("b", "read"), ("c", None), query="read", server="b")
    assert (names(found), found["fitting"], found["unknown"]) == (["b__read"], 1, [])


def test_servers_of_which_nothing_is_known_are_named() -> None:
    assert listed(offered("a", "x"), ("b", None), ("c", None))["unknown"] == ["b", "c"]
    assert listed(("b", None), ("c", None), server="c")["unknown"] == ["c"]

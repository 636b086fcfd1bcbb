"""Definitions on servers' lists: kept as they came, understood only where Hearth decides by them.

Names of tools as clients see them: short, plain, stable, and never two under one.
"""

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.errors import MessageError
from hearth.mcp import catalog, versions
from hearth.mcp.catalog import (
    CHANGES,
    KINDS,
    PROMPTS,
    RESOURCES,
    SLICE_ENTRIES,
    TEMPLATES,
    TOOLS,
    Item,
    ListKind,
    ListLimits,
    ListReader,
    ServerCatalog,
    exposed_name,
)
from hearth.wire import json


def tool(definition: bytes, server: str = "s") -> Item:
    return Item(TOOLS, server, json.split(definition))


def offering(capabilities: bytes = b"{}") -> ServerCatalog:
    return ServerCatalog(versions.LEGACY, "2025-11-25", json.split(capabilities), None)


# --- items


@pytest.mark.parametrize("kind", KINDS)
def test_a_definition_is_rendered_under_its_exposed_or_its_own_name_and_otherwise_untouched(kind: ListKind) -> None:
    definition = rb'{"%b":"t","title":"\ud800","inputSchema":{"x":123456789012345678901},"later":[1, 2]}'
    definition = definition.replace(b"%b", kind.key.encode())
    found = Item(kind, "s", json.split(definition))
    assert json.join(found.render()) == json.join(found.render("t")) == definition
    assert json.join(found.render("s__t")) == definition.replace(b'"t"', b'"s__t"')


def test_a_definition_that_was_rendered_can_be_changed_without_changing_the_item() -> None:
    found = tool(b'{"name":"t"}')
    found.render()["name"] = b'"other"'
    assert found.render() == {"name": b'"t"'}


def test_what_is_kept_of_a_page_does_not_hold_the_page() -> None:
    found = tool(b'{"name":"t","description":"d"}')
    assert all(type(value) is bytes for value in (*found.definition.values(), found.wire_name))


@pytest.mark.parametrize(
    ("annotations", "safe"),
    [
        (b'{"readOnlyHint":true}', True),
        (b'{"idempotentHint":true}', True),
        (b'{"readOnlyHint":false,"idempotentHint":true}', True),
        (b'{"readOnlyHint":"true"}', False),
        (b'{"readOnlyHint":1}', False),
        (b'{"destructiveHint":false}', False),
        (b"null", False),
        (b"[]", False),
    ],
)
def test_a_tool_is_safe_to_repeat_only_if_it_says_so(annotations: bytes, safe: bool) -> None:
    assert tool(b'{"name":"t","annotations":%b}' % annotations).safe_to_repeat is safe


@pytest.mark.parametrize("kind", [PROMPTS, RESOURCES, TEMPLATES])
def test_whatever_is_no_tool_is_safe_to_repeat(kind: ListKind) -> None:
    assert Item(kind, "s", json.split(json.dumps({kind.key: "x"}))).safe_to_repeat is True


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_without_what_it_is_addressed_by_is_refused(kind: ListKind) -> None:
    with pytest.raises(ValueError, match=f"without a {kind.key}"):
        Item(kind, "s", json.split(b'{"title":"x"}'))


# --- pages


def from_page(kind: ListKind, server: str, result: bytes) -> tuple[list[Item], bytes | None]:
    reader = ListReader(kind, server, ListLimits())
    list(reader.receive_page(result))
    return reader.items, reader.cursor


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_gives_its_items_and_the_raw_cursor(kind: ListKind) -> None:
    page = b'{"%b":[{"%b":"a"},{"%b":"b"}],"nextCursor":"\\u0041"}'
    found, cursor = from_page(kind, "s", page % (kind.member.encode(), kind.key.encode(), kind.key.encode()))
    assert [(item.name, item.kind, item.server) for item in found] == [("a", kind, "s"), ("b", kind, "s")]
    assert cursor == rb'"\u0041"'


@pytest.mark.parametrize("rest", [b"", b',"nextCursor":null'])
def test_the_last_page_has_no_cursor(rest: bytes) -> None:
    assert from_page(TOOLS, "s", b'{"tools":[]%b}' % rest) == ([], None)


def test_an_empty_cursor_is_a_cursor() -> None:
    assert from_page(TOOLS, "s", b'{"tools":[],"nextCursor":""}')[1] == b'""'


def test_nameless_tools_and_those_that_only_run_as_tasks_are_left_out() -> None:
    found, _ = from_page(
        TOOLS,
        "s",
        b'{"tools":[{},{"name":7},7,{"name":"task","execution":{"taskSupport":"required"}},'
        b'{"name":"may","execution":{"taskSupport":"optional"}}]}',
    )
    assert [item.name for item in found] == ["may"]


@pytest.mark.parametrize("result", [b"[]", b"7", b'{"tools":{}}', b'{"tools":7}'])
def test_what_is_no_list_is_an_error_and_not_an_empty_list(result: bytes) -> None:
    with pytest.raises(MessageError):
        from_page(TOOLS, "s", result)


def tool_page(*names: str) -> bytes:
    return b'{"tools":[%b],"nextCursor":"c"}' % b",".join(b'{"name":"%b"}' % name.encode() for name in names)


def test_entries_over_the_limit_are_not_kept_and_count_over_all_pages() -> None:
    reader = ListReader(TOOLS, "s", ListLimits(entries=3))
    for names in (("a", "b"), ("c", "d"), ("e",)):
        list(reader.receive_page(tool_page(*names)))
    assert [item.name for item in reader.items] == ["a", "b", "c"]
    assert reader.reached == "3 entries (list_entries)"


def test_bytes_over_the_limit_are_not_kept_and_count_over_all_pages() -> None:
    reader = ListReader(TOOLS, "s", ListLimits(bytes=3 * len('{"name":"a"}')))
    for names in (("a", "b"), ("c", "d")):
        list(reader.receive_page(tool_page(*names)))
    assert [item.name for item in reader.items] == ["a", "b", "c"]
    assert reader.reached == "36 bytes (list_limit)"


def test_a_list_that_just_fits_is_not_cut() -> None:
    reader = ListReader(TOOLS, "s", ListLimits(bytes=3 * len('{"name":"a"}'), entries=3))
    list(reader.receive_page(tool_page("a", "b", "c")))
    assert (len(reader.items), reader.reached) == (3, None)


def test_what_is_no_tool_counts_as_an_entry() -> None:
    reader = ListReader(TOOLS, "s", ListLimits(entries=3))
    list(reader.receive_page(b'{"tools":[0,0,0,{"name":"a"}]}'))
    assert (reader.items, reader.reached) == ([], "3 entries (list_entries)")


def test_a_page_is_read_in_slices() -> None:
    reader = ListReader(TOOLS, "s", ListLimits())
    seen = [len(reader.items) for _ in reader.receive_page(tool_page(*(f"t{n}" for n in range(5 * SLICE_ENTRIES))))]
    assert seen == [SLICE_ENTRIES * number for number in range(1, 6)]


def test_a_page_of_countless_elements_is_not_read_beyond_the_limit() -> None:
    page = b'{"tools":[%b0]}' % (b"0," * 1_000_000)
    reader = ListReader(TOOLS, "s", ListLimits())
    tracemalloc.start()
    try:
        list(reader.receive_page(page))
        # Each of the elements would take 56 bytes, and 8 for its place in a list.
        assert tracemalloc.get_traced_memory()[1] < 20 * len(page)
    finally:
        tracemalloc.stop()


# --- offerings


def test_a_list_is_in_the_order_of_names_and_the_first_of_a_name_counts() -> None:
    found = offering()
    found.take(TOOLS, [tool(b'{"name":"b"}'), tool(b'{"name":"a","title":"first"}'), tool(b'{"name":"a","title":"2"}')])
    assert found.lists[TOOLS]["a"].definition == {"name": b'"a"', "title": b'"first"'}
    assert list(found.lists[TOOLS]) == ["a", "b"]
    assert found.lists[PROMPTS] == {}
    found.take(TOOLS, [tool(b'{"name":"c"}')])
    assert list(found.lists[TOOLS]) == ["c"]


@pytest.mark.parametrize(
    ("capabilities", "has_tools", "announces"),
    [
        (b'{"tools":{"listChanged":true}}', True, True),
        (b'{"tools":{}}', True, False),
        (b'{"tools":{"listChanged":"yes"}}', True, False),
        (b'{"prompts":{}}', False, False),
        # Decided by an error, or a server that says nothing of itself: asking costs nothing, not asking may.
        (b"{}", True, True),
    ],
)
def test_a_list_is_asked_for_unless_the_server_says_that_it_has_none(
    capabilities: bytes, has_tools: bool, announces: bool
) -> None:
    found = offering(capabilities)
    assert (found.has(TOOLS.capability), found.announces(TOOLS)) == (has_tools, announces)


def test_templates_come_with_the_resources() -> None:
    found = offering(b'{"resources":{"listChanged":true}}')
    assert found.has(TEMPLATES.capability)
    assert found.announces(TEMPLATES)
    assert CHANGES["notifications/resources/list_changed"] == (RESOURCES, TEMPLATES)
    # A list whose notice nobody knows would never be fetched again.
    assert {kind for kinds in CHANGES.values() for kind in kinds} == set(KINDS)
    assert {name: kinds[0].listen for name, kinds in CHANGES.items()} == {
        "notifications/tools/list_changed": "toolsListChanged",
        "notifications/prompts/list_changed": "promptsListChanged",
        "notifications/resources/list_changed": "resourcesListChanged",
    }


# --- names


def test_an_exposed_name_that_is_taken_gets_a_hash() -> None:
    assert exposed_name(tool(b'{"name":"b__c"}', "a"), ()) == "a__b__c"
    other = exposed_name(tool(b'{"name":"c"}', "a__b"), {"a__b__c"})
    assert other.startswith("a__b__c_")
    assert other == exposed_name(tool(b'{"name":"c"}', "a__b"), {"a__b__c", "x"})


PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_a_plain_name_is_joined_and_left_alone() -> None:
    assert catalog.prefixed_name("git", "git_log") == "git__git_log"


@pytest.mark.parametrize("tool", ["a.b", "a b", "a/b", "é", "", "\ud800"])
def test_what_clients_refuse_is_replaced_and_gets_a_hash_of_the_original(tool: str) -> None:
    name = catalog.prefixed_name("server!", tool)
    assert PLAIN.fullmatch(name)
    assert name.startswith("server___")
    assert name == catalog.prefixed_name("server!", tool)


def test_a_name_of_exactly_the_limit_is_left_alone_and_one_more_is_cut() -> None:
    fits = "t" * (catalog.NAME_LIMIT - len("s__"))
    assert catalog.prefixed_name("s", fits) == f"s__{fits}"
    longer = catalog.prefixed_name("s", fits + "t")
    assert len(longer) == catalog.NAME_LIMIT
    assert longer != catalog.prefixed_name("s", fits + "u")


def test_names_that_differ_only_in_what_is_replaced_stay_apart() -> None:
    assert len({catalog.prefixed_name("s", tool) for tool in ("a.b", "a b", "a_b", "a/b")}) == 4


def test_a_server_s_prefix_is_what_its_unchanged_names_begin_with() -> None:
    assert catalog.prefixed_name("my-server", "x").startswith(catalog.name_prefix("my-server"))


@given(st.text(min_size=1), st.text())
def test_a_server_may_have_every_name_that_its_tools_are_given(server: str, tool: str) -> None:
    assert catalog.may_have_name(server, catalog.prefixed_name(server, tool))
    assert catalog.may_have_name(server, catalog.hashed_name(server, tool))


@pytest.mark.parametrize("length", [1, 53, 54, 55, 56, 62, 63, 64, 65, 200])
def test_a_server_with_a_name_of_any_length_may_have_its_own_tools_and_no_other_server_s(length: int) -> None:
    server = "a" * length
    assert catalog.may_have_name(server, catalog.prefixed_name(server, "echo-with-a-long-name"))
    assert not catalog.may_have_name(server, catalog.prefixed_name("b", "echo"))


@given(st.text(min_size=1), st.text())
def test_every_name_is_one_that_clients_take(server: str, tool: str) -> None:
    assert PLAIN.fullmatch(catalog.prefixed_name(server, tool))
    assert PLAIN.fullmatch(catalog.hashed_name(server, tool))

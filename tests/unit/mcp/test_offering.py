"""Definitions of tools: kept as they came, understood only where Hearth decides by them."""

import pytest

from hearth.errors import MessageError
from hearth.mcp import eras
from hearth.mcp.tools import Tool, from_page
from hearth.wire import json


def tool(definition: bytes) -> Tool:
    return Tool("s", json.split(definition))


def test_a_definition_is_rendered_under_its_exposed_or_its_own_name_and_otherwise_untouched() -> None:
    definition = rb'{"name":"t","title":"\ud800","inputSchema":{"x":123456789012345678901},"later":[1, 2]}'
    found = tool(definition)
    assert found.render(eras.MODERN, exposed=False) == definition
    assert found.render(eras.MODERN, exposed=True) == definition.replace(b'"t"', b'"s__t"')


@pytest.mark.parametrize(
    ("schema", "shown"), [(b'{"type":"object"}', True), (b'{"type":"array"}', False), (b"{}", False), (b"7", False)]
)
def test_legacy_clients_see_output_schemas_of_objects_only(schema: bytes, shown: bool) -> None:
    found = tool(b'{"name":"t","inputSchema":{},"outputSchema":%b}' % schema)
    assert (b"outputSchema" in found.render(eras.LEGACY, exposed=True)) is shown
    assert b"outputSchema" in found.render(eras.MODERN, exposed=True)


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


def test_a_page_gives_its_tools_and_the_raw_cursor() -> None:
    found, cursor = from_page("s", rb'{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"\u0041"}')
    assert [item.name for item in found] == ["a", "b"]
    assert cursor == rb'"\u0041"'


@pytest.mark.parametrize("rest", [b"", b',"nextCursor":null'])
def test_the_last_page_has_no_cursor(rest: bytes) -> None:
    assert from_page("s", b'{"tools":[]%b}' % rest) == ([], None)


def test_an_empty_cursor_is_a_cursor() -> None:
    assert from_page("s", b'{"tools":[],"nextCursor":""}')[1] == b'""'


def test_nameless_tools_and_those_that_only_run_as_tasks_are_left_out() -> None:
    found, _ = from_page(
        "s",
        b'{"tools":[{},{"name":7},7,{"name":"task","execution":{"taskSupport":"required"}},'
        b'{"name":"may","execution":{"taskSupport":"optional"}}]}',
    )
    assert [item.name for item in found] == ["may"]


@pytest.mark.parametrize("result", [b"[]", b"7", b'{"tools":{}}', b'{"tools":7}'])
def test_what_is_no_list_is_an_error_and_not_an_empty_list(result: bytes) -> None:
    with pytest.raises(MessageError):
        from_page("s", result)


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="without a name"):
        tool(b"{}")

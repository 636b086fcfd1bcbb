"""The tools that stand for all others: what they are, and what they are given."""

from typing import Any

import pytest

from hearth.mcp import versions
from hearth.mcp.search import search_tools
from hearth.mcp.search.search_tools import (
    CALL,
    CALL_DESTRUCTIVE,
    CALL_READ,
    CALL_WRITE,
    DESCRIBE,
    FIND,
    FOUND_AT_MOST,
    FOUND_BY_DEFAULT,
    ToolFailure,
)
from hearth.wire import json

ERAS = pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])


def fields(value: object) -> json.Fields:
    return json.split(json.dumps(value))


def inner(**params: object) -> tuple[str, Any]:
    name, own = search_tools.inner_call(CALL, fields(params), versions.LEGACY)
    return name, json.loads(json.join(own))


def test_the_list_has_the_five_and_none_promises_structured_content() -> None:
    listed = json.loads(search_tools.LIST)
    assert [tool["name"] for tool in listed] == [FIND, DESCRIBE, CALL_READ, CALL_WRITE, CALL_DESTRUCTIVE]
    # The one that calls any tool is understood and not listed.
    assert {*search_tools.NAMES} == {tool["name"] for tool in listed} | {CALL}
    for tool in listed:
        assert "outputSchema" not in tool
        assert tool["inputSchema"]["type"] == "object"
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])
        assert all(described["description"] for described in tool["inputSchema"]["properties"].values())


def test_each_says_by_annotations_what_it_may_do() -> None:
    hints = {tool["name"]: tool["annotations"] for tool in json.loads(search_tools.LIST)}
    assert {name for name, said in hints.items() if said["readOnlyHint"]} == {FIND, DESCRIBE, CALL_READ}
    assert hints[CALL_WRITE]["destructiveHint"] is False
    assert hints[CALL_DESTRUCTIVE]["destructiveHint"] is True
    assert {name for name, said in hints.items() if said["openWorldHint"]} == {CALL_READ, CALL_WRITE, CALL_DESTRUCTIVE}


@pytest.mark.parametrize(
    ("annotations", "caller"),
    [
        ({"readOnlyHint": True}, CALL_READ),
        ({"readOnlyHint": True, "destructiveHint": True}, CALL_READ),
        ({"readOnlyHint": False, "destructiveHint": False}, CALL_WRITE),
        ({"destructiveHint": False}, CALL_WRITE),
        ({"destructiveHint": True}, CALL_DESTRUCTIVE),
        # By the specification, what says nothing may be destructive.
        ({"readOnlyHint": False}, CALL_DESTRUCTIVE),
        ({"readOnlyHint": "true", "destructiveHint": "false"}, CALL_DESTRUCTIVE),
        ({}, CALL_DESTRUCTIVE),
        (None, CALL_DESTRUCTIVE),
        ([], CALL_DESTRUCTIVE),
    ],
)
def test_a_tool_is_called_by_the_one_that_its_annotations_ask_for(annotations: object, caller: str) -> None:
    definition = {"name": b'"t"'} if annotations is None else {"annotations": json.dumps(annotations)}
    assert search_tools.caller_of(definition) == caller
    search_tools.check_caller(caller, "t", definition, versions.LEGACY)
    search_tools.check_caller(CALL, "t", definition, versions.LEGACY)
    for other in {CALL_READ, CALL_WRITE, CALL_DESTRUCTIVE} - {caller}:
        with pytest.raises(ToolFailure, match=f"{other} does not fit 't' by its annotations: call it with {caller}"):
            search_tools.check_caller(other, "t", definition, versions.LEGACY)


def test_a_question_has_a_limit_of_its_own_or_the_usual_one() -> None:
    assert search_tools.question(fields({"query": "x"}), versions.LEGACY) == ("x", FOUND_BY_DEFAULT)
    assert search_tools.question(fields({"query": "x", "limit": 3}), versions.LEGACY) == ("x", 3)
    assert search_tools.question(fields({"query": "x", "limit": 10**6}), versions.LEGACY) == ("x", FOUND_AT_MOST)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "query"),
        ({"query": 3}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": "5"}, "limit"),
        ({"query": "x", "limit": 1.5}, "limit"),
        ({"query": "x", "server": "y"}, '"server"'),
    ],
)
def test_a_question_that_is_none_is_told_what_is_missing(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ToolFailure, match=says):
        search_tools.question(fields(arguments), versions.LEGACY)


def test_names_are_a_list_or_one_and_each_counts_once() -> None:
    assert search_tools.wanted_names(fields({"names": ["a", "b", "a"]}), versions.LEGACY) == ["a", "b"]
    assert search_tools.wanted_names(fields({"names": "a"}), versions.LEGACY) == ["a"]


@pytest.mark.parametrize("arguments", [{}, {"names": []}, {"names": [1]}, {"names": ["a", None]}, {"names": {"a": 1}}])
def test_names_that_are_none_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ToolFailure, match="names"):
        search_tools.wanted_names(fields(arguments), versions.LEGACY)


def test_a_call_becomes_the_direct_one_with_all_that_came_with_it() -> None:
    meta, rest = {"progressToken": 7}, {"requestState": "s", "inputResponses": {"k": {}}}
    found = inner(name=CALL, arguments={"name": "a__t", "arguments": {"x": 1}}, _meta=meta, **rest)
    assert found == ("a__t", {"name": "a__t", "arguments": {"x": 1}, "_meta": meta, **rest})


def test_the_bytes_of_arguments_are_not_touched() -> None:
    raw = b'{"name":"call_tool","arguments":{"name":"\\u0061__t","arguments":{ "n" : 1e2, "s":"\\ud800" }}}'
    name, own = search_tools.inner_call(CALL, json.split(raw), versions.LEGACY)
    assert name == "a__t"
    assert bytes(own["name"]) == b'"\\u0061__t"'
    assert bytes(own["arguments"]) == b'{ "n" : 1e2, "s":"\\ud800" }'


@pytest.mark.parametrize("arguments", [{"name": "t"}, {"name": "t", "arguments": None}])
def test_a_call_without_arguments_is_one(arguments: dict[str, object]) -> None:
    assert inner(name=CALL, arguments=arguments) == ("t", {"name": "t"})


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, '"name"'),
        ({"arguments": []}, "JSON object"),
        ({"arguments": {"name": 3}}, '"name"'),
        ({"arguments": {"name": "t", "arguments": '{"x":1}'}}, "JSON object with the arguments of t"),
        ({"arguments": {"name": "t", "x": 1}}, 'put "x" into "arguments"'),
    ],
)
def test_a_call_that_names_nothing_or_puts_arguments_elsewhere_is_told_so(params: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolFailure, match=says):
        search_tools.inner_call(CALL_READ, fields({"name": CALL_READ, **params}), versions.LEGACY)


@ERAS
def test_a_failure_is_a_result_that_a_model_sees(era: str) -> None:
    result = json.loads(ToolFailure("no", era).result)
    assert result["content"] == [{"type": "text", "text": "no"}]
    assert result["isError"] is True
    assert ("resultType" in result) == (era == versions.MODERN)


@ERAS
def test_a_result_is_complete_where_the_era_asks_for_it(era: str) -> None:
    result = json.loads(search_tools.text_result(["a", "b"], era))
    assert [block["text"] for block in result["content"]] == ["a", "b"]
    assert "isError" not in result
    if era == versions.MODERN:
        assert result["resultType"] == "complete"
        assert result["_meta"][versions.SERVER_INFO_KEY]["name"] == "hearth"
    else:
        assert set(result) == {"content"}

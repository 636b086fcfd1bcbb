"""The tools that stand for all others: what they are, and what they are given.

What the search tools say: bounded, and honest about what is left out.
"""

from typing import Any

import pytest

from hearth.mcp import search_tools, versions
from hearth.mcp.search_tools import (
    CALL,
    CALL_DESTRUCTIVE,
    CALL_READ,
    CALL_WRITE,
    DESCRIBE,
    DESCRIBE_CHARACTERS,
    FIND,
    FIND_CHARACTERS,
    FOUND_AT_MOST,
    FOUND_BY_DEFAULT,
    LINE_CHARACTERS,
    NEAREST_NAMES,
    REQUIRED_CHARACTERS,
    ToolEntry,
    ToolFailure,
    described_texts,
    entry_line,
    found_text,
    nearest_names,
    required,
    servers_text,
    shortened,
    unknown_text,
)
from hearth.wire import json
from search.score import raw

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


def entry(name: str = "a__t", description: str = "Does it.", **schema: object) -> ToolEntry:
    return ToolEntry(name, raw({"name": name, "description": description, "inputSchema": {"type": "object", **schema}}))


# --- what was found


def test_a_tool_is_told_by_its_name_what_it_is_for_and_what_it_needs() -> None:
    properties = {"path": {"type": "string"}, "deep": {"anyOf": []}, "other": {"type": "string"}}
    line = entry_line(entry(description="Reads\n  a file.", properties=properties, required=["path", "deep"]))
    assert line == "- a__t: Reads a file. (required: path: string, deep; call_tool_destructive)"
    assert entry_line(entry()) == "- a__t: Does it. (no required arguments; call_tool_destructive)"


def test_a_tool_without_a_description_is_told_by_its_title_or_its_name_alone() -> None:
    assert (
        entry_line(ToolEntry("t", {"title": b'"Title"'})) == "- t: Title (no required arguments; call_tool_destructive)"
    )
    assert entry_line(ToolEntry("t", {})) == "- t (no required arguments; call_tool_destructive)"


def test_a_tool_is_told_with_the_one_that_calls_it() -> None:
    read_only = {"annotations": json.dumps({"readOnlyHint": True})}
    assert entry_line(ToolEntry("t", read_only)) == "- t (no required arguments; call_tool_read)"


def test_one_line_is_bounded() -> None:
    line = entry_line(entry(description="x" * 5000, required=[f"argument_{number}" for number in range(1000)]))
    assert len(line) <= LINE_CHARACTERS + REQUIRED_CHARACTERS + 64
    assert "…" in line


@pytest.mark.parametrize("schema", [b"null", b"[]", b'{"required":3}', b'{"required":[3,null]}', b'{"properties":[]}'])
def test_a_schema_of_any_kind_requires_what_it_can(schema: bytes) -> None:
    assert required(schema) == []


def test_those_found_come_with_what_to_do_next() -> None:
    text = found_text("read a  file", [entry("a__read")], 1, [])
    assert text.splitlines()[0] == '1 of 1 tools that fit "read a file", best first:'
    assert "call_tool_destructive" in text and "describe_tools" in text
    assert "more fit" not in text


def test_what_is_left_out_is_counted() -> None:
    assert "29 more fit" in found_text("x", [entry()], 30, [])


def test_where_nothing_fits_other_words_are_asked_for() -> None:
    assert found_text("xyzzy", [], 0, []).startswith('No tool fits "xyzzy". Try other words')


def test_servers_that_have_not_answered_are_named() -> None:
    for text in (found_text("x", [entry()], 1, ["slow"]), found_text("x", [], 0, ["slow"]), servers_text({}, ["slow"])):
        assert "slow" in text and "Ask again" in text


def test_the_answer_is_bounded_whatever_was_found() -> None:
    entries = [entry(f"{'n' * 60}{number}", "d" * 1000, required=["r" * 500]) for number in range(50)]
    text = found_text("q" * 10_000, entries, 5000, ["s" * 10_000])
    assert len(text) <= FIND_CHARACTERS
    shown = text.count("\n- ")
    assert 0 < shown < 50
    assert f"{5000 - shown} more fit" in text


def test_a_name_that_is_longer_than_the_answer_is_counted_as_left_out() -> None:
    text = found_text("x", [entry("n" * 100_000)], 1, [])
    assert len(text) <= FIND_CHARACTERS
    assert "1 more fit" in text


def test_the_servers_are_told_with_how_much_they_have() -> None:
    assert servers_text({"a": 2, "b": 1}, []).startswith("3 tools of 2 servers: a (2), b (1).")
    assert len(servers_text({f"server{number}": 1 for number in range(10_000)}, [])) <= FIND_CHARACTERS


# --- what is described


def definition(name: str, size: int = 0, **more: object) -> tuple[str, dict[str, bytes]]:
    schema = {"type": "object", "properties": {"a": {"description": "x" * size}}, "required": ["a"]}
    return name, raw({"name": name, "inputSchema": schema, **more})


def test_definitions_are_shown_as_they_are() -> None:
    name, whole = definition("t", annotations={"readOnlyHint": True})
    (text,) = described_texts([(name, whole)], {})
    assert json.loads(text.encode()) == json.loads(json.join(whole))


def test_what_there_is_not_is_told_among_the_others() -> None:
    first, second = described_texts([("x", None), definition("t")], {"x": ["t"]})
    assert first == "There is no tool 'x'; did you mean t? find_tools searches all tools."
    assert '"t"' in second


def test_what_does_not_fit_with_the_others_is_asked_for_by_itself() -> None:
    texts = described_texts([definition(f"t{number}", 6000) for number in range(10)], {})
    assert sum(map(len, texts)) <= DESCRIBE_CHARACTERS + 300
    assert len(texts) == 4
    assert '"t3", "t4"' in texts[-1] and "by themselves" in texts[-1]


def test_a_large_definition_is_shown_without_what_no_call_needs() -> None:
    name, whole = definition("t", outputSchema={"description": "x" * DESCRIBE_CHARACTERS})
    (text,) = described_texts([(name, whole)], {})
    assert set(json.loads(text.encode())) == {"name", "inputSchema"}


def test_one_that_is_larger_still_is_outlined() -> None:
    (text,) = described_texts([definition("t", DESCRIBE_CHARACTERS, description="Does it.")], {})
    assert text.startswith("t: Does it.")
    assert "too many to be shown" in text and "Required: a" in text


def test_an_outline_is_bounded_too() -> None:
    properties = {f"p{number}": {"description": "x" * 100} for number in range(10_000)}
    huge = raw(
        {"name": "t", "description": "y" * 10**6, "inputSchema": {"properties": properties, "required": [*properties]}}
    )
    (text,) = described_texts([("t", huge)], {})
    assert len(text) <= DESCRIBE_CHARACTERS


def test_very_many_names_have_a_bounded_answer() -> None:
    texts = described_texts([("n" * 50 + str(number), None) for number in range(10_000)], {})
    assert sum(map(len, texts)) <= DESCRIBE_CHARACTERS + 300


# --- names


KNOWN = {"github__create_issue": "create_issue", "github__create_pull_request": "create_pull_request", "a__b": "b"}


def test_the_nearest_names_are_those_with_a_slip_of_the_pen_and_those_without_their_server() -> None:
    assert nearest_names("github__creat_isue", KNOWN)[0] == "github__create_issue"
    assert nearest_names("create_pull_request", KNOWN)[0] == "github__create_pull_request"
    assert nearest_names("xyzzy", KNOWN) == []
    assert len(nearest_names("a__bb", {f"a__b{number}": "x" for number in range(30)})) == NEAREST_NAMES


def test_an_unknown_name_is_shortened() -> None:
    assert len(unknown_text("x" * 10_000, ["y" * 10_000])) < 1000


def test_texts_are_cut_where_they_are_too_long() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"

"""Which tools a question is about.

The tools of some servers for a person to look at.
"""

from typing import Any

import pytest

from hearth.mcp import tool_index
from hearth.mcp.catalog import ServerCatalog
from hearth.mcp.tool_index import Tool, ToolIndex, arguments, merged, question_words
from hearth.wire import json
from search.corpus import questions, tools
from search.score import evaluation_score, index, places, raw, score
from unit.hub.stage import offering


def tool(name: str, description: str = "", server: str = "s", **more: object) -> Tool:
    definition = {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}
    return Tool(f"{server}__{name}", server, name, raw(definition))


def found(tools: list[Tool], question: str, limit: int = 5) -> list[str]:
    return ToolIndex(tools).find(question, limit)[0]


# --- how good it is


def test_a_right_tool_is_among_the_first_five_for_85_of_100_questions_that_nobody_tuned_it_by() -> None:
    assert evaluation_score().top5 >= 0.85


def test_the_questions_that_it_was_tuned_by_do_better_still() -> None:
    assert score(places(index(), questions("tuning"))).top5 >= 0.9


def test_the_two_sets_of_questions_are_apart_and_large_enough() -> None:
    tuning, evaluation = questions("tuning"), questions("evaluation")
    assert len(tuning) >= 60 and len(evaluation) >= 60
    assert {asked.text for asked in tuning} & {asked.text for asked in evaluation} == set()


def test_every_expected_tool_is_in_the_corpus() -> None:
    known = {f"{server}/{definition['name']}" for server, definition in tools()}
    expected = {name for each in ("tuning", "evaluation") for asked in questions(each) for name in asked.expected}
    assert expected - known == set()


# --- what is found


def test_the_name_counts_more_than_the_description() -> None:
    tools = [tool("other", "Not about weather at all."), tool("weather_today", "Says how it is.")]
    assert found(tools, "weather") == ["s__weather_today", "s__other"]


@pytest.mark.parametrize("name", ["createPullRequest", "create_pull_request", "create-pull-request"])
def test_words_in_names_are_found_however_they_are_joined(name: str) -> None:
    assert found([tool(name), tool("other")], "pull request") == [f"s__{name}"]


def test_a_question_may_be_joined_like_a_name() -> None:
    assert found([tool("create_pull_request"), tool("other")], "createPullRequest") == ["s__create_pull_request"]


def test_inflections_are_the_same_word() -> None:
    assert found([tool("list_containers")], "listing a container") == ["s__list_containers"]


def test_arguments_and_their_descriptions_are_found() -> None:
    schema = {"properties": {"timezone": {"description": "An IANA name"}, "odd": True, "odder": {"description": 3}}}
    tools = [tool("now", inputSchema=schema), tool("other")]
    assert found(tools, "timezone") == found(tools, "iana") == ["s__now"]


def test_titles_are_found_also_among_the_annotations() -> None:
    tools = [tool("x", title="Sunrise"), tool("y", annotations={"title": "Sunset"})]
    assert found(tools, "sunrise") == ["s__x"]
    assert found(tools, "sunset") == ["s__y"]


def test_a_server_is_found_by_its_name() -> None:
    assert found([tool("get", server="alpha"), tool("get", server="beta")], "get from beta")[0] == "beta__get"


def test_other_words_for_it_are_found() -> None:
    assert found([tool("move_file"), tool("read_file")], "rename")[0] == "s__move_file"
    assert found([tool("create_pull_request"), tool("create_pull")], "pr")[0] == "s__create_pull_request"


def test_the_word_itself_is_better_than_another_for_it() -> None:
    assert found([tool("delete_page"), tool("remove_page")], "remove")[0] == "s__remove_page"


def test_the_beginning_of_a_word_is_enough_where_no_word_is_found() -> None:
    assert found([tool("kubernetes_pods"), tool("other")], "kube") == ["s__kubernetes_pods"]


def test_one_of_the_words_is_enough() -> None:
    assert found([tool("read_file"), tool("other")], "file xyzzy") == ["s__read_file"]


def test_the_very_name_comes_first() -> None:
    assert found([tool("get_file_file"), tool("get"), tool("get_file")], " S__Get ")[0] == "s__get"


def test_equal_ones_stay_in_the_order_of_the_lists() -> None:
    tools = [tool(f"read_{letter}", "Reads.") for letter in "dbca"]
    assert found(tools, "reads") == ["s__read_d", "s__read_b", "s__read_c", "s__read_a"]


def test_how_many_fit_is_told_whatever_the_limit() -> None:
    names, fit = ToolIndex([tool(f"read_{number}") for number in range(30)]).find("read", 3)
    assert (len(names), fit) == (3, 30)


def test_the_same_question_has_the_same_answer_again() -> None:
    searched = index()
    first = [searched.find(asked.text, 10) for asked in questions("tuning")]
    assert [searched.find(asked.text, 10) for asked in questions("tuning")] == first


def test_scores_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hearth.mcp.tool_index.REMEMBERED_SCORES", 20)
    searched = index()
    for asked in questions("tuning"):
        before = index().find(asked.text, 10)
        assert searched.find(asked.text, 10) == before
        assert len(searched._remembered) <= 20


# --- what may come


@pytest.mark.parametrize(
    "question",
    [
        "",
        "   ",
        '"',
        "'; DROP TABLE tools",
        'read" OR "x',
        "NEAR(a b)",
        "*",
        "a*",
        "name:read",
        "(",
        "-",
        "\0",
        "\ud800",
    ],
)
def test_no_question_breaks_it(question: str) -> None:
    ToolIndex([tool("read")]).find(question, 5)


def test_a_question_of_empty_words_only_is_taken_by_its_words() -> None:
    assert question_words("what is it") == ["what", "is", "it"]
    assert question_words("what is the time") == ["time"]


def test_of_a_long_question_the_beginning_counts() -> None:
    assert len(question_words(" ".join(f"word{number}" for number in range(1000)))) == tool_index.QUESTION_WORDS
    assert question_words("x" * 10**6) == ["x" * tool_index.QUESTION_CHARACTERS]


@pytest.mark.parametrize(
    "schema",
    [b"null", b"true", b"[]", b"3", b'{"properties":[]}', b'{"properties":{"a":{"description":"\\ud800"}}}',
     b'{"properties":' + b'{"a":' * 3000 + b"1" + b"}" * 3001, b'{"properties":{"a":"' + b"x" * 100_000 + b'"}}'],
    ids=["null", "true", "array", "number", "array of properties", "lone surrogate", "deep", "large"],
)  # fmt: skip
def test_no_schema_breaks_it(schema: bytes) -> None:
    definition = {"name": b'"read"', "inputSchema": schema}
    assert ToolIndex([Tool("read", "s", "read", definition)]).find("read", 5) == (["read"], 1)


def test_names_and_descriptions_of_any_kind_are_taken() -> None:
    odd = Tool("x", "s", "x\ud800", {"name": b'"x\\ud800"', "description": b"7", "title": b"{}", "annotations": b"[]"})
    assert ToolIndex([odd, tool("read")]).find("read", 5) == (["s__read"], 1)


def test_there_may_be_no_tool_at_all() -> None:
    assert ToolIndex([]).find("read", 5) == ([], 0)


def test_arguments_are_read_once_and_bounded() -> None:
    assert arguments(json.dumps({"properties": {"a": {"description": "b"}, "c": {}}})) == (["a", "c"], ["b"])
    assert arguments(None) == ([], [])


# --- the table


def test_synonyms_are_words_and_phrases_in_small_letters_of_something_else() -> None:
    for word, others in tool_index.SYNONYMS.items():
        assert others and word not in others
        assert all(other == other.lower() and other.replace(" ", "").isalnum() for other in (word, *others))


def offered(server: str, *names: str) -> tuple[str, ServerCatalog]:
    return server, offering(server, tools=[{"name": name, "inputSchema": {"type": "object"}} for name in names])


def listed(*offerings: tuple[str, ServerCatalog | None], **wanted: Any) -> dict[str, Any]:
    return json.loads(tool_index.document(offerings, **wanted))


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

"""One scenario, five real clients, one server on the official SDK: through Hearth each sees what it sees without.

By the bridge here; over HTTP in the next file.
"""

import pytest

from support.real.board import SERVERS, assert_same_among_others, prefixed, scenario
from support.real.clients import PYTHON_AUTO, TYPESCRIPT_V1, Player, play
from support.real.comparison import assert_same, comparable
from support.real.home import RealHome
from support.real.scenario.python_client import Document

pytestmark = pytest.mark.real


def test_without_hearth_the_scenario_shows_all_that_it_is_to_show(player: Player, direct: Document) -> None:
    assert direct["opening"]["protocolVersion"] == ("2026-07-28" if player.is_modern else "2025-11-25")
    assert_complete(direct)


@pytest.mark.parametrize("name", SERVERS)
def test_through_hearth_a_client_sees_what_it_sees_without(
    home: RealHome, player: Player, direct: Document, name: str
) -> None:
    bridged = play(player, home.bridged(name), scenario())
    assert_same(bridged, direct)
    # The very first client is answered before the server has said anything.
    opening = play(player, home.bridged(name), {**scenario(), "steps": []})["opening"]
    assert opening["protocolVersion"] == bridged["opening"]["protocolVersion"] == direct["opening"]["protocolVersion"]
    assert opening["instructions"] == direct["opening"]["instructions"]
    assert set(opening["capabilities"]) == set(direct["opening"]["capabilities"])


@pytest.mark.parametrize("player", [PYTHON_AUTO, TYPESCRIPT_V1], indirect=True, ids=lambda player: player.package)
def test_among_other_servers_it_is_the_same_under_prefixed_names(player: Player, direct: Document) -> None:
    with RealHome(SERVERS) as home:
        bridged = play(player, home.bridged(), prefixed(scenario(), "board__"))
    assert_same_among_others(bridged, direct, "board__")


def assert_complete(document: Document) -> None:
    """Every feature was really there, so that two equal documents cannot be equally empty."""
    steps = comparable(document)
    assert list(steps) == [step["name"] for step in scenario()["steps"]]
    tools = {tool["name"] for tool in steps["tools"]["result"]["tools"]}
    assert {"add", "count", "order", "write_poem", "show_roots"} <= tools
    assert [item["uri"] for item in steps["resources"]["result"]["resources"]] == ["note://board", "pixel://one"]
    assert [item["name"] for item in steps["templates"]["result"]["resourceTemplates"]] == ["book"]
    assert [item["name"] for item in steps["prompts"]["result"]["prompts"]] == ["greet"]
    assert_calls(steps)
    assert_notices(steps, tools)
    assert_questions(steps)


def assert_calls(steps: Document) -> None:
    assert steps["structured result"]["result"]["structuredContent"] == {"sum": 5, "terms": [2, 3]}
    assert steps["wrong arguments"]["result"]["isError"]
    kinds = [block["type"] for block in steps["every content"]["result"]["content"]]
    assert kinds == ["text", "image", "audio", "resource", "resource_link"]
    assert steps["failed tool"]["result"]["isError"]
    assert steps["protocol error"]["error"]["code"] == 4711
    assert steps["protocol error"]["error"]["data"] == {"why": ["because"]}
    assert steps["meta"]["result"]["structuredContent"] == {"meta": {"example.com/trace": "abc"}}
    assert steps["progress"]["progress"] == [[number, 3, f"number {number}"] for number in (1, 2, 3)]
    assert steps["cancellation"]["result"] == {"cancelled": True}
    assert text(steps["what was cancelled"]) == "k1"
    assert [log["data"]["level"] for log in steps["log"]["logs"]] == ["info", "warning"]
    assert steps["text resource read"]["result"]["contents"][0]["text"] == "first"
    assert steps["binary resource"]["result"]["contents"][0]["blob"].startswith("iVBOR")
    assert steps["resource of a template"]["result"]["contents"][0]["text"] == "Page 7 of Emma"
    assert steps["no such resource"]["error"]["code"] == -32602
    assert steps["prompt"]["result"]["messages"][0]["content"]["text"] == "Greet Ada in Latin."
    assert steps["completion of a prompt"]["result"]["completion"]["values"] == ["English", "Esperanto"]
    assert steps["completion of a template"]["result"]["completion"]["values"] == ["Emma-11", "Emma-12"]


def assert_notices(steps: Document, tools: set[str]) -> None:
    assert steps["resource update"]["notices"] == [{"method": "notifications/resources/updated", "uri": "note://board"}]
    assert steps["updated resource"]["result"]["contents"][0]["text"] == "second"
    assert steps["one tool more"]["notices"] == [{"method": "notifications/tools/list_changed"}]
    assert {tool["name"] for tool in steps["more tools"]["result"]["tools"]} == tools | {"trick"}
    assert text(steps["learnt tool"]) == "tricked"
    assert {tool["name"] for tool in steps["less tools"]["result"]["tools"]} == tools


def assert_questions(steps: Document) -> None:
    assert text(steps["elicitation"]) == "Ada gets 0.5 l of tea, iced"
    asked = [question["elicitation/create"]["message"] for question in steps["elicitation"]["questions"]]
    assert asked == ["What would you like to drink?", "How much tea?"]
    assert steps["declined elicitation"]["result"]["isError"]
    assert text(steps["sampling"]) == "poet-1 on fire: Roses are red"
    assert steps["sampling"]["questions"][0]["sampling/createMessage"]["systemPrompt"] == "You are a poet."
    assert text(steps["roots"]) == "board=file:///srv/board"
    assert steps["after all questions"]["result"]["structuredContent"]["sum"] == 2


def text(seen: Document) -> str:
    """The text of a result's first block."""
    return str(seen["result"]["content"][0]["text"])

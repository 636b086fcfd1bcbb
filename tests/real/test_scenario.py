"""One scenario, five real clients, one server on the official SDK: through Hearth each sees what it sees without.

The server speaks both eras. For `board` Hearth chooses by the client; for the others the config has chosen, so that
half of the plays are translated.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from real.clients import PLAYERS, PYTHON_AUTO, TYPESCRIPT_V1, Player, play
from real.comparison import assert_same, comparable
from real.home import RealHome
from real.installation import SCENARIO
from real.scenario.python_client import Document

pytestmark = pytest.mark.real
SERVER = {"command": sys.executable, "args": [str(SCENARIO / "server.py")]}
SERVERS = {"board": SERVER, "old-board": {**SERVER, "era": "legacy"}, "new-board": {**SERVER, "era": "modern"}}


def scenario() -> dict[str, Any]:
    """The description that all clients follow."""
    found: dict[str, Any] = json.loads((SCENARIO / "scenario.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module", params=PLAYERS, ids=lambda player: f"{player.package}-{player.mode}")
def player(request: pytest.FixtureRequest) -> Player:
    """A client."""
    found: Player = request.param
    return found


@pytest.fixture(scope="module")
def home(player: Player) -> Iterator[RealHome]:
    """A daemon for all plays of one client.

    Not for those of all: a call that one client has cancelled keeps what a shared process logs from the others, for as
    long as the process may go on with that call.
    """
    with RealHome(SERVERS) as place:
        yield place


@pytest.fixture(scope="module")
def direct(home: RealHome, player: Player) -> Document:
    """What the client sees without Hearth."""
    return play(player, home.direct("board"), scenario())


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
        bridged = only_of(play(player, home.bridged(), prefixed(scenario(), "board__")), "board__")
    # Among several servers it is Hearth that says so.
    error = bridged["steps"]["no such resource"]["error"]
    assert "no server has the resource note://nowhere" in error["message"]
    error["message"] = direct["steps"]["no such resource"]["error"]["message"]
    assert_same(bridged, direct)


def prefixed(description: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The scenario for a client that sees all servers."""
    for step in description["steps"]:
        for key in {"tool", "prompt", "release"} & set(step):
            step[key] = prefix + step[key]
        if step.get("ref", {}).get("type") == "ref/prompt":
            step["ref"]["name"] = prefix + step["ref"]["name"]
    return description


def only_of(document: Document, prefix: str) -> Document:
    """What was listed of the first server: its names without the prefix; its URIs are as they were."""
    for seen in document["steps"].values():
        result = seen.get("result", {})
        for kind in {"tools", "prompts"} & set(result):
            found = [item for item in result[kind] if item["name"].startswith(prefix)]
            result[kind] = [{**item, "name": item["name"].removeprefix(prefix)} for item in found]
        for kind, key in (("resources", "uri"), ("resourceTemplates", "uriTemplate")):
            if kind in result:
                # The other two servers have the same ones, which are told apart by Hearth's own scheme.
                found = [*filter(is_own(key), result[kind])]
                assert len(result[kind]) == len(SERVERS) * len(found)
                result[kind] = found
    return document


def is_own(key: str) -> Callable[[Document], bool]:
    """Whether an item's URI is as its server gave it."""
    return lambda item: not item[key].startswith("hearth:")


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
    notice = {"method": "notifications/resources/updated", "uri": "note://board"}
    assert steps["resource update"]["notices"] == [notice]
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

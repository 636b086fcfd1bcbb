"""What an instance hears from its server, and what it does about lists that have changed."""

import asyncio

import pytest

from hearth.mcp.catalog import TOOLS
from hearth.upstreams import refresh
from unit.conversations import legacy_script, modern_script, until
from unit.staged_instances import CHANGED, Stage


async def test_a_modern_server_is_asked_for_the_notices_that_it_announces() -> None:
    connection = await Stage(modern_script()).ready()
    (listen,) = (request for request in connection.sent if request["method"] == "subscriptions/listen")
    assert listen["params"]["notifications"] == {"toolsListChanged": True}
    assert connection.in_flight == 0


async def test_a_modern_server_that_announces_nothing_is_not_asked_for_notices() -> None:
    discovered = {"resultType": "complete", "supportedVersions": [], "capabilities": {"tools": {}}}
    connection = await Stage(modern_script(**{"server/discover": discovered})).ready()
    assert "subscriptions/listen" not in connection.methods()


async def test_a_stream_of_notices_that_the_server_ended_is_asked_for_again_and_so_are_the_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refresh, "RELISTEN_SECONDS", 0.0)
    stage = Stage(modern_script())
    connection = await stage.ready()
    number = next(item["id"] for item in connection.sent if item["method"] == "subscriptions/listen")
    connection.give(number, {"resultType": "complete"})
    await until(lambda: connection.methods().count("tools/list") == 2, "the lists are read again")
    assert connection.methods().count("subscriptions/listen") == 2


async def test_a_changed_list_is_fetched_and_then_told() -> None:
    stage = Stage()
    connection = await stage.ready()
    stage.script["tools/list"] = {"tools": [{"name": "t"}, {"name": "u"}]}
    connection.say(CHANGED)
    await until(lambda: stage.audience.count("offered") == 2, "it is told")
    assert stage.instance.catalog
    assert list(stage.instance.catalog.lists[TOOLS]) == ["t", "u"]
    assert stage.audience.count("noticed") == 0
    assert stage.audience.noticed_lists == [TOOLS]


async def test_a_list_that_is_read_again_for_other_reasons_was_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "RELISTEN_SECONDS", 0.0)
    stage = Stage(modern_script())
    connection = await stage.ready()
    number = next(item["id"] for item in connection.sent if item["method"] == "subscriptions/listen")
    connection.give(number, {"resultType": "complete"})
    await until(lambda: stage.audience.count("offered") == 2, "the lists were read again")
    assert stage.audience.noticed_lists == []


async def test_a_burst_of_notices_becomes_one_fetch_more() -> None:
    stage = Stage()
    connection = await stage.ready()
    for _ in range(50):
        connection.say(CHANGED)
    await until(lambda: stage.audience.count("offered") == 2, "it is told")
    assert connection.methods().count("tools/list") == 2


async def test_a_notice_during_a_fetch_is_followed_by_another_and_only_the_last_is_told() -> None:
    stage = Stage()
    connection = await stage.ready()
    del stage.script["tools/list"]
    connection.say(CHANGED)
    await until(lambda: connection.methods().count("tools/list") == 2, "the fetch is on its way")
    connection.say(CHANGED)
    stage.script["tools/list"] = {"tools": [{"name": "last"}]}
    connection.give(connection.sent[-1]["id"], {"tools": [{"name": "first"}]})
    await until(lambda: stage.audience.count("offered") == 2, "it is told")
    assert stage.instance.catalog
    assert list(stage.instance.catalog.lists[TOOLS]) == ["last"]
    assert stage.audience.noticed_lists == [TOOLS]


async def test_a_notice_before_the_server_is_ready_is_not_lost() -> None:
    script = legacy_script()
    tools = script.pop("tools/list")
    stage = Stage(script)
    starting = asyncio.create_task(stage.instance.ensure())
    await until(lambda: stage.connections and "tools/list" in stage.connections[0].methods(), "it is asked")
    connection = stage.connections[0]
    connection.say(CHANGED)
    number = next(item["id"] for item in connection.sent if item["method"] == "tools/list")
    stage.script["tools/list"] = {"tools": [{"name": "late"}]}
    connection.give(number, tools)
    await starting
    await until(lambda: stage.audience.count("offered") == 2, "it is told again")
    assert stage.instance.catalog
    assert list(stage.instance.catalog.lists[TOOLS]) == ["late"]


async def test_a_list_that_never_comes_does_not_keep_later_ones_away() -> None:
    stage = Stage(start_timeout=0.05)
    connection = await stage.ready()
    tools = stage.script.pop("tools/list")
    connection.say(CHANGED)
    await until(lambda: connection.in_flight == 1, "it is asked")
    await until(lambda: connection.in_flight == 0, "it is given up")
    stage.script["tools/list"] = tools
    connection.say(CHANGED)
    await until(lambda: stage.audience.count("offered") == 2, "it is told")


async def test_other_notices_and_questions_go_to_the_audience() -> None:
    stage = Stage()
    connection = await stage.ready()
    connection.say("notifications/message", {})
    connection.say("roots/list", id=1)
    assert stage.audience.told[1:] == [
        ("noticed", stage.instance, "notifications/message"),
        ("asked", stage.instance, "roots/list"),
    ]

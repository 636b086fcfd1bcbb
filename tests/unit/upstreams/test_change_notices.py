"""Who is told of which resource, and what the server is asked for on their behalf.

What an instance hears from its server, and what it does about lists that have changed.
"""

import asyncio

import pytest

from hearth.mcp import versions
from hearth.mcp.catalog import TOOLS
from hearth.upstreams import change_notices
from hearth.upstreams.change_notices import ResourceSubscriptions
from unit.conversations import Recorded, legacy_script, modern_script, until
from unit.staged_instances import CHANGED, Stage


def watched(era: str = versions.LEGACY) -> tuple[ResourceSubscriptions, Recorded]:
    watch, connection = ResourceSubscriptions("s"), Recorded()
    watch.connected(connection, era)
    return watch, connection


def asked(connection: Recorded) -> list[tuple[str, object]]:
    """What was asked of the server: by URI, or by the URIs of a stream."""
    return [
        (
            request["method"].rpartition("/")[2],
            request["params"].get("uri") or request["params"]["notifications"]["resourceSubscriptions"],
        )
        for request in connection.sent
    ]


def told(watch: ResourceSubscriptions, uri: str) -> list[object]:
    return sorted(str(holder) for holder, _ in watch.holders(uri))


# --- who is told


def test_everybody_who_holds_a_resource_is_told_of_it() -> None:
    watch = ResourceSubscriptions("s")
    for uri, holder in (("r:1", "a"), ("r:1", "b"), ("r:2", "c")):
        watch.hold(uri, holder)
    assert told(watch, "r:1") == ["a", "b"]
    watch.release("r:1", "a")
    assert told(watch, "r:1") == ["b"]
    watch.leave("b")
    assert told(watch, "r:1") == []
    assert watch
    watch.leave("c")
    assert not watch


def test_a_change_below_a_resource_is_one_of_it_and_the_holder_s_own_uri_is_told() -> None:
    watch = ResourceSubscriptions("s")
    for uri in ("file:///a", "file:///a/", "file:///a/b"):
        watch.hold(uri, uri)
    assert [held for _, held in watch.holders("file:///a/b")] == ["file:///a", "file:///a/", "file:///a/b"]
    assert watch.holders("file:///ab") == watch.holders("file://") == []
    assert [held for _, held in watch.holders("file:///a")] == ["file:///a"]


# --- a legacy server


def test_a_legacy_server_is_subscribed_to_each_resource_once() -> None:
    watch, connection = watched()
    for holder in ("a", "b"):
        watch.hold("r:1", holder)
    watch.hold("r:2", "a")
    assert asked(connection) == [("subscribe", "r:1"), ("subscribe", "r:2")]
    watch.release("r:1", "a")
    assert len(connection.sent) == 2
    connection.give(1, {})
    watch.release("r:1", "b")
    assert asked(connection)[2:] == [("unsubscribe", "r:1")]
    # Nobody minds what becomes of it.
    connection.end("it ended")


def test_a_server_that_never_answers_a_subscription_has_no_call_in_flight_for_it() -> None:
    watch, connection = watched()
    watch.hold("r:1", "a")
    assert connection.in_flight == 0


def test_what_nobody_holds_is_not_unsubscribed() -> None:
    watch, connection = watched()
    watch.release("r:1", "a")
    watch.leave("a")
    assert connection.sent == []


def test_a_server_that_comes_back_is_asked_for_all_of_it_again() -> None:
    watch, connection = watched()
    for uri in ("r:2", "r:1"):
        watch.hold(uri, "a")
    watch.disconnected()
    watch.hold("r:3", "a")
    watch.release("r:2", "a")
    assert len(connection.sent) == 2
    successor = Recorded()
    watch.connected(successor, versions.LEGACY)
    assert asked(successor) == [("subscribe", "r:1"), ("subscribe", "r:3")]


def test_what_could_not_be_sent_is_sent_with_the_next_change() -> None:
    watch, connection = watched()
    connection.broken = True
    watch.hold("r:1", "a")
    connection.broken = False
    watch.hold("r:2", "a")
    assert asked(connection) == [("subscribe", "r:1"), ("subscribe", "r:2")]


def test_a_refusal_changes_nothing() -> None:
    watch, connection = watched()
    watch.hold("r:1", "a")
    connection.refuse(1, -32601)
    assert told(watch, "r:1") == ["a"]
    watch.hold("r:1", "b")
    assert len(connection.sent) == 1


# --- a modern server


def test_a_modern_server_is_asked_for_one_stream_which_is_replaced_before_it_is_given_up() -> None:
    watch, connection = watched(versions.MODERN)
    for number, uri in enumerate(("r:2", "r:1"), 1):
        watch.hold(uri, "a")
        assert len(connection.sent) == number
    assert asked(connection) == [("listen", ["r:2"]), ("listen", ["r:1", "r:2"])]
    assert connection.sent[0]["params"]["_meta"][versions.PROTOCOL_VERSION_KEY] == versions.NEWEST_MODERN
    # What is replaced is kept until the server has begun with what is in its place.
    for early in (None, 1, 3):
        watch.acknowledged(early)
    assert connection.cancelled() == []
    watch.acknowledged(2)
    assert connection.cancelled() == [1]
    # It is open for as long as it is wanted, and no call.
    assert connection.in_flight == 0


def test_the_end_of_a_stream_that_is_replaced_already_is_no_loss() -> None:
    watch, connection = watched(versions.MODERN)
    for uri in ("r:1", "r:2"):
        watch.hold(uri, "a")
    # Nothing is asked for again: there is not even a loop that could.
    connection.give(1, {"resultType": "complete"})
    watch.hold("r:3", "a")
    watch.acknowledged(3)
    assert connection.cancelled() == [2]


def test_a_stream_that_nobody_wants_any_more_is_given_up() -> None:
    watch, connection = watched(versions.MODERN)
    watch.hold("r:1", "a")
    watch.release("r:1", "a")
    assert len(connection.sent) == 1
    assert connection.cancelled() == [1]


def test_the_former_stream_stays_when_the_next_cannot_be_asked_for() -> None:
    watch, connection = watched(versions.MODERN)
    watch.hold("r:1", "a")
    connection.broken = True
    watch.hold("r:2", "a")
    assert connection.cancelled() == []
    connection.broken = False
    watch.hold("r:3", "a")
    assert asked(connection)[1:] == [("listen", ["r:1", "r:2", "r:3"])]
    watch.acknowledged(2)
    assert connection.cancelled() == [1]


def test_of_a_server_that_acknowledges_nothing_not_every_stream_is_kept() -> None:
    watch, connection = watched(versions.MODERN)
    for number in range(change_notices.FORMER_LIMIT + 3):
        watch.hold(f"r:{number}", "a")
    assert connection.cancelled() == [1, 2]


async def test_a_stream_that_the_server_ended_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_notices, "RELISTEN_SECONDS", 0.0)
    watch, connection = watched(versions.MODERN)
    watch.hold("r:1", "a")
    connection.give(1, {"resultType": "complete"})
    await until(lambda: len(connection.sent) == 2, "it is asked for again")
    assert asked(connection) == [("listen", ["r:1"])] * 2
    assert connection.cancelled() == []


async def test_a_stream_that_the_server_refuses_is_not_asked_for_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_notices, "RELISTEN_SECONDS", 0.0)
    watch, connection = watched(versions.MODERN)
    watch.hold("r:1", "a")
    connection.refuse(1, -32601)
    other = ResourceSubscriptions("other")
    other.connected(connection, versions.MODERN)
    other.hold("r:9", "b")
    connection.give(2, {})
    # The second has been asked for again: so the first would have been.
    await until(lambda: len(connection.sent) == 3, "the other is asked for again")
    assert asked(connection)[2] == ("listen", ["r:9"])


@pytest.mark.parametrize("late", [False, True])
async def test_a_stream_of_a_server_that_is_gone_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    monkeypatch.setattr(change_notices, "RELISTEN_SECONDS", 0.0)
    watch, former = watched(versions.MODERN)
    watch.hold("r:1", "a")
    watch.disconnected()
    successor = Recorded()
    for act in sorted(("end", "connect"), reverse=not late):
        if act == "end":
            former.end("it ended")
        else:
            watch.connected(successor, versions.MODERN)
    other, witness = watched(versions.MODERN)
    other.hold("r:9", "b")
    witness.give(1, {})
    # What was asked for again at the same time has been.
    await until(lambda: len(witness.sent) == 2, "the other is asked for again")
    assert asked(former) == asked(successor) == [("listen", ["r:1"])]


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
    monkeypatch.setattr(change_notices, "RELISTEN_SECONDS", 0.0)
    connection = await Stage(modern_script()).ready()
    number = next(item["id"] for item in connection.sent if item["method"] == "subscriptions/listen")
    connection.give(number, {"resultType": "complete"})
    await until(lambda: connection.methods().count("tools/list") == 2, "the lists are read again")
    assert connection.methods().count("subscriptions/listen") == 2


async def test_a_changed_list_is_fetched_and_then_told(stage: Stage) -> None:
    connection = await stage.ready()
    stage.script["tools/list"] = {"tools": [{"name": "t"}, {"name": "u"}]}
    connection.say(CHANGED)
    await until(lambda: stage.audience.count("offered") == 2, "it is told")
    assert stage.instance.catalog
    assert list(stage.instance.catalog.lists[TOOLS]) == ["t", "u"]
    assert stage.audience.count("noticed") == 0
    assert stage.audience.noticed_lists == [TOOLS]


async def test_a_list_that_is_read_again_for_other_reasons_was_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_notices, "RELISTEN_SECONDS", 0.0)
    stage = Stage(modern_script())
    connection = await stage.ready()
    number = next(item["id"] for item in connection.sent if item["method"] == "subscriptions/listen")
    connection.give(number, {"resultType": "complete"})
    await until(lambda: stage.audience.count("offered") == 2, "the lists were read again")
    assert stage.audience.noticed_lists == []


async def test_a_burst_of_notices_becomes_one_fetch_more(stage: Stage) -> None:
    connection = await stage.ready()
    for _ in range(50):
        connection.say(CHANGED)
    await until(lambda: stage.audience.count("offered") == 2, "it is told")
    assert connection.methods().count("tools/list") == 2


async def test_a_notice_during_a_fetch_is_followed_by_another_and_only_the_last_is_told(stage: Stage) -> None:
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


async def test_other_notices_and_questions_go_to_the_audience(stage: Stage) -> None:
    connection = await stage.ready()
    connection.say("notifications/message", {})
    connection.say("roots/list", id=1)
    assert stage.audience.told[1:] == [
        ("noticed", stage.instance, "notifications/message"),
        ("asked", stage.instance, "roots/list"),
    ]

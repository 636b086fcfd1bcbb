"""A server that hangs, and one that nobody calls."""

from typing import Any

import pytest

from hearth.config import ServerSpec
from hearth.mcp import isolation
from hearth.upstreams import supervision
from hearth.upstreams.supervision import (
    CHECKS_MISSED,
    IDLE,
    READY,
    STOPPED,
)
from hearth.upstreams.supervisor import terms_of
from unit.conversations import legacy_script, modern_script, until
from unit.staged_instances import Nobody, Stage


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that a test has the time for."""
    monkeypatch.setattr(supervision, "CHECK_SECONDS", 0.01)


@pytest.mark.parametrize(("script", "method"), [(legacy_script(ping={}), "ping"), (modern_script(), "server/discover")])
@pytest.mark.usefixtures("watchful")
async def test_a_server_that_says_nothing_is_checked_and_stays_if_it_answers(
    script: dict[str, object], method: str
) -> None:
    stage = Stage(script)
    connection = await stage.ready()
    asked = connection.methods().count(method)
    await until(lambda: connection.methods().count(method) >= asked + 5, "it is checked again and again")
    assert (stage.instance.state, stage.instance.in_flight) == (READY, 0)


@pytest.mark.usefixtures("watchful")
async def test_a_server_that_leaves_checks_unanswered_is_ended_and_comes_back_when_it_is_needed() -> None:
    stage = Stage()
    connection = await stage.ready()
    await until(lambda: connection.stopped, "it is ended")
    one = stage.instance
    assert connection.methods().count("ping") == CHECKS_MISSED
    assert (one.state, one.restarts, one.error) == (STOPPED, 1, "it left 3 checks unanswered and was ended")
    await stage.ready()
    assert (len(stage.connections), stage.audience.count("ended")) == (2, 1)


@pytest.mark.usefixtures("watchful")
async def test_a_server_with_a_call_in_flight_is_left_in_peace() -> None:
    stage = Stage()
    connection = await stage.ready()
    connection.request(b'"tools/call"', b"{}", Nobody())
    state = stage.instance._supervisor.state
    looked: list[float] = [state.check_at]

    def has_looked() -> bool:
        now = stage.instance._supervisor.state.check_at
        looked.extend([now] if now != looked[-1] else [])
        return len(looked) > 3 * CHECKS_MISSED

    await until(has_looked, "it was looked at")
    assert ("ping" in connection.methods(), stage.instance.state) == (False, READY)


async def test_a_server_that_nobody_calls_is_ended_and_comes_back_without_anybody_noticing() -> None:
    stage = Stage(upstream_idle=0.02)
    connection = await stage.ready()
    await until(lambda: stage.instance.state == IDLE, "it is ended")
    one = stage.instance
    assert (connection.stopped, one.open, one.error, one.restarts) == (True, False, None, 0)
    assert one.catalog
    await stage.ready()
    assert one.state == READY


async def test_a_server_with_something_in_flight_or_promised_is_not_idle() -> None:
    stage = Stage(upstream_idle=0.01)
    connection = await stage.ready()
    one = stage.instance
    for begin, end in (
        (lambda: one.pins.add("parked"), one.pins.clear),
        (lambda: one.subscriptions.hold("r:1", "somebody"), lambda: one.subscriptions.leave("somebody")),
        (lambda: stage.audience.owing.add(connection), stage.audience.owing.clear),
    ):
        begin()
        used = one._supervisor.state.used
        await until(lambda used=used: one._supervisor.state.used > used + 0.05, "it counts as used")
        assert one.state == READY
        end()
    await until(lambda: one.state == IDLE, "it is ended")


@pytest.mark.parametrize(
    ("mode", "keys", "seconds"),
    [
        (isolation.SHARED, {}, 1800),
        (isolation.WORKSPACE, {}, 1800),
        (isolation.SESSION, {}, 0),
        (isolation.SESSION, {"upstream_idle": 60.0}, 60),
        (isolation.SHARED, {"upstream_idle": 0.0}, 0),
    ],
)
def test_what_belongs_to_a_conversation_is_idle_only_where_the_config_says_so(
    mode: str, keys: dict[str, Any], seconds: float
) -> None:
    assert terms_of(ServerSpec(name="s", command="true", **keys), mode).idle == seconds


def test_what_is_behind_a_url_is_neither_checked_nor_given_up() -> None:
    terms = terms_of(ServerSpec(name="s", url="https://example.com/mcp"), isolation.SHARED)
    assert (terms.checked, terms.limit) == (False, None)


async def test_one_that_ended_while_somebody_is_subscribed_comes_back_by_itself() -> None:
    stage = Stage()
    connection = await stage.ready()
    stage.instance.subscriptions.hold("r:1", "somebody")
    connection.end("it fell over")
    await until(lambda: stage.instance.state == READY, "it is back")
    assert "resources/subscribe" in stage.connections[1].methods()

"""How a conversation with a server is begun: when it is needed, and again.

A server that hangs, and one that nobody calls.
"""

import asyncio
from typing import Any

import pytest

from hearth.config import ServerSpec
from hearth.errors import UpstreamError
from hearth.mcp import isolation, versions
from hearth.mcp.catalog import TOOLS
from hearth.upstreams import instance as module
from hearth.upstreams import supervision
from hearth.upstreams.supervisor import terms_of
from hearth.wire.values import RawBytes
from unit.conversations import Scripted, dual_script, legacy_script, modern_script, until
from unit.staged_instances import BROKEN, Mortal, Nobody, Stage


@pytest.mark.parametrize(
    ("script", "wanted", "era"),
    [
        (legacy_script(), versions.MODERN, versions.LEGACY),
        (modern_script(), versions.LEGACY, versions.MODERN),
        (dual_script(), versions.LEGACY, versions.LEGACY),
        (dual_script(), versions.MODERN, versions.MODERN),
    ],
)
async def test_a_ready_instance_knows_its_era_and_what_it_offers(
    script: dict[str, object], wanted: str, era: str
) -> None:
    stage = Stage(script, wanted)
    one = stage.instance
    assert (one.state, one.open) == (supervision.STOPPED, False)
    connection = await stage.ready()
    assert (one.era, one.open, one.connection) == (era, True, connection)
    assert one.catalog
    assert list(one.catalog.lists[TOOLS]) == ["t"]
    assert stage.audience.told == [("offered", one)]


async def test_everybody_who_waits_for_a_start_waits_for_the_same_one(stage: Stage) -> None:
    await asyncio.gather(*(stage.instance.ensure() for _ in range(5)))
    await stage.instance.ensure()
    assert len(stage.connections) == 1
    assert stage.audience.count("offered") == 1


async def test_one_caller_that_gives_up_does_not_take_the_start_from_the_others(stage: Stage) -> None:
    impatient, patient = (asyncio.create_task(stage.instance.ensure()) for _ in range(2))
    await until(lambda: stage.instance.state == supervision.STARTING, "it is being started")
    impatient.cancel()
    await patient
    assert stage.instance.state == supervision.READY


@pytest.mark.parametrize("era", [versions.LEGACY, versions.MODERN])
async def test_an_era_that_the_config_names_is_the_only_one_asked_for(era: str) -> None:
    connection = await Stage(dual_script(), era, era=era).ready()
    openings = [method for method in connection.methods() if method in ("initialize", "server/discover")]
    assert openings == ["initialize" if era == versions.LEGACY else "server/discover"]


async def test_a_legacy_server_is_told_the_instance_s_capabilities() -> None:
    connection = await Stage(wanted=versions.LEGACY).ready()
    assert connection.sent[0]["params"]["capabilities"] == {"roots": {}}


async def test_a_server_that_exits_when_it_is_probed_is_started_again_and_only_initialized() -> None:
    stage = Stage({key: value for key, value in legacy_script().items() if key != "server/discover"}, kind=Mortal)
    await stage.ready()
    assert [connection.methods()[:2] for connection in stage.connections] == [
        ["server/discover", "initialize"],
        ["initialize", "tools/list"],
    ]
    assert stage.instance.era == versions.LEGACY


async def test_a_server_that_exits_whatever_it_is_asked_has_failed() -> None:
    stage = Stage({}, kind=Mortal)
    with pytest.raises(UpstreamError, match="server 's' could not be started"):
        await stage.instance.ensure()
    assert (stage.instance.state, stage.instance.open, len(stage.connections)) == (supervision.FAILED, False, 2)


async def test_a_server_that_never_answers_is_given_up_and_ended() -> None:
    stage = Stage({}, start_timeout=0.05)
    with pytest.raises(UpstreamError, match=r"did not answer within 0.05 s \(key start_timeout\)"):
        await stage.instance.ensure()
    assert stage.instance.state == supervision.FAILED
    assert [connection.stopped for connection in stage.connections] == [True]
    assert stage.audience.told == []


async def test_whatever_a_start_fails_of_nothing_is_left_of_the_process() -> None:
    class Puzzling(Scripted):
        def _send(self, number: int, method: bytes, params: RawBytes) -> None:
            raise RuntimeError("nobody has foreseen this")

    stage = Stage(kind=Puzzling)
    with pytest.raises(UpstreamError, match="nobody has foreseen this"):
        await stage.instance.ensure()
    assert stage.instance.state == supervision.FAILED
    assert stage.instance.connection is None
    assert [connection.stopped for connection in stage.connections] == [True]


async def test_a_failure_is_told_to_everybody_who_waited_with_the_server_s_last_words() -> None:
    class Talkative(Scripted):
        last_words = ("one", "two", "three", "four")

    stage = Stage({"server/discover": -32601, "initialize": -32600}, kind=Talkative)
    results = await asyncio.gather(*(stage.instance.ensure() for _ in range(2)), return_exceptions=True)
    assert all("its last words: two | three | four" in str(result) for result in results)
    assert "two | three | four" in (stage.instance.error or "")


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test has the time for."""
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.usefixtures("brisk")
async def test_a_call_in_the_pause_after_failures_waits_for_the_next_start() -> None:
    stage = Stage(BROKEN)
    for _ in range(2):
        with pytest.raises(UpstreamError, match="refused every way"):
            await stage.instance.ensure()
    assert stage.instance.state == supervision.PAUSED
    stage.script = legacy_script()
    await asyncio.gather(*(stage.instance.ensure() for _ in range(3)))
    assert len(stage.connections) == 3


@pytest.mark.usefixtures("brisk")
async def test_a_server_that_keeps_failing_is_given_up_with_a_sentence_until_it_is_forgiven() -> None:
    stage = Stage(BROKEN)
    for _ in range(supervision.RESTART_LIMIT - 1):
        with pytest.raises(UpstreamError, match="refused every way"):
            await stage.instance.ensure()
    for _ in range(3):
        with pytest.raises(UpstreamError, match=r"given up after 6 failures .* refused every way.*hearth reload"):
            await stage.instance.ensure()
    assert (stage.instance.state, len(stage.connections)) == (supervision.GIVEN_UP, supervision.RESTART_LIMIT)
    stage.script = legacy_script()
    stage.instance.reset_failures()
    await stage.ready()


@pytest.mark.usefixtures("brisk")
async def test_a_server_that_worked_is_tried_again_before_those_who_wait_are_told(stage: Stage) -> None:
    connection = await stage.ready()
    stage.instance.stats.add(0.1, erred=False)
    stage.script = BROKEN
    connection.end("it fell over")
    waiting = asyncio.create_task(stage.instance.ensure())
    await until(lambda: len(stage.connections) == 3, "two starts have failed")
    stage.script = legacy_script()
    await waiting
    assert stage.instance.state == supervision.READY


async def test_one_that_does_not_become_ready_in_time_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RESTART_WAIT_SECONDS", 0.0)
    stage = Stage(BROKEN, start_timeout=0.05)
    for _ in range(2):
        with pytest.raises(UpstreamError, match="refused every way"):
            await stage.instance.ensure()
    with pytest.raises(UpstreamError, match=r"was not ready within 0.05 s: .*refused every way"):
        await stage.instance.ensure()


async def test_a_start_after_a_failure_is_a_fresh_one() -> None:
    stage = Stage({"server/discover": -32601, "initialize": -32600})
    with pytest.raises(UpstreamError):
        await stage.instance.ensure()
    stage.script = legacy_script()
    await stage.ready()
    assert stage.instance.error is None


async def test_a_server_that_restarts_is_asked_only_for_the_era_that_it_spoke() -> None:
    stage = Stage(dual_script(), versions.LEGACY)
    (await stage.ready()).end("it fell over")
    connection = await stage.ready()
    assert connection.methods()[:2] == ["initialize", "tools/list"]


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
    assert (stage.instance.state, stage.instance.in_flight) == (supervision.READY, 0)


@pytest.mark.usefixtures("watchful")
async def test_a_server_that_leaves_checks_unanswered_is_ended_and_comes_back_when_it_is_needed(stage: Stage) -> None:
    connection = await stage.ready()
    await until(lambda: connection.stopped, "it is ended")
    one = stage.instance
    assert connection.methods().count("ping") == supervision.CHECKS_MISSED
    assert (one.state, one.restarts, one.error) == (supervision.STOPPED, 1, "it left 3 checks unanswered and was ended")
    await stage.ready()
    assert (len(stage.connections), stage.audience.count("ended")) == (2, 1)


@pytest.mark.usefixtures("watchful")
async def test_a_server_with_a_call_in_flight_is_left_in_peace(stage: Stage) -> None:
    connection = await stage.ready()
    connection.request(b'"tools/call"', b"{}", Nobody())
    looked: list[float] = [stage.instance.supervisor.state.check_at]

    def has_looked() -> bool:
        now = stage.instance.supervisor.state.check_at
        looked.extend([now] if now != looked[-1] else [])
        return len(looked) > 3 * supervision.CHECKS_MISSED

    await until(has_looked, "it was looked at")
    assert ("ping" in connection.methods(), stage.instance.state) == (False, supervision.READY)


async def test_a_server_that_nobody_calls_is_ended_and_comes_back_without_anybody_noticing() -> None:
    stage = Stage(upstream_idle=0.02)
    connection = await stage.ready()
    await until(lambda: stage.instance.state == supervision.IDLE, "it is ended")
    one = stage.instance
    assert (connection.stopped, one.open, one.error, one.restarts) == (True, False, None, 0)
    assert one.catalog
    await stage.ready()
    assert one.state == supervision.READY


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
        used = one.supervisor.state.used
        await until(lambda used=used: one.supervisor.state.used > used + 0.05, "it counts as used")
        assert one.state == supervision.READY
        end()
    await until(lambda: one.state == supervision.IDLE, "it is ended")


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


async def test_one_that_ended_while_somebody_is_subscribed_comes_back_by_itself(stage: Stage) -> None:
    connection = await stage.ready()
    stage.instance.subscriptions.hold("r:1", "somebody")
    connection.end("it fell over")
    await until(lambda: stage.instance.state == supervision.READY, "it is back")
    assert "resources/subscribe" in stage.connections[1].methods()

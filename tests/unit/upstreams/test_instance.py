"""The life of one conversation with a server: started when it is needed, and again, and ended."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hearth.config import ServerSpec
from hearth.errors import HearthError, UpstreamError
from hearth.mcp import eras, isolation
from hearth.mcp.offering import TOOLS
from hearth.upstreams import freshness, supervision
from hearth.upstreams import instance as module
from hearth.upstreams.connection import Owner
from hearth.upstreams.instance import Instance
from hearth.upstreams.supervision import (
    CHECKS_MISSED,
    FAILED,
    GIVEN_UP,
    IDLE,
    PAUSED,
    READY,
    RESTART_LIMIT,
    RETIRED,
    STARTING,
    STOPPED,
    STOPPING,
)
from hearth.upstreams.supervisor import terms_of
from hearth.upstreams.tenancy import Tenant
from hearth.wire.values import RawBytes
from unit.conversations import Audience, Scripted, dual_script, legacy_script, modern_script, run, until

CHANGED = "notifications/tools/list_changed"


class Mortal(Scripted):
    """Ends when it is asked for something that it does not know."""

    def _send(self, number: int, method: bytes, params: RawBytes) -> None:
        super()._send(number, method, params)
        if method.strip(b'"').decode() not in self.script:
            asyncio.get_running_loop().call_soon(self.end, "it ended by itself (exit code 1)")


class Stage:
    """An instance, and every connection that it made."""

    def __init__(
        self,
        script: dict[str, object] | None = None,
        wanted: str = eras.MODERN,
        kind: Callable[[Owner, dict[str, object]], Scripted] = Scripted,
        **spec: object,
    ) -> None:
        self.script = legacy_script() if script is None else script
        self.kind = kind
        self.connections: list[Scripted] = []
        self.audience = Audience()
        self.instance = Instance(
            ServerSpec(name="s", command="true", **spec),  # type: ignore[arg-type]
            isolation.SHARED,
            Tenant("1"),
            wanted,
            self._connect,
            b'{"roots":{}}',
            self.audience,
        )

    async def _connect(self, owner: Owner, tenant: Tenant) -> Scripted:
        self.connections.append(self.kind(owner, self.script))
        return self.connections[-1]

    async def ready(self) -> Scripted:
        await self.instance.ensure()
        assert self.instance.state == READY
        return self.connections[-1]


class Turn:
    """A call that waits."""

    def __init__(self, told: list[str]) -> None:
        self._told = told

    def send(self) -> None:
        self._told.append("sent")

    def failed(self, problem: HearthError) -> None:
        self._told.append(str(problem))


# --- starting


@pytest.mark.parametrize(
    ("script", "wanted", "era"),
    [
        (legacy_script(), eras.MODERN, eras.LEGACY),
        (modern_script(), eras.LEGACY, eras.MODERN),
        (dual_script(), eras.LEGACY, eras.LEGACY),
        (dual_script(), eras.MODERN, eras.MODERN),
    ],
)
def test_a_ready_instance_knows_its_era_and_what_it_offers(script: dict[str, object], wanted: str, era: str) -> None:
    async def body() -> None:
        stage = Stage(script, wanted)
        one = stage.instance
        assert (one.state, one.open) == (STOPPED, False)
        connection = await stage.ready()
        assert (one.era, one.open, one.connection) == (era, True, connection)
        assert one.offering
        assert list(one.offering.lists[TOOLS]) == ["t"]
        assert stage.audience.told == [("offered", one)]

    run(body())


def test_everybody_who_waits_for_a_start_waits_for_the_same_one() -> None:
    async def body() -> None:
        stage = Stage()
        await asyncio.gather(*(stage.instance.ensure() for _ in range(5)))
        await stage.instance.ensure()
        assert len(stage.connections) == 1
        assert stage.audience.count("offered") == 1

    run(body())


def test_one_caller_that_gives_up_does_not_take_the_start_from_the_others() -> None:
    async def body() -> None:
        stage = Stage()
        impatient, patient = (asyncio.create_task(stage.instance.ensure()) for _ in range(2))
        await until(lambda: stage.instance.state == STARTING, "it is being started")
        impatient.cancel()
        await patient
        assert stage.instance.state == READY

    run(body())


@pytest.mark.parametrize("era", [eras.LEGACY, eras.MODERN])
def test_an_era_that_the_config_names_is_the_only_one_asked_for(era: str) -> None:
    async def body() -> None:
        stage = Stage(dual_script(), era, era=era)
        connection = await stage.ready()
        openings = [method for method in connection.methods() if method in ("initialize", "server/discover")]
        assert openings == ["initialize" if era == eras.LEGACY else "server/discover"]

    run(body())


def test_a_legacy_server_is_told_the_instance_s_capabilities() -> None:
    async def body() -> None:
        connection = await Stage(wanted=eras.LEGACY).ready()
        assert connection.sent[0]["params"]["capabilities"] == {"roots": {}}

    run(body())


def test_a_server_that_exits_when_it_is_probed_is_started_again_and_only_initialized() -> None:
    async def body() -> None:
        script = {key: value for key, value in legacy_script().items() if key != "server/discover"}
        stage = Stage(script, kind=Mortal)
        await stage.ready()
        assert [connection.methods()[:2] for connection in stage.connections] == [
            ["server/discover", "initialize"],
            ["initialize", "tools/list"],
        ]
        assert stage.instance.era == eras.LEGACY

    run(body())


def test_a_server_that_exits_whatever_it_is_asked_has_failed() -> None:
    async def body() -> None:
        stage = Stage({}, kind=Mortal)
        with pytest.raises(UpstreamError, match="server 's' could not be started"):
            await stage.instance.ensure()
        assert (stage.instance.state, stage.instance.open, len(stage.connections)) == (FAILED, False, 2)

    run(body())


def test_a_server_that_never_answers_is_given_up_and_ended() -> None:
    async def body() -> None:
        stage = Stage({}, start_timeout=0.05)
        with pytest.raises(UpstreamError, match=r"did not answer within 0.05 s \(key start_timeout\)"):
            await stage.instance.ensure()
        assert stage.instance.state == FAILED
        assert [connection.stopped for connection in stage.connections] == [True]
        assert stage.audience.told == []

    run(body())


def test_whatever_a_start_fails_of_nothing_is_left_of_the_process() -> None:
    class Puzzling(Scripted):
        def _send(self, number: int, method: bytes, params: RawBytes) -> None:
            raise RuntimeError("nobody has foreseen this")

    async def body() -> None:
        stage = Stage(kind=Puzzling)
        with pytest.raises(UpstreamError, match="nobody has foreseen this"):
            await stage.instance.ensure()
        assert stage.instance.state == FAILED
        assert stage.instance.connection is None
        assert [connection.stopped for connection in stage.connections] == [True]

    run(body())


def test_a_failure_is_told_to_everybody_who_waited_with_the_server_s_last_words() -> None:
    class Talkative(Scripted):
        last_words = ("one", "two", "three", "four")

    async def body() -> None:
        stage = Stage({"server/discover": -32601, "initialize": -32600}, kind=Talkative)
        results = await asyncio.gather(*(stage.instance.ensure() for _ in range(2)), return_exceptions=True)
        assert all("its last words: two | three | four" in str(result) for result in results)
        assert "two | three | four" in (stage.instance.error or "")

    run(body())


BROKEN: dict[str, object] = {"server/discover": -32601, "initialize": -32600}


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses that a test has the time for."""
    monkeypatch.setattr(supervision, "FIRST_PAUSE_SECONDS", 0.001)


@pytest.mark.usefixtures("brisk")
def test_a_call_in_the_pause_after_failures_waits_for_the_next_start() -> None:
    async def body() -> None:
        stage = Stage(BROKEN)
        for _ in range(2):
            with pytest.raises(UpstreamError, match="refused every way"):
                await stage.instance.ensure()
        assert stage.instance.state == PAUSED
        stage.script = legacy_script()
        await asyncio.gather(*(stage.instance.ensure() for _ in range(3)))
        assert len(stage.connections) == 3

    run(body())


@pytest.mark.usefixtures("brisk")
def test_a_server_that_keeps_failing_is_given_up_with_a_sentence_until_it_is_forgiven() -> None:
    async def body() -> None:
        stage = Stage(BROKEN)
        for _ in range(RESTART_LIMIT - 1):
            with pytest.raises(UpstreamError, match="refused every way"):
                await stage.instance.ensure()
        for _ in range(3):
            with pytest.raises(UpstreamError, match=r"given up after 6 failures .* refused every way.*hearth reload"):
                await stage.instance.ensure()
        assert (stage.instance.state, len(stage.connections)) == (GIVEN_UP, RESTART_LIMIT)
        stage.script = legacy_script()
        stage.instance.forgive()
        await stage.ready()

    run(body())


@pytest.mark.usefixtures("brisk")
def test_a_server_that_worked_is_tried_again_before_those_who_wait_are_told() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        stage.instance.figures.add(0.1, erred=False)
        stage.script = BROKEN
        connection.end("it fell over")
        waiting = asyncio.create_task(stage.instance.ensure())
        await until(lambda: len(stage.connections) == 3, "two starts have failed")
        stage.script = legacy_script()
        await waiting
        assert stage.instance.state == READY

    run(body())


def test_one_that_does_not_become_ready_in_time_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTART_WAIT_SECONDS", 0.0)

    async def body() -> None:
        stage = Stage(BROKEN, start_timeout=0.05)
        for _ in range(2):
            with pytest.raises(UpstreamError, match="refused every way"):
                await stage.instance.ensure()
        with pytest.raises(UpstreamError, match=r"was not ready within 0.05 s: .*refused every way"):
            await stage.instance.ensure()

    run(body())


# --- health and idleness


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that a test has the time for."""
    monkeypatch.setattr(supervision, "CHECK_SECONDS", 0.01)


@pytest.mark.parametrize(("script", "method"), [(legacy_script(ping={}), "ping"), (modern_script(), "server/discover")])
@pytest.mark.usefixtures("watchful")
def test_a_server_that_says_nothing_is_checked_and_stays_if_it_answers(script: dict[str, object], method: str) -> None:
    async def body() -> None:
        stage = Stage(script)
        connection = await stage.ready()
        asked = connection.methods().count(method)
        await until(lambda: connection.methods().count(method) >= asked + 5, "it is checked again and again")
        assert (stage.instance.state, stage.instance.in_flight) == (READY, 0)

    run(body())


@pytest.mark.usefixtures("watchful")
def test_a_server_that_leaves_checks_unanswered_is_ended_and_comes_back_when_it_is_needed() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        await until(lambda: connection.stopped, "it is ended")
        one = stage.instance
        assert connection.methods().count("ping") == CHECKS_MISSED
        assert (one.state, one.restarts, one.error) == (STOPPED, 1, "it left 3 checks unanswered and was ended")
        await stage.ready()
        assert (len(stage.connections), stage.audience.count("ended")) == (2, 1)

    run(body())


@pytest.mark.usefixtures("watchful")
def test_a_server_with_a_call_in_flight_is_left_in_peace() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        connection.request(b'"tools/call"', b"{}", _Nobody())
        state = stage.instance._supervisor.state
        looked: list[float] = [state.check_at]

        def has_looked() -> bool:
            now = stage.instance._supervisor.state.check_at
            looked.extend([now] if now != looked[-1] else [])
            return len(looked) > 3 * CHECKS_MISSED

        await until(has_looked, "it was looked at")
        assert ("ping" in connection.methods(), stage.instance.state) == (False, READY)

    run(body())


def test_a_server_that_nobody_calls_is_ended_and_comes_back_without_anybody_noticing() -> None:
    async def body() -> None:
        stage = Stage(upstream_idle=0.02)
        connection = await stage.ready()
        await until(lambda: stage.instance.state == IDLE, "it is ended")
        one = stage.instance
        assert (connection.stopped, one.open, one.error, one.restarts) == (True, False, None, 0)
        assert one.offering
        await stage.ready()
        assert one.state == READY

    run(body())


def test_a_server_with_something_in_flight_or_promised_is_not_idle() -> None:
    async def body() -> None:
        stage = Stage(upstream_idle=0.01)
        connection = await stage.ready()
        one = stage.instance
        for begin, end in (
            (lambda: one.pins.add("parked"), one.pins.clear),
            (lambda: one.watch.hold("r:1", "somebody"), lambda: one.watch.leave("somebody")),
            (lambda: stage.audience.owing.add(connection), stage.audience.owing.clear),
        ):
            begin()
            used = one._supervisor.state.used
            await until(lambda used=used: one._supervisor.state.used > used + 0.05, "it counts as used")
            assert one.state == READY
            end()
        await until(lambda: one.state == IDLE, "it is ended")

    run(body())


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


def test_one_that_ended_while_somebody_is_subscribed_comes_back_by_itself() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        stage.instance.watch.hold("r:1", "somebody")
        connection.end("it fell over")
        await until(lambda: stage.instance.state == READY, "it is back")
        assert "resources/subscribe" in stage.connections[1].methods()

    run(body())


def test_a_start_after_a_failure_is_a_fresh_one() -> None:
    async def body() -> None:
        stage = Stage({"server/discover": -32601, "initialize": -32600})
        with pytest.raises(UpstreamError):
            await stage.instance.ensure()
        stage.script = legacy_script()
        await stage.ready()
        assert stage.instance.error is None

    run(body())


def test_a_server_that_restarts_is_asked_only_for_the_era_that_it_spoke() -> None:
    async def body() -> None:
        stage = Stage(dual_script(), eras.LEGACY)
        (await stage.ready()).end("it fell over")
        connection = await stage.ready()
        assert connection.methods()[:2] == ["initialize", "tools/list"]

    run(body())


# --- what it tells


def test_a_modern_server_is_asked_for_the_notices_that_it_announces() -> None:
    async def body() -> None:
        connection = await Stage(modern_script()).ready()
        (listen,) = (request for request in connection.sent if request["method"] == "subscriptions/listen")
        assert listen["params"]["notifications"] == {"toolsListChanged": True}
        assert connection.in_flight == 0

    run(body())


def test_a_modern_server_that_announces_nothing_is_not_asked_for_notices() -> None:
    async def body() -> None:
        discovered = {"resultType": "complete", "supportedVersions": [], "capabilities": {"tools": {}}}
        connection = await Stage(modern_script(**{"server/discover": discovered})).ready()
        assert "subscriptions/listen" not in connection.methods()

    run(body())


def test_a_stream_of_notices_that_the_server_ended_is_asked_for_again_and_so_are_the_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(freshness, "RELISTEN_SECONDS", 0.0)

    async def body() -> None:
        stage = Stage(modern_script())
        connection = await stage.ready()
        number = next(item["id"] for item in connection.sent if item["method"] == "subscriptions/listen")
        connection.give(number, {"resultType": "complete"})
        await until(lambda: connection.methods().count("tools/list") == 2, "the lists are read again")
        assert connection.methods().count("subscriptions/listen") == 2

    run(body())


def test_a_changed_list_is_fetched_and_then_told() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        stage.script["tools/list"] = {"tools": [{"name": "t"}, {"name": "u"}]}
        connection.say(CHANGED)
        await until(lambda: stage.audience.count("offered") == 2, "it is told")
        assert stage.instance.offering
        assert list(stage.instance.offering.lists[TOOLS]) == ["t", "u"]
        assert stage.audience.count("noticed") == 0

    run(body())


def test_a_burst_of_notices_becomes_one_fetch_more() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        for _ in range(50):
            connection.say(CHANGED)
        await until(lambda: stage.audience.count("offered") == 2, "it is told")
        assert connection.methods().count("tools/list") == 2

    run(body())


def test_a_notice_during_a_fetch_is_followed_by_another_and_only_the_last_is_told() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        del stage.script["tools/list"]
        connection.say(CHANGED)
        await until(lambda: connection.methods().count("tools/list") == 2, "the fetch is on its way")
        connection.say(CHANGED)
        stage.script["tools/list"] = {"tools": [{"name": "last"}]}
        connection.give(connection.sent[-1]["id"], {"tools": [{"name": "first"}]})
        await until(lambda: stage.audience.count("offered") == 2, "it is told")
        assert stage.instance.offering
        assert list(stage.instance.offering.lists[TOOLS]) == ["last"]

    run(body())


def test_a_notice_before_the_server_is_ready_is_not_lost() -> None:
    async def body() -> None:
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
        assert stage.instance.offering
        assert list(stage.instance.offering.lists[TOOLS]) == ["late"]

    run(body())


def test_a_list_that_never_comes_does_not_keep_later_ones_away() -> None:
    async def body() -> None:
        stage = Stage(start_timeout=0.05)
        connection = await stage.ready()
        tools = stage.script.pop("tools/list")
        connection.say(CHANGED)
        await until(lambda: connection.in_flight == 1, "it is asked")
        await until(lambda: connection.in_flight == 0, "it is given up")
        stage.script["tools/list"] = tools
        connection.say(CHANGED)
        await until(lambda: stage.audience.count("offered") == 2, "it is told")

    run(body())


def test_other_notices_and_questions_go_to_the_audience() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        connection.say("notifications/message", {})
        connection.say("roots/list", id=1)
        assert stage.audience.told[1:] == [
            ("noticed", stage.instance, "notifications/message"),
            ("asked", stage.instance, "roots/list"),
        ]

    run(body())


# --- the end of a process


def test_a_server_that_is_lost_takes_no_calls_and_the_next_start_waits_for_its_end() -> None:
    class Slow(Scripted):
        async def stop(self) -> None:
            await asyncio.sleep(0)
            order.append("the former has ended")
            await super().stop()

        async def open(self) -> None:
            order.append("opened")

    order: list[str] = []

    async def body() -> None:
        stage = Stage(kind=Slow)
        connection = await stage.ready()
        stage.instance.lost(connection)
        one = stage.instance
        assert (one.state, one.open, one.connection, one.restarts) == (STOPPING, False, None, 1)
        assert one.error == "it closed its input or output"
        one.watch.hold("r:1", "somebody")
        await stage.ready()
        assert ["resources/subscribe" in each.methods() for each in stage.connections] == [False, True]
        assert order == ["opened", "the former has ended", "opened"]
        assert stage.audience.count("ended") == 1

    run(body())


def test_the_end_of_a_process_is_told_once_and_its_reason_is_kept() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        stage.instance.lost(connection)
        connection.end("it ended by itself (exit code 3)")
        assert stage.audience.told[1:] == [("ended", stage.instance)]
        assert (stage.instance.error, stage.instance.restarts) == ("it ended by itself (exit code 3)", 1)

    run(body())


def test_the_last_words_of_a_server_that_ended_are_in_its_error() -> None:
    class Talkative(Scripted):
        last_words = ("out of memory",)

    async def body() -> None:
        stage = Stage(kind=Talkative)
        (await stage.ready()).end("it ended by itself (signal 9)")
        assert stage.instance.error == "it ended by itself (signal 9); its last words: out of memory"

    run(body())


def test_what_a_former_connection_says_of_its_end_does_not_touch_its_successor() -> None:
    async def body() -> None:
        stage = Stage()
        former = await stage.ready()
        former.end("it ended")
        successor = await stage.ready()
        stage.instance.lost(former)
        stage.instance.closed(former, "again")
        assert (stage.instance.state, stage.instance.connection) == (READY, successor)
        assert stage.audience.count("ended") == 1

    run(body())


def test_what_is_watched_is_watched_again_after_a_restart() -> None:
    async def body() -> None:
        stage = Stage()
        stage.instance.watch.hold("r:1", "somebody")
        (await stage.ready()).end("it ended")
        await stage.ready()
        assert ["resources/subscribe" in connection.methods() for connection in stage.connections] == [True, True]

    run(body())


def test_a_restarted_server_is_at_no_log_level_yet() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        stage.instance.log_level = "debug"
        connection.end("it ended")
        await stage.ready()
        assert stage.instance.log_level is None

    run(body())


# --- turns


@pytest.mark.parametrize(("limit", "full"), [(None, False), (1, True), (2, False)])
def test_an_instance_is_full_when_as_many_are_in_flight_as_may_be(limit: int | None, full: bool) -> None:
    async def body() -> None:
        stage = Stage(max_concurrency=limit)
        connection = await stage.ready()
        assert not stage.instance.queue.full
        connection.request(b'"tools/call"', b"{}", _Nobody())
        assert stage.instance.queue.full is full

    run(body())


class _Nobody:
    def answered(self, message: Any) -> None: ...
    def failed(self, problem: HearthError) -> None: ...
    def progressed(self, params: Any) -> None: ...


def test_whoever_waits_is_sent_when_there_is_room_and_failed_when_there_never_will_be() -> None:
    async def body() -> None:
        stage = Stage(max_concurrency=1)
        connection = await stage.ready()
        number = connection.request(b'"tools/call"', b"{}", _Nobody())
        told: list[str] = []
        stage.instance.queue.add(Turn(told))
        assert (told, stage.instance.queue.full) == ([], True)
        connection.give(number, {})
        assert told == ["sent"]
        connection.request(b'"tools/call"', b"{}", _Nobody())
        stage.instance.queue.add(Turn(told))
        stage.script = BROKEN
        connection.end("it ended")
        await until(lambda: len(told) == 2, "it is told")
        assert "refused every way" in told[1]

    run(body())


# --- ending for good


def test_a_retired_instance_ends_its_server_and_does_not_come_back() -> None:
    async def body() -> None:
        stage = Stage(max_concurrency=1)
        connection = await stage.ready()
        told: list[str] = []
        stage.instance.queue.add(Turn(told))
        await stage.instance.retire()
        assert connection.stopped
        assert (stage.instance.state, stage.instance.open, stage.instance.connection) == (RETIRED, False, None)
        assert told == ["server 's' ended before it took the call"]
        with pytest.raises(UpstreamError, match="no longer in the config"):
            await stage.instance.ensure()
        assert stage.audience.count("ended") == 0

    run(body())


@pytest.mark.parametrize("begun", [False, True])
def test_who_waits_for_a_start_that_is_retired_is_told(begun: bool) -> None:
    async def body() -> None:
        stage = Stage({})
        starting = asyncio.create_task(stage.instance.ensure())
        await until(lambda: stage.connections if begun else stage.instance.state == STARTING, "it is being started")
        await stage.instance.retire()
        with pytest.raises(UpstreamError, match="was stopped while it was being started"):
            await starting
        assert [connection.stopped for connection in stage.connections] == [True] * begun

    run(body())


def test_an_instance_that_is_retired_while_its_failed_start_is_being_ended_waits_for_that_end() -> None:
    class Stubborn(Scripted):
        """Ends when the test says so."""

        def __init__(self, owner: Owner | None, script: dict[str, object]) -> None:
            super().__init__(owner, script)
            self.told, self.may_end = asyncio.Event(), asyncio.Event()

        async def stop(self) -> None:
            self.told.set()
            await self.may_end.wait()
            await super().stop()

    async def body() -> None:
        stage = Stage({"initialize": -32600, "server/discover": -32601}, kind=Stubborn)
        starting = asyncio.create_task(stage.instance.ensure())
        await until(lambda: stage.connections, "it is being started")
        connection = stage.connections[0]
        assert isinstance(connection, Stubborn)
        await connection.told.wait()
        retiring = asyncio.create_task(stage.instance.retire())
        with pytest.raises(UpstreamError, match="was stopped while it was being started"):
            await starting
        assert not retiring.done()
        connection.may_end.set()
        await retiring
        assert connection.stopped

    run(body())


def test_an_outdated_instance_finishes_its_calls_before_it_ends() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        number = connection.request(b'"tools/call"', b"{}", _Nobody())
        finishing = asyncio.create_task(stage.instance.finish(60))
        await until(lambda: stage.instance.obsolete, "it takes no new calls")
        assert (stage.instance.open, connection.stopped) == (False, False)
        connection.give(number, {})
        await finishing
        assert connection.stopped

    run(body())


class _Failing(_Nobody):
    """Keeps what it is told instead of an answer."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def failed(self, problem: HearthError) -> None:
        self.problems.append(str(problem))


def test_an_outdated_instance_does_not_wait_for_its_calls_for_ever() -> None:
    async def body() -> None:
        stage = Stage()
        connection = await stage.ready()
        waiter = _Failing()
        connection.request(b'"tools/call"', b"{}", waiter)
        await stage.instance.finish(0.01)
        assert connection.stopped
        assert waiter.problems == [
            "server 's' is ended, for another config or because somebody restarts it, and has not finished within"
            " 0.01 s (drain_timeout); the call may or may not have run"
        ]

    run(body())


def test_an_instance_that_is_outdated_while_it_is_started_is_not_open() -> None:
    async def body() -> None:
        stage = Stage()
        starting = asyncio.create_task(stage.instance.ensure())
        await until(lambda: stage.instance.state == STARTING, "it is being started")
        stage.instance.outdate()
        await starting
        assert (stage.instance.state, stage.instance.open) == (READY, False)

    run(body())


def test_a_process_is_shown_by_its_pid_where_there_is_one() -> None:
    class Process(Scripted):
        pid = 4711

    async def body() -> None:
        stage = Stage(kind=Process)
        assert stage.instance.pids == []
        await stage.ready()
        assert stage.instance.pids == [4711]
        other = Stage()
        await other.ready()
        assert other.instance.pids == []

    run(body())

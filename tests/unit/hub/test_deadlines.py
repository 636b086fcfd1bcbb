"""Calls that take too long: given up, told why, and whose time does not run."""

import asyncio
from time import monotonic

import pytest

from hearth.hub import dispatcher as deadlines
from hearth.hub.calls import Call
from hearth.hub.dispatcher import Deadlines
from hearth.hub.input_required import SuspendedCalls
from hearth.hub.sessions import Session
from hearth.mcp import versions
from hearth.upstreams.change_notices import IgnoreReply
from hearth.upstreams.instance import Instance
from hearth.upstreams.server import Server
from unit.conversations import until
from unit.hub.stage import client, instance, opened, sent, server


class Stage:
    """A server with limits, and calls on it."""

    def __init__(self, **spec: object) -> None:
        self.server = server(**{"call_timeout": 10.0, "call_ceiling": 100.0, **spec})  # type: ignore[arg-type]
        self.instance, self.connection = instance(self.server)
        self.looks = 0
        self.leaving: list[Instance] = []
        self.deadlines = Deadlines(self._servers, lambda: self.leaving)
        self._count = 0

    def _servers(self) -> list[Server]:
        self.looks += 1
        return [self.server]

    def call(self, member: Session, silent_for: float = 0.0, runs_for: float = 0.0) -> Call:
        self._count += 1
        call = sent(member, self.server, self.instance, b"%d" % self._count)
        call.touched = monotonic() - silent_for
        assert call.attempt is not None
        call.attempt = call.attempt._replace(started=monotonic() - runs_for)
        return call


@pytest.mark.parametrize(
    ("spec", "silent_for", "runs_for", "key"),
    [
        ({}, 9.0, 99.0, None),
        ({}, 11.0, 11.0, "call_timeout"),
        ({}, 1.0, 101.0, "call_ceiling"),
        ({"call_timeout": 0.0}, 99.0, 99.0, None),
        ({"call_timeout": 0.0}, 99.0, 101.0, "call_ceiling"),
        ({"call_ceiling": 0.0}, 1.0, 1e6, None),
        ({"call_ceiling": 0.0}, 11.0, 1e6, "call_timeout"),
    ],
)
async def test_a_call_is_given_up_when_nothing_was_heard_for_long_or_it_takes_too_long_altogether(
    spec: dict[str, object], silent_for: float, runs_for: float, key: str | None
) -> None:
    stage, (member, sink) = Stage(**spec), client()
    call = stage.call(member, silent_for, runs_for)
    stage.deadlines._look()
    if key is None:
        assert call.is_open
        assert stage.connection.notified == []
        return
    (answer,) = sink.messages("answer")
    assert answer["error"]["code"] == -32603
    assert "server 's'" in answer["error"]["message"]
    assert f"(key {key})" in answer["error"]["message"]
    assert [item["params"] for item in stage.connection.notified] == [{"requestId": 1, "reason": "it took too long"}]


async def test_one_call_s_end_of_patience_is_nobody_else_s() -> None:
    stage, (member, _) = Stage(), client()
    calls = [stage.call(member, silent_for) for silent_for in (11.0, 0.0, 12.0)]
    stage.deadlines._look()
    assert [call.is_open for call in calls] == [False, True, False]
    assert stage.connection.cancelled() == [1, 3]


async def test_progress_gives_a_call_more_time() -> None:
    stage, (member, _) = Stage(), client()
    call = stage.call(member, 11.0, 11.0)
    stage.connection.say("notifications/progress", {"progressToken": 1, "progress": 1})
    stage.deadlines._look()
    assert call.is_open


async def test_the_time_of_a_call_does_not_run_while_its_client_is_asked() -> None:
    stage, (member, _) = Stage(), client()
    call = stage.call(member, 11.0, 101.0)
    answered = asyncio.Event()
    asking = asyncio.create_task(answered.wait())
    call.attach(asking)  # type: ignore[arg-type]
    stage.deadlines._look()
    assert call.is_open
    answered.set()
    await asking


async def test_a_parked_call_has_time_while_it_waits_for_its_client_and_none_left_over_when_it_goes_on() -> None:
    stage, (member, sink) = Stage(), client(versions.MODERN)
    call = stage.call(member)
    parked = SuspendedCalls(lambda: 60.0, lambda: 5, lambda call: None).take(call)
    call.touched = 0.0
    parked.call = None
    stage.deadlines._look()
    assert sink.said == []
    parked.call = call
    stage.deadlines._look()
    assert "call_timeout" in sink.messages("answer")[0]["error"]["message"]
    assert stage.connection.cancelled() == [1]


async def test_hearth_s_own_requests_and_calls_that_wait_for_their_turn_are_left_alone() -> None:
    stage, (member, _) = Stage(), client()
    stage.connection.request(b'"logging/setLevel"', b"{}", IgnoreReply("s"))
    opened(member)
    stage.deadlines._look()
    assert stage.connection.in_flight == 1


async def test_it_is_looked_again_for_as_long_as_something_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "INTERVAL_SECONDS", 0.0)
    stage, (member, _) = Stage(), client()
    assert not stage.deadlines.armed
    stage.call(member)
    stage.deadlines.arm()
    assert stage.deadlines.armed
    await until(lambda: stage.looks >= 3, "it is looked again and again")
    assert stage.deadlines.armed
    stage.connection.give(1, {})
    await until(lambda: not stage.deadlines.armed, "nothing is looked at any more")


async def test_what_was_sent_during_a_look_does_not_make_it_two() -> None:
    stage, (member, sink) = Stage(), client()
    stage.call(member, 11.0)
    stage.call(member)
    answer = sink.answer

    def answer_and_send(*given: object) -> None:
        answer(*given)  # type: ignore[arg-type]
        stage.deadlines.arm()
        stage.deadlines.arm = None  # type: ignore[assignment,method-assign]

    sink.answer = answer_and_send  # type: ignore[assignment,method-assign]
    stage.deadlines._look()
    assert stage.deadlines.armed


async def test_calls_on_an_instance_that_takes_no_new_ones_have_their_time_too() -> None:
    stage, (member, _) = Stage(), client()
    calls = [stage.call(member, silent_for) for silent_for in (11.0, 0.0)]
    stage.server.instances.clear()
    stage.leaving.append(stage.instance)
    stage.deadlines._look()
    assert [call.is_open for call in calls] == [False, True]
    assert stage.deadlines.armed


async def test_a_server_that_does_not_run_has_nothing_to_look_at() -> None:
    stage, (member, sink) = Stage(), client()
    stage.call(member, 11.0)
    stage.instance.connection = None
    stage.deadlines._look()
    assert (sink.said, stage.deadlines.armed) == ([], False)

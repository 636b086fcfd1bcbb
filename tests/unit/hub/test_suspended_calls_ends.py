"""Parked calls that do not go on: states that are not good, clients that do not come back."""

from typing import Any

import pytest

from hearth.errors import MessageError, Refused
from hearth.mcp import versions
from hearth.mcp.request_state import StateRefused
from hearth.wire import json
from unit.conversations import until
from unit.hub.stage import client, opened
from unit.hub.suspended_stage import ACCEPT, ALL, ASKED, Stage, keys

# --- states that are not good


async def test_a_state_is_good_once() -> None:
    stage = Stage()
    stage.ask(stage.call())
    required = stage.result()
    stage.retry(required)
    with pytest.raises(StateRefused) as caught:
        stage.retry(required)
    assert caught.value.data == {"reason": "spent"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"params": {"name": "s__t", "arguments": {"a": 2}}}, "request"),
        ({"params": {"name": "s__u", "arguments": {"a": 1}}}, "request"),
        ({"method": "prompts/get"}, "request"),
        ({"member": "another"}, "principal"),
    ],
)
async def test_a_state_is_good_for_that_client_and_that_call_only(change: dict[str, Any], reason: str) -> None:
    stage = Stage()
    stage.ask(stage.call())
    if "member" in change:
        change["member"] = client(versions.MODERN)[0]
    required = stage.result()
    with pytest.raises(StateRefused) as caught:
        stage.retry(required, **change)
    assert caught.value.data == {"reason": reason}
    # Nobody is attached, and the right one may still come.
    assert stage.attached == []
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert len(stage.connection.answers) == 1


async def test_a_state_that_is_no_string_is_refused() -> None:
    stage = Stage()
    call = opened(stage.member, era=versions.MODERN)
    with pytest.raises(MessageError, match="string"):
        stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, "requestState": 7})))


@pytest.mark.parametrize("params", [{}, {"requestState": "foreign"}])
async def test_a_state_of_somebody_else_s_making_is_not_hearth_s_to_open(params: dict[str, object]) -> None:
    stage = Stage()
    call = opened(stage.member, era=versions.MODERN)
    assert stage.parking.retry(call, "tools/call", json.split(json.dumps({**ASKED, **params}))) is False
    assert call.is_open


async def test_a_response_that_is_none_is_refused_and_may_be_mended() -> None:
    stage = Stage()
    stage.ask(stage.call())
    required = stage.result()
    with pytest.raises(MessageError, match=keys(required)[0]):
        stage.retry(required, **{keys(required)[0]: {"action": "maybe"}})
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert len(stage.connection.answers) == 1


# --- the end of patience


@pytest.mark.parametrize(
    ("method", "answer"),
    [("elicitation/create", {"result": {"action": "cancel"}}), ("roots/list", None)],
)
async def test_a_call_whose_client_never_comes_back_is_given_up(method: str, answer: dict[str, object] | None) -> None:
    stage = Stage(patience=0.01)
    stage.ask(stage.call(), method=method)
    required = stage.result()
    await until(lambda: not len(stage.parking), "it is over")
    (given,) = stage.connection.answers
    assert given == {"jsonrpc": "2.0", "id": "q", **answer} if answer else "error" in given
    assert stage.connection.cancelled() == [1]
    assert stage.settled == ["q"]
    with pytest.raises(StateRefused) as caught:
        stage.retry(required)
    assert caught.value.data == {"reason": "expired"}


async def test_patience_begins_anew_with_every_round_and_ends_with_the_retry() -> None:
    stage = Stage()
    parked = stage.ask(stage.call())
    first = parked._timer
    stage.ask(parked, "second")
    required = stage.result()
    stage.retry(required, **{keys(required)[0]: ACCEPT})
    assert first is not None
    assert first.cancelled()
    assert parked._timer is not first
    stage.connection.give(1, {})
    required = stage.result()
    stage.retry(required)
    assert parked._timer is not None
    assert parked._timer.cancelled()


async def test_a_client_that_leaves_takes_its_parked_calls_with_it_and_no_others() -> None:
    stage = Stage()
    other, others = client(versions.MODERN, declared=ALL)
    stage.ask(stage.call(), "mine")
    stage.ask(stage.call(other), "theirs")
    stage.parking.session_left(stage.member)
    assert stage.connection.cancelled() == [1]
    assert [answer["id"] for answer in stage.connection.answers] == ["mine"]
    required = stage.result(others)
    stage.retry(required, other, **{keys(required)[0]: ACCEPT})
    assert [answer["id"] for answer in stage.connection.answers] == ["mine", "theirs"]


async def test_a_client_parks_only_so_many_calls_and_another_as_many_again() -> None:
    stage = Stage(limit=2)
    for number in range(2):
        stage.ask(stage.call(), f"q{number}")
    with pytest.raises(Refused, match=r"2 calls wait .*\(parked_limit\)"):
        stage.parking.take(stage.call())
    other, _ = client(versions.MODERN, declared=ALL)
    stage.ask(stage.call(other), "theirs")
    assert len(stage.parking) == 3


async def test_a_call_that_may_be_parked_already_is_taken_once() -> None:
    stage = Stage(limit=0)
    with pytest.raises(Refused):
        stage.parking.take(stage.call())
    stage = Stage()
    call = stage.call()
    parked = stage.parking.take(call)
    assert stage.parking.take(call) is parked
    assert stage.connection.waiter(1) is parked
    # Nobody waits for a client as long as nothing was asked.
    assert len(stage.parking) == 0

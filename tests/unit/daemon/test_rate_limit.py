"""How much a client may send: never more than rate and burst allow, and never less."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.config import Config
from hearth.daemon import client_limits
from hearth.daemon.client_connection import COUNTERS
from hearth.daemon.client_limits import IN_FLIGHT_RETRY_SECONDS, SILENCE_SECONDS, Limits, RateLimiter, TokenBucket
from hearth.errors import MessageError, OverLimit
from hearth.wire.json import Batch, Message, parse, parse_batch

CALL = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}'
NOTICE = b'{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}'
RATES = st.floats(min_value=0.01, max_value=1000.0)
STEPS = st.lists(st.floats(min_value=0.0, max_value=50.0), max_size=200)


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """A gate, its clock, and what it said."""

    def __init__(self, rate: float = 0.0, burst: float = 0.0, in_flight: int = 0) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        self.gate = RateLimiter(Limits(rate, burst, in_flight), self.clock, self.said.append)

    def call(self, in_flight: int = 0, id: int = 1) -> OverLimit | None:
        found = self.gate.admitted(parse(CALL % id), in_flight)
        return found if isinstance(found, OverLimit) else None


# --- the bucket


@settings(deadline=None)
@given(RATES, st.floats(min_value=0.0, max_value=100.0), STEPS)
def test_in_no_time_span_more_is_taken_than_burst_and_rate_allow(rate: float, size: float, steps: list[float]) -> None:
    bucket, now, taken = TokenBucket(rate, size, 0.0), 0.0, []
    for step in steps:
        now += step
        if bucket.take(now) == 0.0:
            taken.append(now)
    for first, begin in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= max(1.0, size) + rate * (taken[last] - begin) + 1e-6


@settings(deadline=None)
@given(RATES, st.floats(min_value=0.0, max_value=100.0), STEPS)
def test_who_comes_back_when_it_was_told_to_is_let_in(rate: float, size: float, steps: list[float]) -> None:
    bucket, now = TokenBucket(rate, size, 0.0), 0.0
    for step in steps:
        now += step
        wait = bucket.take(now)
        if wait:
            assert 0.0 < wait <= 1.0 / rate + 1e-6
            # Times are floats: a hair more.
            now += wait + 1e-6 * max(1.0, now)
            assert bucket.take(now) == 0.0


@settings(deadline=None)
@given(RATES, st.floats(min_value=1.0, max_value=100.0), st.integers(min_value=0, max_value=200))
def test_a_steady_client_below_the_rate_is_never_refused(rate: float, size: float, number: int) -> None:
    bucket = TokenBucket(rate, size, 0.0)
    assert all(bucket.take(each * 1.001 / rate) == 0.0 for each in range(number))


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1.0, 2.0, 100.0)
    assert [bucket.take(100.0), bucket.take(100.0)] == [0.0, 0.0]
    assert bucket.take(50.0) == bucket.take(100.0) == 1.0
    assert bucket.take(101.0) == 0.0


def test_another_rate_keeps_what_is_there_and_fits() -> None:
    bucket = TokenBucket(1.0, 10.0, 0.0)
    bucket.resize(2.0, 3.0)
    assert [bucket.take(0.0) for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    bucket.resize(4.0, 100.0)
    assert bucket.take(0.0) == 0.25


# --- the gate


def test_beyond_the_burst_requests_are_refused_until_time_has_passed() -> None:
    stage = Stage(rate=2.0, burst=1.5)
    assert [stage.call() for _ in range(3)] == [None] * 3
    refused = stage.call(id=7)
    assert refused is not None
    assert (refused.id, refused.rpc_code, refused.retry_after) == (b"7", -32603, 1)
    # One delay, in whole seconds, wherever it is named.
    assert str(refused) == "this is more than 2 messages a second (rate_limit); send it again in 1 s"
    assert refused.data == {"reason": "rate_limit", "retryAfterSeconds": 1}
    stage.clock.now += 0.5
    assert stage.call() is None and stage.call() is not None


def test_requests_in_flight_are_limited_by_number() -> None:
    stage = Stage(in_flight=2)
    assert stage.call(in_flight=1) is None
    refused = stage.call(in_flight=2, id=3)
    assert refused is not None and refused.id == b"3" and refused.retry_after == IN_FLIGHT_RETRY_SECONDS
    assert "2 requests are in flight already (in_flight_limit)" in str(refused)
    assert refused.data["reason"] == "in_flight_limit"


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":"q","result":{}}',
        b'{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":"no"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    ],
)
def test_what_must_not_be_lost_passes_and_counts(line: bytes) -> None:
    stage = Stage(rate=1.0, burst=2.0, in_flight=1)
    for _ in range(5):
        message = parse(line)
        assert stage.gate.admitted(message, 9) is message
    assert stage.call() is not None


def test_a_ping_needs_no_place_among_those_in_flight() -> None:
    stage = Stage(in_flight=1)
    ping = parse(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert stage.gate.admitted(ping, 5) is ping


def test_a_notification_over_the_rate_has_nobody_to_be_told_and_needs_no_place() -> None:
    stage = Stage(rate=1.0, burst=1.0, in_flight=1)
    assert isinstance(stage.gate.admitted(parse(NOTICE), 5), Message)
    refused = stage.gate.admitted(parse(NOTICE), 5)
    assert isinstance(refused, OverLimit) and refused.id is None


def test_each_member_of_a_batch_counts() -> None:
    stage = Stage(rate=1.0, burst=3.0)
    batch = parse_batch(b"[" + b",".join([CALL % 1, NOTICE, b"1", CALL % 2, CALL % 3, NOTICE, CALL % 4]) + b"]")
    found = stage.gate.admitted(batch, 0)
    assert isinstance(found, Batch)
    kinds = [type(each) for each in found.items]
    # The second notification has nobody to be told.
    assert kinds == [Message, Message, MessageError, Message, OverLimit, OverLimit]
    assert [each.id for each in found.items if isinstance(each, OverLimit)] == [b"3", b"4"]


def test_a_batch_s_own_requests_count_as_in_flight() -> None:
    stage = Stage(in_flight=3)
    found = stage.gate.admitted(parse_batch(b"[" + b",".join(CALL % number for number in range(4)) + b"]"), 1)
    assert isinstance(found, Batch)
    assert [isinstance(each, OverLimit) for each in found.items] == [False, False, True, True]


def test_a_batch_of_which_nothing_is_left_is_one_refusal() -> None:
    stage = Stage(rate=1.0, burst=1.0)
    stage.call()
    found = stage.gate.admitted(parse_batch(b"[" + NOTICE + b"," + NOTICE + b"]"), 0)
    assert isinstance(found, OverLimit) and found.id is None


def test_what_is_no_message_is_none_of_its_business() -> None:
    stage, problem = Stage(rate=1.0, burst=1.0, in_flight=1), MessageError("bad")
    assert all(stage.gate.admitted(problem, 5) is problem for _ in range(5))


def test_the_log_hears_of_a_client_once_in_a_minute() -> None:
    stage = Stage(rate=0.001, burst=1.0)
    for _ in range(50):
        stage.call()
    assert stage.said == ["more than 0.001 messages a second (rate_limit); what is beyond is refused"]
    stage.clock.now += SILENCE_SECONDS
    stage.call()
    assert len(stage.said) == 2


def test_what_is_refused_is_counted() -> None:
    before = dict(COUNTERS.messages_refused)
    stage = Stage(rate=0.001, burst=1.0, in_flight=1)
    stage.call(in_flight=1)
    stage.call()
    stage.gate.admitted(parse(NOTICE), 0)
    more = {key: COUNTERS.messages_refused[key] - before[key] for key in before}
    assert more == {("rate", "request"): 1, ("rate", "notification"): 1, ("in_flight", "request"): 1}


def test_sessions_are_begun_at_the_same_rate() -> None:
    stage = Stage(rate=1.0, burst=2.0)
    assert [stage.gate.opening(), stage.gate.opening()] == [None, None]
    refused = stage.gate.opening(b"1")
    assert (
        refused is not None and "more than 1 session begun a second (rate_limit)" in str(refused) and refused.id == b"1"
    )
    assert Stage(in_flight=1).gate.opening() is None


def test_what_is_no_message_may_count_as_one() -> None:
    stage = Stage(rate=1.0, burst=2.0)
    assert [stage.gate.asking("message"), stage.call()] == [None, None]
    refused = stage.gate.asking("message")
    assert refused is not None and "more than 1 message a second (rate_limit)" in str(refused) and refused.id is None
    assert stage.call() is not None
    assert Stage(in_flight=1).gate.asking("message") is None


def test_other_limits_hold_at_once() -> None:
    stage = Stage(in_flight=1)
    assert stage.call() is None
    stage.gate.settle(Limits(1.0, 1.0, 0))
    assert stage.call(in_flight=5) is None and stage.call() is not None
    stage.gate.settle(Limits(1.0, 100.0, 0))
    # A larger burst is no gift: it fills as time goes by.
    assert stage.call() is not None
    stage.gate.settle(Limits(0.0, 100.0, 2))
    assert stage.call() is None and stage.call(in_flight=2) is not None


# --- by config


def test_on_the_socket_nothing_is_limited_unless_somebody_says_so_and_at_a_port_it_is() -> None:
    config = Config()
    assert client_limits.near(config) is None
    assert client_limits.far(config) == Limits(500.0, 10.0, 256, "port_rate_limit", "port_in_flight_limit")
    assert client_limits.far(Config(port_rate_limit=0.0, port_in_flight_limit=0)) is None
    assert client_limits.near(Config(in_flight_limit=3)) == Limits(0.0, 10.0, 3)
    assert client_limits.near(Config(rate_limit=3.0)) == Limits(3.0, 10.0, 0)


def test_a_gate_stays_with_its_client_through_reloads() -> None:
    def gate(wanted: Limits | None, former: RateLimiter | None) -> RateLimiter | None:
        return client_limits.gate(wanted, former, Clock(), [].append)

    assert gate(None, None) is None
    first = gate(Limits(1.0, 1.0, 0), None)
    assert first is not None and gate(Limits(2.0, 1.0, 0), first) is first
    assert first.limits.rate == 2.0
    assert gate(None, first) is None


def test_one_is_no_plural() -> None:
    fast = Stage(rate=1.0, burst=1.0)
    assert fast.call() is None
    assert str(fast.call()).startswith("this is more than 1 message a second (rate_limit)")
    busy = Stage(in_flight=1)
    assert str(busy.call(in_flight=1)).startswith("1 request is in flight already (in_flight_limit)")
    assert busy.said == ["more than 1 request at a time (in_flight_limit); what is beyond is refused"]

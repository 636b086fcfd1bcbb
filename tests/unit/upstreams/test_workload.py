"""What is counted of calls: exact in number, the last ones in time, bounded whatever comes."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.upstreams.workload import BOUNDS_SECONDS, LAST_CALLS, CallStats, total

SECONDS = st.floats(min_value=0.0, max_value=40_000.0)


def counted(*seconds: float, erred: bool = False) -> CallStats:
    found = CallStats()
    for each in seconds:
        found.add(each, erred)
    return found


def test_without_a_call_there_is_no_percentile() -> None:
    assert CallStats().describe() == {"calls": 0, "errors": 0, "p50Ms": None, "p95Ms": None}


@given(st.lists(SECONDS, min_size=1, max_size=LAST_CALLS))
def test_a_percentile_is_a_time_that_so_many_did_not_exceed(seconds: list[float]) -> None:
    told = counted(*seconds).describe()
    for share, key in ((0.5, "p50Ms"), (0.95, "p95Ms")):
        expected = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
        assert told[key] == pytest.approx(expected * 1000, abs=0.001)


def test_the_slowest_of_twenty_is_beyond_the_95th_percentile_and_the_second_slowest_is_not() -> None:
    assert counted(*[0.01] * 19, 10.0).describe()["p95Ms"] == 10.0
    assert counted(*[0.01] * 18, 10.0, 10.0).describe()["p95Ms"] == 10_000.0


def test_times_that_cannot_be_are_none_at_all() -> None:
    assert counted(-3.0).describe()["p50Ms"] == 0.0


@given(st.lists(st.tuples(SECONDS, st.booleans())), st.lists(st.tuples(SECONDS, st.booleans())))
def test_two_sets_are_told_as_one(one: list[tuple[float, bool]], other: list[tuple[float, bool]]) -> None:
    parts = []
    for calls in (one, other, one + other):
        figures = CallStats()
        for seconds, erred in calls:
            figures.add(seconds, erred)
        parts.append(figures)
    assert total(parts[:2]) == parts[2].describe()
    parts[0].absorb(parts[1])
    assert parts[0].describe() == parts[2].describe()
    assert parts[0].by_duration == parts[2].by_duration
    assert parts[0].seconds == pytest.approx(parts[2].seconds)


@given(st.lists(SECONDS))
def test_every_call_is_counted_by_how_long_it_took(seconds: list[float]) -> None:
    found = counted(*seconds)
    for number, bound in enumerate(BOUNDS_SECONDS, 1):
        assert sum(found.by_duration[:number]) == sum(each <= bound for each in seconds)
    assert sum(found.by_duration) == found.calls


def test_errors_are_calls_too() -> None:
    found = counted(0.001)
    found.add(0.001, True)
    assert (found.calls, found.errors) == (2, 1)


def test_only_the_last_calls_tell_how_long_they_take() -> None:
    found = counted(*[9.0] * LAST_CALLS, *[0.001] * LAST_CALLS)
    assert found.describe() == {"calls": 2 * LAST_CALLS, "errors": 0, "p50Ms": 1.0, "p95Ms": 1.0}

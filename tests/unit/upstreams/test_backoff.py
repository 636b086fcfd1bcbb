"""When a server that failed may be started again."""

from hearth.upstreams.backoff import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, STABLE_SECONDS, Backoff


def test_before_any_failure_nothing_is_waited_for() -> None:
    assert Backoff().remaining(0.0) == 0.0


def test_the_first_failure_is_forgiven_at_once() -> None:
    backoff = Backoff()
    backoff.failed(now=100.0, ran_for=0.0)
    assert backoff.remaining(100.0) == 0.0


def test_each_further_failure_doubles_the_pause_up_to_a_limit() -> None:
    backoff = Backoff()
    pauses = []
    for _ in range(10):
        backoff.failed(now=0.0, ran_for=0.0)
        pauses.append(backoff.remaining(0.0))
    assert pauses[:4] == [0.0, FIRST_DELAY_SECONDS, 2 * FIRST_DELAY_SECONDS, 4 * FIRST_DELAY_SECONDS]
    assert pauses[-1] == LONGEST_DELAY_SECONDS


def test_the_pause_runs_out() -> None:
    backoff = Backoff()
    backoff.failed(now=0.0, ran_for=0.0)
    backoff.failed(now=0.0, ran_for=0.0)
    assert backoff.remaining(FIRST_DELAY_SECONDS / 2) == FIRST_DELAY_SECONDS / 2
    assert backoff.remaining(FIRST_DELAY_SECONDS * 2) == 0.0


def test_a_server_that_ran_long_enough_begins_anew() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.failed(now=0.0, ran_for=0.0)
    backoff.failed(now=50.0, ran_for=STABLE_SECONDS)
    assert backoff.remaining(50.0) == 0.0
    backoff.failed(now=50.0, ran_for=STABLE_SECONDS - 1)
    assert backoff.remaining(50.0) == FIRST_DELAY_SECONDS

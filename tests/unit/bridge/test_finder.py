"""When to try again, and for how long."""

from hypothesis import given
from hypothesis import strategies as st

from hearth.bridge.finder import FIRST_DELAY_SECONDS, LAST_DELAY_SECONDS, Backoff, Patience


def test_the_first_try_comes_at_once_and_later_ones_ever_later() -> None:
    backoff = Backoff()
    delays = [backoff.delay(0.0) for _ in range(5000)]
    assert delays[:4] == [0.0, FIRST_DELAY_SECONDS, 2 * FIRST_DELAY_SECONDS, 4 * FIRST_DELAY_SECONDS]
    assert max(delays) == delays[-1] == LAST_DELAY_SECONDS


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_chance_shortens_a_delay_by_at_most_a_half(chances: list[float]) -> None:
    lucky, unlucky = Backoff(), Backoff()
    for chance in chances:
        longest = unlucky.delay(0.0)
        assert longest / 2 <= lucky.delay(chance) <= longest


def test_a_good_connection_makes_the_next_try_come_at_once() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.delay(0.5)
    backoff.reset()
    assert backoff.delay(0.5) == 0.0


def test_patience_runs_from_the_first_line_that_waits() -> None:
    patience = Patience(20, now=100)
    assert patience.left(115, waiting=False) == 5
    assert patience.left(116, waiting=True) == 20
    assert patience.left(126, waiting=True) == 10
    assert patience.left(136, waiting=True) == 0


def test_with_nobody_waiting_patience_runs_from_the_start() -> None:
    assert Patience(20, now=100).left(121, waiting=False) == -1

"""The policy by its table and its rules; `test_supervision_random` has it at the mercy of chance."""

from itertools import pairwise

import pytest

from hearth.upstreams import supervision
from hearth.upstreams.supervision import (
    CHECK,
    CHECK_SECONDS,
    CHECKS_MISSED,
    EVENTS,
    FAIL,
    FAILED,
    GIVEN_UP,
    GIVEN_UP_SECONDS,
    IDLE,
    JITTER_SHARE,
    LATE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PAUSED,
    READY,
    RESTART_LIMIT,
    RETIRED,
    SERVE,
    STABLE_SECONDS,
    START,
    STARTING,
    STOP,
    STOPPED,
    STOPPING,
    UNSETTLED_SECONDS,
    Answered,
    Event,
    Failed,
    Forgiven,
    Gone,
    Load,
    Look,
    Lost,
    Need,
    Retired,
    Started,
    State,
    Terms,
    Wanted,
    due,
    pause_after,
    step,
)

NOBODY, SOMEBODY, SUBSCRIBER = Need(), Need(waiting=True), Need(watched=True)
SILENCE = Look(NOBODY, Load())


class Life:
    """One instance and its clock."""

    def __init__(self, terms: Terms | None = None) -> None:
        self.state = State(terms or Terms())
        self.now = 1000.0

    def tell(self, event: Event) -> tuple[str, ...]:
        """What is to be done."""
        self.state, instructions = step(self.state, event, self.now)
        return instructions

    def ready(self) -> "Life":
        self.tell(Wanted())
        assert self.tell(Started()) == (SERVE,)
        return self

    def fail(self, times: int, need: Need = NOBODY) -> None:
        """So many starts, each as soon as it may be, that fail."""
        for _ in range(times):
            self.now = max(self.now, self.state.until)
            self.tell(Wanted())
            self.tell(Failed(0.0, need))

    def look(self, load: Load | None = None, need: Need = NOBODY) -> tuple[str, ...]:
        """Look when it is due."""
        when = due(self.state)
        assert when is not None
        self.now = when
        return self.tell(Look(need, load or Load()))


@pytest.fixture
def life() -> Life:
    return Life()


@pytest.fixture
def ready() -> Life:
    return Life().ready()


# --- the table


def test_every_event_has_its_rule_in_every_phase() -> None:
    assert supervision._TABLE.keys() == {STOPPED, IDLE, STARTING, READY, STOPPING, PAUSED, FAILED, GIVEN_UP, RETIRED}
    assert all(tuple(row) == EVENTS for row in supervision._TABLE.values())


def test_one_that_is_retired_refuses_whoever_comes_and_does_nothing_more(life: Life) -> None:
    assert life.tell(Retired()) == (FAIL,)
    assert life.tell(Wanted()) == (FAIL,)
    for event in (Started(), Failed(0, SUBSCRIBER), Gone(SUBSCRIBER), SILENCE, Forgiven(SUBSCRIBER), Retired()):
        assert life.tell(event) == ()
    assert life.state.phase == RETIRED


# --- starting


def test_it_is_started_once_for_all_who_want_it(life: Life) -> None:
    assert (life.tell(Wanted()), life.tell(Wanted()), life.state.phase) == ((START,), (), STARTING)
    assert (life.tell(Started()), life.tell(Wanted())) == ((SERVE,), (SERVE,))


def test_one_that_was_lost_is_started_again_only_when_it_is_gone_and_somebody_needs_it(ready: Life) -> None:
    assert (ready.tell(Lost(0.0, served=True)), ready.state.phase) == ((), STOPPING)
    assert ready.tell(Wanted()) == ()
    assert (ready.tell(Gone(SOMEBODY)), ready.state.phase) == ((START,), STARTING)
    other = Life().ready()
    other.tell(Lost(0.0, served=True))
    assert (other.tell(Gone(NOBODY)), other.state.phase) == ((), STOPPED)


def test_one_that_somebody_is_subscribed_to_comes_back_by_itself(ready: Life) -> None:
    ready.tell(Lost(0.0, served=True))
    assert ready.tell(Gone(SUBSCRIBER)) == (START,)
    assert ready.tell(Failed(0.0, SUBSCRIBER)) == ()
    assert ready.look(need=SUBSCRIBER) == (START,)


# --- failures


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_double_and_are_bounded_whatever_the_chance(chance: float) -> None:
    pauses = [pause_after(failures, chance) for failures in range(1, 20)]
    assert pauses[0] == 0.0
    longest = LONGEST_PAUSE_SECONDS * (1 + JITTER_SHARE * chance)
    assert all(after == min(2 * before, longest) for before, after in pairwise(pauses[1:]))


def test_the_first_failure_is_told_and_forgiven_the_second_is_followed_by_a_pause(life: Life) -> None:
    life.tell(Wanted())
    assert (life.tell(Failed(0.0, SOMEBODY)), life.state.phase) == ((FAIL,), FAILED)
    assert life.tell(Wanted()) == (START,)
    assert (life.tell(Failed(0.0, SOMEBODY)), life.state.phase) == ((FAIL,), PAUSED)


def test_who_comes_in_a_pause_waits_for_its_end(life: Life) -> None:
    life.fail(2)
    assert (life.state.phase, life.tell(Wanted())) == (PAUSED, ())
    assert life.look(need=SOMEBODY) == (START,)


def test_a_pause_that_nobody_waited_for_leaves_it_alone(life: Life) -> None:
    life.fail(2)
    assert (life.look(), life.state.phase) == ((), FAILED)
    assert life.tell(Wanted()) == (START,)


def test_one_that_keeps_failing_is_given_up_and_refuses_at_once(life: Life) -> None:
    life.fail(RESTART_LIMIT)
    assert life.state.phase == GIVEN_UP
    assert life.tell(Wanted()) == (FAIL,)
    life.now += GIVEN_UP_SECONDS - 1
    assert life.tell(Wanted()) == (FAIL,)


def test_after_the_long_pause_there_is_one_try(life: Life) -> None:
    life.fail(RESTART_LIMIT)
    life.now += GIVEN_UP_SECONDS
    assert life.tell(Wanted()) == (START,)
    assert (life.tell(Failed(0.0, SOMEBODY)), life.state.phase) == ((FAIL,), GIVEN_UP)
    assert (life.look(), life.state.phase) == ((), FAILED)
    assert life.tell(Wanted()) == (START,)
    life.tell(Failed(0.0, SOMEBODY))
    assert life.look(need=SUBSCRIBER) == (START,)


@pytest.mark.parametrize("failures", [1, 2, RESTART_LIMIT])
def test_one_that_is_forgiven_begins_anew(life: Life, failures: int) -> None:
    life.fail(failures)
    assert life.tell(Forgiven(NOBODY)) == ()
    assert (life.state.phase, life.state.failures) == (STOPPED, 0)
    assert life.tell(Wanted()) == (START,)


def test_one_that_is_forgiven_while_somebody_needs_it_is_started(life: Life) -> None:
    life.fail(RESTART_LIMIT)
    assert life.tell(Forgiven(SUBSCRIBER)) == (START,)
    waited = Life()
    waited.fail(3)
    assert waited.tell(Forgiven(SOMEBODY)) == (START,)


def test_one_that_falls_over_again_and_again_without_an_answer_is_given_up(life: Life) -> None:
    for _ in range(RESTART_LIMIT):
        life.now = max(life.now, life.state.until)
        life.ready()
        life.tell(Lost(0.0, served=False))
        ended = life.tell(Gone(NOBODY))
    assert (life.state.phase, ended) == (GIVEN_UP, (FAIL,))


@pytest.mark.parametrize(("served", "seconds"), [(True, 0.0), (False, STABLE_SECONDS)])
def test_one_that_was_sound_has_failed_for_the_first_time(life: Life, served: bool, seconds: float) -> None:
    for _ in range(3 * RESTART_LIMIT):
        life.ready()
        life.now += seconds
        life.tell(Lost(1.0, served))
        life.tell(Gone(NOBODY))
    assert (life.state.phase, life.state.failures) == (STOPPED, 1)


def test_callers_of_one_that_was_sound_hear_of_failed_starts_only_when_it_is_given_up(ready: Life) -> None:
    ready.tell(Lost(0.0, served=True))
    ready.tell(Gone(SOMEBODY))
    told: list[str] = []
    while ready.state.phase != GIVEN_UP:
        told += ready.tell(Failed(0.0, SOMEBODY))
        if ready.state.phase == PAUSED:
            told += ready.look(need=SOMEBODY)
    assert told == [START] * (RESTART_LIMIT - 2) + [FAIL]


def test_one_without_a_limit_is_tried_for_ever_and_its_callers_are_told_after_a_while() -> None:
    life = Life(Terms(limit=None)).ready()
    life.tell(Lost(0.0, served=True))
    life.tell(Gone(SOMEBODY))
    for _ in range(5 * RESTART_LIMIT):
        told = life.tell(Failed(1.0, SOMEBODY))
        assert (life.state.phase, life.look(need=SOMEBODY)) == (STARTING, (START,)) or life.state.phase == STARTING
    assert told == (FAIL,)


def test_one_that_waits_for_a_login_tells_so_and_may_be_tried_at_any_time(life: Life) -> None:
    for _ in range(3 * RESTART_LIMIT):
        assert life.tell(Wanted()) == (START,)
        assert life.tell(Failed(0.0, SUBSCRIBER, counts=False)) == (FAIL,)
    assert (life.state.phase, life.state.failures) == (FAILED, 0)


# --- health


def test_one_that_is_silent_is_checked_and_ended_when_it_stays_silent(ready: Life) -> None:
    assert ready.look() == ()
    assert [ready.look() for _ in range(CHECKS_MISSED + 1)] == [(CHECK,)] * CHECKS_MISSED + [(STOP,)]
    assert (ready.state.phase, ready.state.failures) == (STOPPING, 1)
    assert (ready.tell(Gone(NOBODY)), ready.state.phase) == ((), STOPPED)


def test_one_that_says_anything_at_all_is_sound(ready: Life) -> None:
    for _ in range(3 * CHECKS_MISSED):
        assert STOP not in ready.look()
        assert STOP not in ready.look(Load(heard=True))
    assert ready.state.missed == 0


def test_one_that_answers_is_checked_every_other_time_only(ready: Life) -> None:
    ready.look()
    for _ in range(5):
        assert ready.look() == (CHECK,)
        ready.tell(Answered(ready.state.checks))
        assert ready.look() == ()


def test_one_that_has_a_call_in_flight_is_neither_checked_nor_judged(ready: Life) -> None:
    ready.look()
    for _ in range(CHECKS_MISSED):
        assert ready.look() == (CHECK,)
    assert [ready.look(Load(busy=True)) for _ in range(100)] == [()] * 100
    assert ready.look() == (CHECK,)


def test_one_that_may_be_busy_with_what_was_given_up_is_not_judged(ready: Life) -> None:
    ready.look()
    ready.look(Load(gave_up=True))
    given_up = ready.now
    while ready.now < given_up + UNSETTLED_SECONDS - CHECK_SECONDS:
        assert STOP not in ready.look()
    looks = 0
    while ready.look() != (STOP,):
        looks += 1
    assert looks <= CHECKS_MISSED + 2


def test_the_answer_to_a_check_that_was_sent_before_what_was_given_up_settles_nothing(ready: Life) -> None:
    ready.look()
    assert ready.look() == (CHECK,)
    before = ready.state.checks
    assert ready.look(Load(gave_up=True)) == (CHECK,)
    ready.tell(Answered(before))
    assert ready.state.unsettled > ready.now
    ready.tell(Answered(ready.state.checks))
    assert ready.state.unsettled == 0


def test_a_look_that_comes_late_proves_nothing(ready: Life) -> None:
    ready.look()
    assert ready.look() == (CHECK,)
    for _ in range(3 * CHECKS_MISSED):
        ready.now = ready.state.check_at + LATE_SECONDS + 1
        assert ready.tell(SILENCE) == (CHECK,)


def test_one_that_is_not_to_be_checked_is_not() -> None:
    life = Life(Terms(limit=None, idle=500.0, checked=False)).ready()
    assert {life.look(need=SUBSCRIBER) for _ in range(10)} == {()}
    assert due(Life(Terms(None, 0.0, checked=False)).ready().state) is None


# --- idleness


def test_one_that_nobody_calls_is_ended_and_that_is_no_failure() -> None:
    life = Life(Terms(idle=10.0)).ready()
    assert (life.look(), life.state.phase) == ((STOP,), STOPPING)
    assert (life.tell(Gone(NOBODY)), life.state.phase, life.state.failures) == ((), IDLE, 0)
    assert life.tell(Wanted()) == (START,)


@pytest.mark.parametrize(
    ("load", "need"), [(Load(busy=True), NOBODY), (Load(used=True, heard=True), NOBODY), (Load(heard=True), SUBSCRIBER)]
)
def test_one_that_is_used_is_not_idle(load: Load, need: Need) -> None:
    life = Life(Terms(idle=10.0)).ready()
    for _ in range(20):
        assert STOP not in life.look(load, need)
    assert life.look() == (STOP,) or life.look() == (STOP,)


def test_a_call_that_comes_while_it_is_being_ended_has_the_next_one() -> None:
    life = Life(Terms(idle=10.0)).ready()
    life.look()
    assert life.tell(Wanted()) == ()
    assert life.tell(Gone(SOMEBODY)) == (START,)


def test_one_that_is_never_idle_runs_for_ever() -> None:
    life = Life(Terms(idle=0.0)).ready()
    for _ in range(1000):
        life.tell(Answered(life.state.checks))
        assert STOP not in life.look()

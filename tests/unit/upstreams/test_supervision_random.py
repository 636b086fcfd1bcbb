"""Supervision at the mercy of chance: a server, its callers and the clock do what they like, and the rules hold.

The machine is the shell that the policy needs, with books of its own: what it asserts, it has counted itself.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hearth.upstreams.supervision import (
    CHECK,
    CHECKS_MISSED,
    FAIL,
    GIVEN_UP,
    GIVEN_UP_SECONDS,
    IDLE,
    JITTER_SHARE,
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
    STOPPING,
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
    step,
)

SEQUENCES = 1000
# So many turns bring anything to its end: each ends a start, a process or a pause.
TURNS = 10 * RESTART_LIMIT

chances = st.floats(0.0, 1.0)
seconds = st.one_of(st.floats(0.0, 2.0), st.floats(0.0, 60.0), st.floats(0.0, 4000.0))


class World(RuleBasedStateMachine):
    """One instance, its process, those who call it, and the time."""

    @initialize(
        limit=st.sampled_from([RESTART_LIMIT, RESTART_LIMIT, None]),
        idle=st.sampled_from([0.0, 5.0, 100.0, 1800.0]),
        checked=st.booleans(),
    )
    def begin(self, limit: int | None, idle: float, checked: bool) -> None:
        self.state = State(Terms(limit, idle, checked))
        self.now = 100.0
        # Of the process: whether there is one, and whether it speaks MCP yet or is being ended.
        self.runs = self.is_ready = self.is_dying = False
        # Of those who use it.
        self.waiting = 0
        self.in_flight = 0
        self.watchers = 0
        self.pins = 0
        # What the shell notes between two looks.
        self.heard = self.used = self.gave_up = False
        # The books: failures in a row, when the last one was and the pause after it; when it last gave up.
        self.failures = 0
        self.last_pause = 0.0
        self.may_start_at = 0.0
        self.ready_at = 0.0
        self.served = False
        self.used_at = 0.0
        # Checks without any word since.
        self.checks_out = 0
        self.starts = 0

    # --- the shell

    def need(self) -> Need:
        return Need(self.waiting > 0, self.watchers > 0)

    def load(self) -> Load:
        load = Load(bool(self.in_flight or self.pins), self.used, self.heard, self.gave_up)
        self.heard = self.used = self.gave_up = False
        return load

    def tell(self, event: Event) -> None:
        before = self.state
        self.state, instructions = step(self.state, event, self.now)
        assert len(set(instructions)) == len(instructions)
        for instruction in instructions:
            {START: self.start, STOP: self.stop, CHECK: self.check, SERVE: self.serve, FAIL: self.fail}[instruction]()
        if before.phase == RETIRED:
            assert self.state.phase == RETIRED and set(instructions) <= {FAIL}

    def start(self) -> None:
        assert not self.runs, "there are two processes"
        assert self.now >= self.may_start_at, "it is started in a pause"
        assert self.need() != Need(), "it is started for nobody"
        if self.failures == self.state.terms.limit:
            # The long pause is over: one try.
            self.failures -= 1
        self.runs, self.is_ready, self.is_dying = True, False, False
        self.starts += 1

    def stop(self) -> None:
        assert self.runs and self.is_ready, "there is nothing to end"
        assert not self.in_flight and not self.pins, "it is ended while it is busy"
        if self.state.after == IDLE:
            assert not self.watchers, "somebody is subscribed"
            assert self.now >= self.used_at + self.state.terms.idle > self.used_at, "it was used a moment ago"
        else:
            assert self.checks_out >= CHECKS_MISSED, "it has answered, or was not asked often enough"
            assert self.state.terms.checked
            self.count_failure(is_sound=True)
        self.is_ready, self.is_dying = False, True

    def check(self) -> None:
        assert self.runs and self.is_ready and not self.in_flight, "it is checked while it is busy"
        self.checks_out += 1

    def serve(self) -> None:
        assert self.is_ready, "who waits is told that it is ready"
        self.waiting = 0

    def fail(self) -> None:
        self.waiting = 0

    def count_failure(self, is_sound: bool) -> None:
        """Called before the policy tells: what it may do from now on."""
        if is_sound:
            # Pauses grow from the beginning again.
            self.failures, self.last_pause = 0, 0.0
        self.failures += 1
        limit = self.state.terms.limit
        if limit is not None:
            assert self.failures <= limit, "it was started beyond the limit"

    def note_pause(self) -> None:
        """Called after the policy has told: the pause it took."""
        pause = self.state.until - self.now
        self.may_start_at = self.state.until
        if self.failures == self.state.terms.limit:
            assert self.state.phase == GIVEN_UP or self.state.after == GIVEN_UP, "it fails too often"
            self.may_start_at = self.now + GIVEN_UP_SECONDS
        else:
            # Added as the policy adds: the difference of two sums is not exact.
            assert self.state.until <= self.now + LONGEST_PAUSE_SECONDS * (1 + JITTER_SHARE), "the pause is too long"
            if self.failures == 1:
                assert pause <= 0.0, "the first failure is not forgiven"
            elif self.last_pause < LONGEST_PAUSE_SECONDS:
                assert pause > self.last_pause, "pauses do not grow"
            self.last_pause = pause if self.failures > 1 else 0.0

    # --- the server

    @precondition(lambda self: self.state.phase == STARTING)
    @rule()
    def becomes_ready(self) -> None:
        self.is_ready = True
        self.ready_at = self.used_at = self.now
        self.served = self.heard = self.used = self.gave_up = False
        self.checks_out = 0
        self.tell(Started())

    @precondition(lambda self: self.state.phase == STARTING)
    @rule(chance=chances)
    def cannot_be_started(self, chance: float) -> None:
        self.runs = False
        self.count_failure(is_sound=False)
        starts, waited = self.starts, self.waiting
        had_been_sound = self.state.proven
        self.tell(Failed(chance, self.need()))
        if self.starts > starts:
            # At once, which only the first failure is forgiven.
            assert self.failures == 1 and (self.watchers or waited)
        else:
            self.note_pause()
        if waited and self.waiting:
            assert had_been_sound and self.failures < RESTART_LIMIT, "somebody was left to wait for a broken server"

    @precondition(lambda self: self.state.phase == READY)
    @rule(chance=chances)
    def falls_over(self, chance: float) -> None:
        self.is_ready, self.is_dying = False, True
        self.in_flight = self.pins = 0
        self.count_failure(self.served or self.now - self.ready_at >= STABLE_SECONDS)
        self.tell(Lost(chance, self.served))
        self.note_pause()

    @precondition(lambda self: self.is_dying)
    @rule()
    def is_gone(self) -> None:
        self.runs = self.is_dying = False
        given_up_before = self.may_start_at
        self.tell(Gone(self.need()))
        if self.state.phase == GIVEN_UP:
            self.may_start_at = max(given_up_before, self.state.until)

    @precondition(lambda self: self.is_ready)
    @rule()
    def says_something(self) -> None:
        self.heard = True
        self.checks_out = 0

    @precondition(lambda self: self.is_ready and self.checks_out)
    @rule()
    def answers_a_check(self) -> None:
        self.heard = True
        self.checks_out = 0
        self.tell(Answered(self.state.checks))

    # --- those who use it

    @rule()
    def is_called(self) -> None:
        if self.is_ready:
            self.in_flight += 1
            self.used_at = self.now
        elif self.state.phase != RETIRED:
            self.waiting += 1
            self.tell(Wanted())
            if GIVEN_UP in (self.state.phase, self.is_dying and self.state.after):
                assert self.waiting == 0, "one that was given up fails its callers at once"
            else:
                assert self.waiting > 0, "who can be served later is not refused"

    @precondition(lambda self: self.in_flight)
    @rule()
    def answers_a_call(self) -> None:
        self.in_flight -= 1
        self.used = self.heard = self.served = True
        self.used_at = self.now
        self.checks_out = 0

    @precondition(lambda self: self.in_flight)
    @rule()
    def a_call_is_given_up(self) -> None:
        self.in_flight -= 1
        self.used = self.gave_up = True
        self.used_at = self.now
        # What it did not answer so far, it may have been too busy to.
        self.checks_out = 0

    @precondition(lambda self: self.waiting)
    @rule()
    def who_waits_gives_up(self) -> None:
        self.waiting -= 1

    @precondition(lambda self: self.is_ready)
    @rule(on=st.booleans())
    def is_parked_on(self, on: bool) -> None:
        self.pins = int(on)
        self.used_at = self.now
        self.used = True

    @rule(on=st.booleans())
    def is_subscribed_to(self, on: bool) -> None:
        # One subscribes with a server that is ready; who leaves may leave at any time.
        if self.is_ready or not on:
            self.watchers = int(on)
            self.used_at = self.now
            self.used = True

    # --- the time

    @rule(seconds=seconds)
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        for _ in range(10_000):
            when = due(self.state)
            if when is None or when > end:
                break
            self.now = max(self.now, when)
            self.look()
        else:
            raise AssertionError("it is looked at without end")
        self.now = end

    @rule()
    def it_is_time_to_look(self) -> None:
        when = due(self.state)
        if when is not None:
            self.now = max(self.now, when)
            self.look()

    @precondition(lambda self: self.is_ready)
    @rule(looks=st.integers(1, 2 * CHECKS_MISSED))
    def is_silent_for_a_while(self, looks: int) -> None:
        for _ in range(looks):
            self.it_is_time_to_look()

    @precondition(lambda self: not self.runs and self.state.phase != RETIRED)
    @rule(times=st.integers(1, 2 * RESTART_LIMIT), chance=chances)
    def fails_again_and_again(self, times: int, chance: float) -> None:
        for _ in range(times):
            self.is_called()
            self.it_is_time_to_look()
            if self.state.phase == STARTING:
                self.cannot_be_started(chance)

    @rule(seconds=seconds)
    def hearth_stands_still(self, seconds: float) -> None:
        self.now += seconds
        if due(self.state) is not None:
            self.look()

    def look(self) -> None:
        if self.in_flight or self.pins or self.watchers:
            self.used_at = self.now
        self.tell(Look(self.need(), self.load()))

    # --- others

    @rule()
    def is_forgiven(self) -> None:
        if self.state.phase != RETIRED:
            self.failures = 0
            self.last_pause = self.may_start_at = 0.0
        self.tell(Forgiven(self.need()))

    @precondition(lambda self: self.starts > 3)
    @rule(chance=st.integers(0, 9))
    def is_retired(self, chance: int) -> None:
        if chance == 0:
            self.tell(Retired())
            assert self.waiting == 0

    # --- what holds at any time

    @invariant()
    def a_process_and_its_phase_agree(self) -> None:
        if self.state.phase != RETIRED:
            assert self.runs == (self.state.phase in (STARTING, READY, STOPPING))
            assert self.is_ready == (self.state.phase == READY)
            assert self.is_dying == (self.state.phase == STOPPING)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.waiting:
            assert self.state.phase in (STARTING, STOPPING, PAUSED)
            if self.state.phase == PAUSED:
                assert due(self.state) is not None

    @invariant()
    def one_that_is_subscribed_to_is_coming_back(self) -> None:
        if self.watchers and self.state.phase != RETIRED and not self.is_ready:
            assert self.state.phase in (STARTING, STOPPING) or due(self.state) is not None or self.starts == 0

    def teardown(self) -> None:
        """Whoever waits is served or told within few turns, whatever the server does."""
        if not hasattr(self, "state"):
            return
        for turn in range(TURNS):
            if not self.waiting:
                return
            if self.state.phase == STARTING:
                self.cannot_be_started(0.5) if turn % 2 else self.becomes_ready()
            elif self.state.phase == STOPPING:
                self.is_gone()
            else:
                self.time_passes(LONGEST_PAUSE_SECONDS * 2)
        raise AssertionError("somebody waits for ever")


TestSupervision = World.TestCase
TestSupervision.settings = settings(
    max_examples=SEQUENCES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

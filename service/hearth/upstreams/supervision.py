"""Supervision table: when an instance of a server is started, checked, stopped and given up.

Pure: `step(state, event, now)` returns the next state and the instructions. A shell (`supervisor`, `instance`) performs
them, and reports the outcome as events.

The rules:

1. There is one process at a time. Another is started only when nothing is left of the former one.
2. A process is started when a call needs it, or when it ended while a client has a subscription on it.
3. After the first failure the next start follows at once; each further failure doubles the pause before it, with some
   jitter so that many servers do not start together. Calls that come during a pause wait for its end.
4. A server that ran for a while, or answered a call, is sound: its next failure counts as the first.
5. A server that keeps failing is given up: calls fail at once until a long pause is over, the config is reloaded, or
   a user resets it. After the pause the server has one try, and is given up again if that fails, too.
6. Waiters are told of the first failed start if the server has never been sound: a missing command does not appear by
   waiting. A server that has been sound is tried again before its callers are told.
7. A server that was silent for a while is checked by a cheap request, and stopped when several checks in a row found
   silence. Silence while a call is in flight, or may still be worked on, proves nothing: a server may do one thing at
   a time. Silence at a late look proves nothing either: then Hearth itself was held up.
8. A server without calls for a while is stopped, unless something is in flight or a client will come back to this
   process. That is no failure; the next call starts it again.

The phases follow each other like this; the table at the end of the file has every event in every phase:

    STOPPED ──wanted──▶ STARTING ──started──▶ READY ──idle──▶ STOPPING ──gone──▶ IDLE ──wanted──▶ STARTING
                            │                   └─lost, unheard─▶ STOPPING ──gone──▶ PAUSED, STOPPED or GIVEN_UP
                            └──failed──▶ PAUSED ──pause over, wanted──▶ STARTING
                                     ──▶ FAILED (no pause, no waiter), or GIVEN_UP (too often)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

FIRST_PAUSE_SECONDS = 0.5
# Calls wait for the end of a pause, and clients give up after a minute or so.
LONGEST_PAUSE_SECONDS = 30.0
# Largest share of a pause that is added to it at random.
JITTER_SHARE = 0.25
# A server that ran this long is sound: its next failure counts as the first.
STABLE_SECONDS = 30.0
# Failures in a row. The pauses between them add up to about eight seconds: longer than a short fault of a disk or a
# network, and shorter than any client waits for an answer.
RESTART_LIMIT = 6
# Pause before a server that was given up has another try: long enough to cost nothing, short enough that a repaired
# server comes back while its user still wants it.
GIVEN_UP_SECONDS = 300.0
# Silence before a server is checked, and the time that it has to answer a check.
CHECK_SECONDS = 30.0
# Checks in a row that found silence. Two minutes: startup and garbage collection take less.
CHECKS_MISSED = 3
# A look that comes this late was held up itself, and the server's messages may not have been read yet.
LATE_SECONDS = 5.0
# A server may work on an abandoned call for this long: the default time limit of a call.
UNSETTLED_SECONDS = 1800.0

# The words that `hearth status` shows.
STOPPED, STARTING, READY, STOPPING = "stopped", "starting", "ready", "stopping"
IDLE, PAUSED, FAILED, GIVEN_UP, RETIRED = "idle", "backing off", "failed", "given up", "retired"
# Phases of an instance that does not run because it failed.
FAILING = frozenset({PAUSED, FAILED, GIVEN_UP})

# Instructions for the shell: begin a start; stop the process; send a check; tell the waiters that the instance is
# ready, or that it failed.
START, STOP, CHECK, SERVE, FAIL = "start", "stop", "check", "serve", "fail"
Instructions = tuple[str, ...]


class Terms(NamedTuple):
    """Terms of one server. `limit`: None never gives up; `idle`: 0 never stops it; `checked`: True for a process."""

    limit: int | None = RESTART_LIMIT
    idle: float = 0.0
    checked: bool = True


class State(NamedTuple):
    """State of one instance."""

    terms: Terms
    phase: str = STOPPED
    # Failures in a row, without having been sound.
    failures: int = 0
    # End of the pause, or of the given-up phase.
    until: float = 0.0
    # Whether the server has ever been sound.
    proven: bool = False
    # While ready: since when; when it was last seen in use; when the next check is due.
    since: float = 0.0
    used: float = 0.0
    check_at: float = 0.0
    # Whether anything was heard since the last check; whether a check is in flight; how many in a row found silence.
    heard: bool = True
    asked: bool = False
    missed: int = 0
    # Number of checks sent.
    checks: int = 0
    # Until when it may be busy with an abandoned call, and the check whose answer shows that it is not.
    unsettled: float = 0.0
    settled_by: int = 0
    # The phase after a pause, or after the end of the process.
    after: str = STOPPED


class Need(NamedTuple):
    """Need for an instance: `waiting` calls, or subscribers that have it `watched`."""

    waiting: bool = False
    watched: bool = False


class Load(NamedTuple):
    """Load of a ready instance since the last look, and its pending work.

    `busy`: something is in flight, queued, suspended or asked by the server; `used`: it was called; `heard`: it sent
    anything; `gave_up`: a call was withdrawn, and the server may still work on it.
    """

    busy: bool = False
    used: bool = False
    heard: bool = False
    gave_up: bool = False


# --- events


class Wanted(NamedTuple):
    """Event: a call needs the instance."""


class Started(NamedTuple):
    """Event: the handshake is done."""


class Failed(NamedTuple):
    """Event: a start failed, and nothing is left of the process. `chance`, from 0 to 1, is for the jitter.

    `counts`: False if the server waits for a user to log in. Waiters are told, but it is no failure.
    """

    chance: float
    need: Need
    counts: bool = True


class Lost(NamedTuple):
    """Event: a ready instance can no longer be reached. `served`: it has answered a call."""

    chance: float
    served: bool


class Gone(NamedTuple):
    """Event: nothing is left of the process that was lost or stopped."""

    need: Need


class Look(NamedTuple):
    """Event: the time that `due` returned has come."""

    need: Need
    load: Load


class Answered(NamedTuple):
    """Event: the server has answered a check, counted from 1."""

    check: int


class Forgiven(NamedTuple):
    """Event: the server may have been repaired, by a user's word or a new config."""

    need: Need


class Retired(NamedTuple):
    """Event: the instance will never be needed again."""


EVENTS = (Wanted, Started, Failed, Lost, Gone, Look, Answered, Forgiven, Retired)
Event = Wanted | Started | Failed | Lost | Gone | Look | Answered | Forgiven | Retired
Step = tuple[State, Instructions]


def step(state: State, event: Event, now: float) -> Step:
    """Return the next state and the instructions."""
    return _TABLE[state.phase][type(event)](state, event, now)


def due(state: State) -> float | None:
    """Return the time of the next look, if no event comes before; None for no look."""
    if state.phase in (PAUSED, GIVEN_UP):
        return state.until
    idle = state.terms.idle
    if state.phase != READY or not (idle or state.terms.checked):
        return None
    return min(state.check_at, state.used + idle) if idle else state.check_at


def pause_after(failures: int, chance: float) -> float:
    """Return the seconds between a failure, counted from 1, and the next start."""
    if failures <= 1:
        return 0.0
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (failures - 2), LONGEST_PAUSE_SECONDS) * (1 + JITTER_SHARE * chance)


# --- rules of the table


def _same(state: State, event: Event, now: float) -> Step:
    """Change nothing: the instance waits for something else, or the event belongs to a former process."""
    return state, ()


def _refuse(state: State, event: Event, now: float) -> Step:
    return state, (FAIL,)


def _serve(state: State, event: Event, now: float) -> Step:
    return state, (SERVE,)


def _start(state: State, event: Event, now: float) -> Step:
    return state._replace(phase=STARTING), (START,)


def _ready(state: State, event: Started, now: float) -> Step:
    ready = state._replace(phase=READY, until=0.0, since=now, used=now, check_at=now + CHECK_SECONDS)
    return ready._replace(heard=True, asked=False, missed=0, unsettled=0.0), (SERVE,)


# --- failures


def _start_failed(state: State, event: Failed, now: float) -> Step:
    if not event.counts:
        return state._replace(phase=FAILED), (FAIL,)
    state = _counted(state, state.failures + 1, event.chance, now)
    if _is_hopeless(state):
        return _give_up(state, now)
    is_patient = state.proven and state.failures < RESTART_LIMIT
    told = () if is_patient else (FAIL,)
    if state.until > now:
        return state._replace(phase=PAUSED, after=FAILED), told
    if event.need.watched or (event.need.waiting and is_patient):
        return state._replace(phase=STARTING), (*told, START)
    return state._replace(phase=FAILED), told


def _was_lost(state: State, event: Lost, now: float) -> Step:
    is_sound = event.served or now - state.since >= STABLE_SECONDS
    state = _counted(state, 1 if is_sound else state.failures + 1, event.chance, now)
    after = GIVEN_UP if _is_hopeless(state) else STOPPED
    return state._replace(phase=STOPPING, proven=state.proven or is_sound, after=after), ()


def _counted(state: State, failures: int, chance: float, now: float) -> State:
    return state._replace(failures=failures, until=now + pause_after(failures, chance))


def _is_hopeless(state: State) -> bool:
    return state.terms.limit is not None and state.failures >= state.terms.limit


def _give_up(state: State, now: float) -> Step:
    return state._replace(phase=GIVEN_UP, until=now + GIVEN_UP_SECONDS), (FAIL,)


def _is_gone(state: State, event: Gone, now: float) -> Step:
    if state.after == GIVEN_UP:
        return _give_up(state, now)
    if state.until > now:
        return state._replace(phase=PAUSED), ()
    return _start(state, event, now) if any(event.need) else (state._replace(phase=state.after), ())


# --- waiting


def _await_end(state: State, event: Wanted, now: float) -> Step:
    return state, (FAIL,) if state.after == GIVEN_UP else ()


def _await_pause(state: State, event: Wanted, now: float) -> Step:
    return _start(state, event, now) if now >= state.until else (state, ())


def _resume(state: State, event: Look, now: float) -> Step:
    if now < state.until:
        return state, ()
    return _start(state, event, now) if any(event.need) else (state._replace(phase=state.after), ())


def _try_again(state: State, event: Wanted, now: float) -> Step:
    return _start(_on_probation(state), event, now) if now >= state.until else (state, (FAIL,))


def _parole(state: State, event: Look, now: float) -> Step:
    if now < state.until:
        return state, ()
    state = _on_probation(state)
    return _start(state, event, now) if event.need.watched else (state._replace(phase=FAILED), ())


def _on_probation(state: State) -> State:
    return state._replace(failures=state.failures - 1)


def _forgive(state: State, event: Forgiven, now: float) -> Step:
    state = state._replace(failures=0, until=0.0)
    return _start(state, event, now) if any(event.need) else (state._replace(phase=STOPPED), ())


def _forget(state: State, event: Forgiven, now: float) -> Step:
    after = STOPPED if state.after == GIVEN_UP else state.after
    return state._replace(failures=0, until=0.0, after=after), ()


# --- ready


def _look(state: State, event: Look, now: float) -> Step:
    load = event.load
    state = state._replace(heard=state.heard or load.heard)
    if load.busy or load.used or any(event.need):
        state = state._replace(used=now)
    if load.gave_up:
        # A check in flight may have been sent before that call, so its answer shows nothing about the call.
        state = state._replace(unsettled=now + UNSETTLED_SECONDS, settled_by=state.checks + 1, asked=False)
    if state.terms.idle and now >= state.used + state.terms.idle:
        return state._replace(phase=STOPPING, after=IDLE, until=0.0), (STOP,)
    return _check(state, load.busy, now) if now >= state.check_at else (state, ())


def _check(state: State, busy: bool, now: float) -> Step:
    is_unsettled = now < state.unsettled
    missed = state.missed
    if busy or state.heard or not state.asked:
        missed = 0
    elif not is_unsettled and now <= state.check_at + LATE_SECONDS:
        missed += 1
    if missed >= CHECKS_MISSED:
        lost, _ = _was_lost(state, Lost(0.0, served=True), now)
        return lost, (STOP,)
    may_ask = state.terms.checked and not busy and not state.heard
    state = state._replace(check_at=now + CHECK_SECONDS, heard=False, missed=missed)
    if not may_ask:
        return state._replace(asked=False), ()
    if state.asked and is_unsettled:
        # A busy server would have to answer all checks afterwards.
        return state, ()
    return state._replace(asked=True, checks=state.checks + 1), (CHECK,)


def _answered(state: State, event: Answered, now: float) -> Step:
    unsettled = 0.0 if event.check >= state.settled_by else state.unsettled
    return state._replace(heard=True, unsettled=unsettled), ()


def _retire(state: State, event: Retired, now: float) -> Step:
    return state._replace(phase=RETIRED), (FAIL,)


Rule = Callable[[State, Any, float], Step]


def _row(*rules: Rule) -> dict[type, Rule]:
    return dict(zip(EVENTS, rules, strict=True))


# fmt: off
_TABLE: dict[str, dict[type, Rule]] = {
    #              Wanted        Started Failed         Lost       Gone      Look     Answered   Forgiven  Retired
    STOPPED:  _row(_start,       _same,  _same,         _same,     _same,    _same,   _same,     _forgive, _retire),
    IDLE:     _row(_start,       _same,  _same,         _same,     _same,    _same,   _same,     _forget,  _retire),
    STARTING: _row(_same,        _ready, _start_failed, _same,     _same,    _same,   _same,     _forget,  _retire),
    READY:    _row(_serve,       _same,  _same,         _was_lost, _same,    _look,   _answered, _forget,  _retire),
    STOPPING: _row(_await_end,   _same,  _same,         _same,     _is_gone, _same,   _same,     _forget,  _retire),
    PAUSED:   _row(_await_pause, _same,  _same,         _same,     _same,    _resume, _same,     _forgive, _retire),
    FAILED:   _row(_start,       _same,  _same,         _same,     _same,    _same,   _same,     _forgive, _retire),
    GIVEN_UP: _row(_try_again,   _same,  _same,         _same,     _same,    _parole, _same,     _forgive, _retire),
    RETIRED:  _row(_refuse,      _same,  _same,         _same,     _same,    _same,   _same,     _same,    _same),
}
# fmt: on

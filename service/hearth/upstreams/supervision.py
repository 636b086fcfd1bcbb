"""When one instance of a server is started, checked, ended and given up.

Pure: `step(state, event, now)` returns the next state and what is to be done. A shell (`supervisor`, `instance`) does
it, and tells what came of it.

The rules:

1. There is one process at a time. Another is started only when nothing is left of the former one.
2. It is started when a call needs it, or when it ended while somebody is subscribed to what it would tell.
3. The first failure is forgiven at once; each further one doubles the pause before the next start, with some jitter so
   that many do not start together. Calls that come in a pause wait for its end.
4. A server that ran for a while, or answered a call, is sound: its next failure counts as the first.
5. A server that keeps failing is given up: calls fail at once until a long pause is over, the config is reloaded, or
   somebody asks for it. After the pause it has one try, and is given up again if that fails, too.
6. Who waits is told of the first failed start, if the server has never been sound: a command that does not exist does
   not come to exist. One that has been is tried again before its callers hear of it.
7. A server from which nothing at all was heard for a while is checked by a cheap request, and ended when several checks
   in a row found silence. What is found while a call is in flight, or may still be worked on, proves nothing: a server
   may do one thing at a time. Nor does what is found by a late look: then it was Hearth that stood still.
8. A server that nobody has called for a while is ended, unless something is in flight or promised to somebody. That is
   no failure; it comes back with the next call.

How the phases follow each other; the table at the end of the file has every event in every phase:

    STOPPED ──wanted──▶ STARTING ──started──▶ READY ──idle──▶ STOPPING ──gone──▶ IDLE ──wanted──▶ STARTING
                            │                   └─lost, unheard─▶ STOPPING ──gone──▶ PAUSED, STOPPED or GIVEN_UP
                            └──failed──▶ PAUSED ──pause over, wanted──▶ STARTING
                                     ──▶ FAILED (no pause, nobody waits), or GIVEN_UP (too often)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

FIRST_PAUSE_SECONDS = 0.5
# A call waits for the end of a pause, and clients give up after a minute or so.
LONGEST_PAUSE_SECONDS = 30.0
# Of a pause, added to it by chance.
JITTER_SHARE = 0.25
# A server that ran this long is sound: its next failure counts as the first.
STABLE_SECONDS = 30.0
# Failures in a row. The pauses between them come to about eight seconds: more than a disk or a network
# that hiccups takes, and less than anybody waits for an answer.
RESTART_LIMIT = 6
# After which a server that was given up has another try: long enough to cost nothing, short enough that a server
# which was mended comes back while its user still wants it.
GIVEN_UP_SECONDS = 300.0
# How long a server is left alone that says nothing; as long, it has to answer a check.
CHECK_SECONDS = 30.0
# Checks in a row that found silence. Two minutes: starting up and collecting garbage take less.
CHECKS_MISSED = 3
# A look that comes so late was held up itself, and what was to be seen may not have been read yet.
LATE_SECONDS = 5.0
# A call that was given up may be worked on for so long: as long as a call may go without an answer by default.
UNSETTLED_SECONDS = 1800.0

# The words that `hearth status` shows.
STOPPED, STARTING, READY, STOPPING = "stopped", "starting", "ready", "stopping"
IDLE, PAUSED, FAILED, GIVEN_UP, RETIRED = "idle", "backing off", "failed", "given up", "retired"
# It does not run, and would if it could.
FAILING = frozenset({PAUSED, FAILED, GIVEN_UP})

# What the shell is to do: begin a start; end the process; send a check; tell those who wait that it is ready, or that
# they wait in vain.
START, STOP, CHECK, SERVE, FAIL = "start", "stop", "check", "serve", "fail"
Instructions = tuple[str, ...]


class Terms(NamedTuple):
    """What depends on the server. `limit`: None never gives up, `idle`: 0 never ends it, `checked`: for a process."""

    limit: int | None = RESTART_LIMIT
    idle: float = 0.0
    checked: bool = True


class State(NamedTuple):
    """All that is known of one instance."""

    terms: Terms
    phase: str = STOPPED
    # In a row, without having been sound.
    failures: int = 0
    # The end of the pause, or of having been given up.
    until: float = 0.0
    # Whether it has ever been sound.
    proven: bool = False
    # While it is ready: since when; when it was last seen in use; when it is checked next.
    since: float = 0.0
    used: float = 0.0
    check_at: float = 0.0
    # Whether it was heard since the last check, whether a check is out, how many in a row found silence.
    heard: bool = True
    asked: bool = False
    missed: int = 0
    # How many checks were sent.
    checks: int = 0
    # Until when it may be busy with what nobody waits for any longer, and the check whose answer tells that it is not.
    unsettled: float = 0.0
    settled_by: int = 0
    # Where it goes from a pause, or when nothing is left of its process.
    after: str = STOPPED


class Need(NamedTuple):
    """Who needs it: `waiting` calls, or those who are subscribed and have it `watched`."""

    waiting: bool = False
    watched: bool = False


class Load(NamedTuple):
    """What a ready one has done since it was last looked at, and has to do.

    `busy`: something is in flight, queued, parked or asked; `used`: it was called; `heard`: it said anything;
    `gave_up`: a call was withdrawn, and may be worked on.
    """

    busy: bool = False
    used: bool = False
    heard: bool = False
    gave_up: bool = False


# --- events


class Wanted(NamedTuple):
    """A call needs it."""


class Started(NamedTuple):
    """The handshake is done."""


class Failed(NamedTuple):
    """It could not be started, and nothing is left of its process. `chance`, from 0 to 1, is for the jitter.

    `counts`: False where it waits for a person to log in. That is told, and no failure.
    """

    chance: float
    need: Need
    counts: bool = True


class Lost(NamedTuple):
    """It was ready, and nothing can be said to it any more. `served`: it has answered a call."""

    chance: float
    served: bool


class Gone(NamedTuple):
    """Nothing is left of the process that was lost, or stopped."""

    need: Need


class Look(NamedTuple):
    """The time that `due` told has come."""

    need: Need
    load: Load


class Answered(NamedTuple):
    """It has answered that check, counted from 1."""

    check: int


class Forgiven(NamedTuple):
    """Somebody says that it may be mended."""

    need: Need


class Retired(NamedTuple):
    """It is not wanted ever again."""


EVENTS = (Wanted, Started, Failed, Lost, Gone, Look, Answered, Forgiven, Retired)
Event = Wanted | Started | Failed | Lost | Gone | Look | Answered | Forgiven | Retired
Step = tuple[State, Instructions]


def step(state: State, event: Event, now: float) -> Step:
    """What becomes of it, and what is to be done."""
    return _TABLE[state.phase][type(event)](state, event, now)


def due(state: State) -> float | None:
    """When it has to be looked at, if nothing happens before."""
    if state.phase in (PAUSED, GIVEN_UP):
        return state.until
    idle = state.terms.idle
    if state.phase != READY or not (idle or state.terms.checked):
        return None
    return min(state.check_at, state.used + idle) if idle else state.check_at


def pause_after(failures: int, chance: float) -> float:
    """Seconds between that failure, counted from 1, and the next start."""
    if failures <= 1:
        return 0.0
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (failures - 2), LONGEST_PAUSE_SECONDS) * (1 + JITTER_SHARE * chance)


# --- what the table is made of


def _same(state: State, event: Event, now: float) -> Step:
    """Nothing: it waits for something else, or the event is of a process that is over."""
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


# --- while it is ready


def _look(state: State, event: Look, now: float) -> Step:
    load = event.load
    state = state._replace(heard=state.heard or load.heard)
    if load.busy or load.used or any(event.need):
        state = state._replace(used=now)
    if load.gave_up:
        # A check that is out may have been sent before that call, and its answer tells nothing of it.
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
        # Whatever it is busy with, it would have to answer all of them afterwards.
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
